use std::fmt;
use std::num::{ParseIntError, TryFromIntError};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::TryRng;
use rand::rngs::SysRng;

use crate::ConfigError;

/// 128 random bits that name one acquisition. The first 80 are fresh. They come from the operating
/// system, not from a generator in this process, which a cloned machine would share with its copy
/// (SAFETY.md A5, H20). The last 48 are the same for all nonces of one locker, so that people can tell
/// whose they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(u128);

impl Nonce {
    /// A fresh nonce.
    ///
    /// # Errors
    /// [`ConfigError::System`] when the operating system has no random numbers.
    #[doc(hidden)]
    pub fn fresh() -> Result<Self, ConfigError> {
        let mut bytes = [0; 16];
        SysRng
            .try_fill_bytes(&mut bytes)
            .map_err(|e| ConfigError::System { what: "random numbers", why: e.to_string() })?;
        Ok(Self(u128::from_ne_bytes(bytes)))
    }

    /// A nonce with these bits: for tests and simulations.
    #[doc(hidden)]
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The bits of the nonce.
    #[doc(hidden)]
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// This nonce as one of the locker whose nonces end as `first` does.
    #[must_use]
    #[doc(hidden)]
    pub const fn of_locker(self, first: Self) -> Self {
        Self(self.0 & !Self::LOCKER | first.0 & Self::LOCKER)
    }

    /// The bits that all nonces of one locker share, as 12 hexadecimal digits.
    #[doc(hidden)]
    pub fn locker_id(self) -> String {
        format!("{:012x}", self.0 & Self::LOCKER)
    }

    const LOCKER: u128 = (1 << 48) - 1;

    /// Reads a nonce back from a node, in the form of either layout; `None` if it is not one
    /// of ours.
    #[doc(hidden)]
    pub fn parse(id: &str) -> Option<Self> {
        let nonce = id.split_once(':').map_or(id, |(nonce, _)| nonce);
        uuid::Uuid::try_parse(nonce).ok().map(|nonce| Self(nonce.as_u128()))
    }

    /// The form `8-4-4-4-12` of hexadecimal digits, like Redisson's client ids.
    #[doc(hidden)]
    pub fn hyphenated(self) -> impl fmt::Display {
        uuid::Uuid::from_u128(self.0).hyphenated()
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({self})")
    }
}

/// The incarnation under which a client has verified a node's memory: fresh at each admission of
/// the node and at each barrier (docs/PROTOCOL.md, Admission).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Incarnation(u128);

/// 32 hexadecimal digits, as in a node's admission record.
impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Incarnation {
    /// The incarnation of a node that was not verified yet, or needs no proof.
    #[doc(hidden)]
    pub const NONE: Self = Self(0);

    /// Reads an incarnation; `None` unless the text is 32 hexadecimal digits.
    #[doc(hidden)]
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

/// A fencing token: of two holders of one name, the later has the larger token.
///
/// Send it with every write. The resource must refuse a token that is smaller than one it has seen,
/// and a holder must claim (write its token) before it reads. The order rests on no clock while no
/// node that accepted a token loses its marks (docs/SAFETY.md).
///
/// As text, and with the feature `serde`, it is its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct FencingToken(u64);

impl FencingToken {
    /// No token; it is below every token.
    pub const NONE: Self = Self(0);
    /// The largest token: 2^53 - 2^20 - 1. This leaves room below 2^53, up to which doubles are
    /// exact, in Lua and in JSON. A node whose mark is beyond it gives no token
    /// ([`NodeProblem::BadMark`](crate::NodeProblem::BadMark)).
    pub const MAX: Self = Self((1 << 53) - (1 << 20) - 1);
    /// A mark at this value or above leaves no room for another block.
    #[doc(hidden)]
    pub const FULL: Self = Self(Self::MAX.0 - 2 * Self::BLOCK);
    /// How many tokens an acquisition gets: the block that ends with the accepted token, for
    /// consecutive holds in one process.
    #[doc(hidden)]
    pub const BLOCK: u64 = 32;

    /// A token read back from where it was stored.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Reads a token from a decimal number, as [`FencingToken`] displays it.
impl FromStr for FencingToken {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

/// For signed columns, such as SQL's `BIGINT`. Every token fits, because [`FencingToken::MAX`] is below
/// 2^53. A larger number, which no lock ever has, becomes `i64::MAX`: it keeps its order.
impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        Self::try_from(token.0).unwrap_or(Self::MAX)
    }
}

/// A token read back from a signed column. Fails for a negative number.
impl TryFrom<i64> for FencingToken {
    type Error = TryFromIntError;

    fn try_from(value: i64) -> Result<Self, TryFromIntError> {
        u64::try_from(value).map(Self)
    }
}

/// Who holds a name, as the nodes tell.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The nonce of the acquisition, in the form that its layout stores on the node.
    pub id: String,
    /// How long the lease lasts unless it is renewed; `None` if the key has no expiry.
    pub remaining: Option<Duration>,
    /// How many holds share the lease.
    pub holds: u32,
    /// The label of the hold ([`LockRequest::label`]) or of the holder's locker ([`Builder::label`]), as that
    /// locker wrote it; `None` if it is not known. For people: anybody who may write to the nodes can write
    /// one.
    ///
    /// [`LockRequest::label`]: https://docs.rs/quorumlock/latest/quorumlock/struct.LockRequest.html#method.label
    /// [`Builder::label`]: https://docs.rs/quorumlock/latest/quorumlock/struct.Builder.html#method.label
    pub label: Option<String>,
    /// The last token that its nodes accepted in the hash slot of the name. It is the holder's, unless the
    /// holder locks without tokens, or another name of the same slot was locked since. `None`: there is none,
    /// or it is not known.
    ///
    /// By default a token is the wall clock of the client that took the lock, in microseconds.
    pub last_token: Option<FencingToken>,
    /// How many wait in the queue of the name. `None`: it is not known.
    pub waiters: Option<u64>,
}

