use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::TryRng;
use rand::rngs::SysRng;

use crate::ConfigError;

/// 128 fresh random bits for each acquisition, from the operating system: not from a generator in
/// this process, which a cloned machine would share with its twin (SAFETY.md A5, H20).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(u128);

impl Nonce {
    /// A fresh one.
    ///
    /// # Errors
    /// [`ConfigError::System`] when the operating system has no random numbers.
    pub fn fresh() -> Result<Self, ConfigError> {
        let mut bytes = [0; 16];
        SysRng
            .try_fill_bytes(&mut bytes)
            .map_err(|e| ConfigError::System { what: "random numbers", why: e.to_string() })?;
        Ok(Self(u128::from_ne_bytes(bytes)))
    }

    /// A given one: for tests and simulations.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// In the forms of a uuid.
    pub(crate) const fn uuid(self) -> uuid::Uuid {
        uuid::Uuid::from_u128(self.0)
    }

    /// What stands on a node, read back in either wire's form; `None` if it is not one of ours.
    pub fn parse(id: &str) -> Option<Self> {
        let nonce = id.split_once(':').map_or(id, |(nonce, _)| nonce);
        uuid::Uuid::try_parse(nonce).ok().map(|nonce| Self(nonce.as_u128()))
    }

    /// In the form `8-4-4-4-12` of hexadecimal digits, as Redisson's client ids.
    pub fn hyphenated(self) -> impl fmt::Display {
        self.uuid().hyphenated()
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

/// Under what a client has verified a node's memory: fresh at each admission of the node and at each
/// barrier (docs/SAFETY.md, Admission).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp(u128);

/// As in a node's record.
impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Stamp {
    /// Of a node that was not verified yet, or needs no proof.
    pub const NONE: Self = Self(0);

    /// A given one; `None` unless it is 32 hexadecimal digits, as a [`Nonce`] is written.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

/// A fencing token: the later of two holders of one name has the larger one.
///
/// Send it with every write; the resource must refuse a token that is smaller than one it has
/// seen, and a holder must claim (write its token) before it reads. The order
/// rests on no clock while no node that accepted a token loses its marks (docs/SAFETY.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// Below every token.
    pub const NONE: Self = Self(0);
    /// No token is larger: 2^53 - 2^20 - 1, which leaves room below 2^53, up to which doubles are exact, in Lua
    /// and in JSON. A node whose mark is beyond gives no token
    /// ([`NodeProblem::BadMark`](crate::NodeProblem::BadMark)).
    pub const MAX: Self = Self((1 << 53) - (1 << 20) - 1);
    /// A mark as high as this leaves no room for another block.
    pub(crate) const FULL: Self = Self(Self::MAX.0 - 2 * Self::BLOCK);
    /// How many tokens an acquisition gets: the block that ends with the accepted one, for holds in a row in
    /// one process.
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

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.0
    }
}

/// Who holds a name, as the nodes say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// What stands on the node: the nonce of that acquisition, in its wire's form.
    pub id: String,
    /// How long the lease lasts unless renewed; `None` if the key has no expiry.
    pub remaining: Option<Duration>,
    /// How many holds share the lease.
    pub holds: u32,
}

impl Holder {
    /// For lessors.
    pub fn new(id: String, remaining: Option<Duration>, holds: u32) -> Self {
        Self { id, remaining, holds }
    }

    /// Whether this is the hold with that nonce ([`Guard::nonce`](crate::Guard::nonce)), in either
    /// wire's form: Redisson's has hyphens, and its locker's id behind it.
    pub fn has(&self, nonce: Nonce) -> bool {
        let mut digits = self.id.chars().filter(|c| *c != '-');
        let ours = nonce.to_string();
        digits.by_ref().take(ours.len()).eq(ours.chars())
            && matches!(digits.next(), None | Some(':'))
    }
}

/// Who re-enters: locks taken through the same owner (and its clones) of one locker share one lease.
///
/// Explicit, because a task moves between threads: two `lock("x")` without an owner exclude each
/// other.
#[derive(Clone, Debug)]
pub struct Owner(Arc<u64>);

impl Owner {
    /// A new owner, different from all others.
    pub fn new() -> Self {
        Self(Arc::new(next_id()))
    }

    pub(crate) fn of(id: u64) -> Self {
        Self(Arc::new(id))
    }

    pub(crate) fn id(&self) -> u64 {
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

/// A number for `text` and what `before` stands for (FNV-1a): programs of any version agree on it.
pub fn fingerprint(before: u64, text: &str) -> u64 {
    text.bytes().fold(before, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Unique in this process.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

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