impl Holder {
    /// A holder as a lessor read it from the nodes.
    #[doc(hidden)]
    pub fn new(id: String, remaining: Option<Duration>, holds: u32) -> Self {
        Self { id, remaining, holds, label: None, last_token: None, waiters: None }
    }

    /// The id of several readers of a read-write lock.
    pub const READERS: &'static str = "readers";

    /// Whether it reads a read-write lock: one reader, or several.
    pub fn reads(&self) -> bool {
        self.id == Self::READERS || self.id.ends_with(":r")
    }

    /// Whether this is the hold with that nonce (`Guard::nonce`), in the form of either layout
    /// format: Redisson's has hyphens, and is followed by the id of its locker.
    pub fn has(&self, nonce: Nonce) -> bool {
        let mut digits = self.id.chars().filter(|c| *c != '-');
        let ours = nonce.to_string();
        digits.by_ref().take(ours.len()).eq(ours.chars())
            && matches!(digits.next(), None | Some(':'))
    }
}

/// Who re-enters a lock: locks taken through one owner (and its clones) of one locker share one
/// lease.
///
/// The owner is explicit because a task moves between threads: two `lock("x")` without an owner
/// exclude each other.
#[derive(Clone, Debug)]
pub struct Owner(Arc<u64>);

impl Owner {
    /// A new owner, different from all others.
    pub fn new() -> Self {
        Self(Arc::new(next_id()))
    }

    /// Its number, unique in this process.
    #[doc(hidden)]
    pub fn id(&self) -> u64 {
        *self.0
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Owner {}

/// Hashes `text`, starting from the hash `before` (FNV-1a): programs of any version compute the
/// same number.
pub fn fnv1a(before: u64, text: &str) -> u64 {
    text.bytes().fold(before, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A number that is unique in this process.
pub fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_a_signed_column_and_text() {
        for token in [FencingToken::NONE, FencingToken::new(33), FencingToken::MAX] {
            assert_eq!(FencingToken::try_from(i64::from(token)), Ok(token));
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        assert_eq!(i64::from(FencingToken::new(u64::MAX)), i64::MAX, "the order stays");
        assert!(FencingToken::try_from(-1).is_err() && "-1".parse::<FencingToken>().is_err());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_token_is_a_number_in_json() {
        let text = serde_json::to_string(&FencingToken::MAX).unwrap();
        assert_eq!(text, FencingToken::MAX.get().to_string());
        assert_eq!(serde_json::from_str::<FencingToken>(&text).unwrap(), FencingToken::MAX);
    }

    #[test]
    fn a_nonce_is_read_back_in_either_wires_form() {
        let nonce = Nonce::from_u128(0x12ab << 96 | 7);
        assert_eq!(Nonce::parse(&nonce.to_string()), Some(nonce));
        assert_eq!(Nonce::parse(&format!("{}:42", nonce.hyphenated())), Some(nonce));
        assert_eq!(Nonce::parse("somebody:1"), None);
    }

    #[test]
    fn a_holder_has_the_nonce_that_its_id_shows_in_either_wire() {
        let nonce = Nonce::from_u128(0x12ab << 96 | 7);
        let holder = |id: String| Holder::new(id, None, 1);
        assert!(holder(nonce.to_string()).has(nonce));
        assert!(holder(format!("{}:42", nonce.hyphenated())).has(nonce));
        for other in [Nonce::from_u128(8).to_string(), format!("{nonce}0"), "12ab".to_owned()] {
            assert!(!holder(other.clone()).has(nonce), "{other}");
        }
        assert!(!holder(String::new()).has(nonce));
    }
}
