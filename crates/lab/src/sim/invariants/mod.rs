//! What must hold, one invariant per file, each headed by the source of its rule.
//!
//! | invariant | rule | rests on |
//! |---|---|---|
//! | `lemma` | per-node lemma | A1, A2, A3 |
//! | `exclusion` | G1, G2 | A1, A2, A3 |
//! | `tokens` | G3, theorem F | A7 |
//! | `order` | G3, order of holds | A1, A2, A3, A7 |
//! | `register` | G4 | A7 |
//! | `told_in_time` | G5 | A2 |
//! | `for_a_reason` | G5 | A2 |
//! | `given_back` | H26 | - |
//! | `freed_by_us` | G6 (decision 0031) | A1, A2; A3 while a server lives |
//! | `re_entry` | G8 | - |
//! | `leak` | clean-up (H16, H17) | A3 |
//! | `liveness` | G6 | - |
//! | `wake` | waiting (e1 to e6) | - |

mod exclusion;
mod for_a_reason;
pub(super) mod freed_by_us;
mod given_back;
pub(super) mod leak;
pub(super) mod lemma;
pub(super) mod liveness;
mod re_entry;
mod register;
mod tokens;
mod told_in_time;
pub(super) mod wake;

use std::fmt;

use super::faults::Assumption;
pub(super) use exclusion::check as check_exclusion;
pub(super) use for_a_reason::check as check_reason;
pub(super) use given_back::check as check_given_back;
pub(super) use re_entry::check as check_re_entry;
pub(super) use register::Register;
pub(super) use tokens::Tokens;
pub(super) use told_in_time::check as check_told;

/// A guarantee that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// On every node at most one acquisition is believed in.
    Lemma,
    /// At most one guard is valid.
    Exclusion,
    /// Tokens are unique, and ordered in real time.
    Tokens,
    /// Tokens are in the order of the holds.
    Order,
    /// No update of a fenced resource is lost.
    Register,
    /// A holder hears of a loss in time.
    ToldInTime,
    /// A holder hears of a loss only if there is one.
    ForAReason,
    /// Nodes are given back only when the holder knows.
    GivenBack,
    /// A repeated release succeeds only if an earlier one did.
    FreedByUs,
    /// Holds of one owner share one token.
    ReEntry,
    /// Nothing of ours stays on a node.
    Leak,
    /// Everybody gets the lock once the faults have stopped.
    Liveness,
    /// A free lock is taken soon by whoever waits for it.
    Wake,
}

/// How an invariant fell. Attempts are numbered as in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // `Display` says it in words
pub enum Violation {
    TwoBelieve { node: usize, attempts: [usize; 2] },
    TwoHolders { attempts: [usize; 2] },
    TokenRepeated { attempt: usize, token: u64 },
    TokenBackward { attempt: usize, token: u64, after: u64 },
    HoldBehind { attempt: usize, token: u64, before: u64 },
    LostUpdate { token: u64 },
    ToldLate { attempt: usize, by_us: u64 },
    GivenBackEarly { attempt: usize, by_us: u64 },
    NotFreed { node: usize, attempt: usize },
    NewToken { attempt: usize, outer: u64, inner: u64 },
    NoReason { attempt: usize, why: String },
    Leaked { node: usize, attempt: usize, why: &'static str },
    LeftBehind { node: usize, name: String },
    NotAcquired { client: usize, after_us: u64, why: String },
    NotWoken { attempt: usize, after_us: u64 },
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Lemma,
        Self::Exclusion,
        Self::Tokens,
        Self::Order,
        Self::Register,
        Self::ToldInTime,
        Self::ForAReason,
        Self::GivenBack,
        Self::FreedByUs,
        Self::ReEntry,
        Self::Leak,
        Self::Liveness,
        Self::Wake,
    ];

    /// The assumptions without which it may fall.
    pub fn needs(self) -> &'static [Assumption] {
        use Assumption::{ClientClock, Continuity, Marks, Memory, Oblivion, Rates};
        match self {
            Self::Lemma | Self::Exclusion => &[Rates, ClientClock, Continuity],
            Self::Tokens | Self::Register => &[Marks],
            Self::Order => &[Rates, ClientClock, Continuity, Marks],
            Self::ToldInTime | Self::ForAReason => &[ClientClock],
            Self::FreedByUs => &[Rates, ClientClock, Memory],
            Self::Leak => &[Continuity, Oblivion],
            Self::GivenBack | Self::ReEntry | Self::Liveness | Self::Wake => &[],
        }
    }
}

impl Violation {
    /// Which invariant fell.
    pub fn invariant(&self) -> Invariant {
        match self {
            Self::TwoBelieve { .. } => Invariant::Lemma,
            Self::TwoHolders { .. } => Invariant::Exclusion,
            Self::TokenRepeated { .. } | Self::TokenBackward { .. } => Invariant::Tokens,
            Self::HoldBehind { .. } => Invariant::Order,
            Self::LostUpdate { .. } => Invariant::Register,
            Self::ToldLate { .. } => Invariant::ToldInTime,
            Self::NoReason { .. } => Invariant::ForAReason,
            Self::GivenBackEarly { .. } => Invariant::GivenBack,
            Self::NotFreed { .. } => Invariant::FreedByUs,
            Self::NewToken { .. } => Invariant::ReEntry,
            Self::Leaked { .. } | Self::LeftBehind { .. } => Invariant::Leak,
            Self::NotAcquired { .. } => Invariant::Liveness,
            Self::NotWoken { .. } => Invariant::Wake,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoBelieve { node, attempts: [a, b] } => {
                write!(f, "attempts a{a} and a{b} both believe in node n{node}")
            }
            Self::TwoHolders { attempts: [a, b] } => {
                write!(f, "the guards of attempts a{a} and a{b} are both valid")
            }
            Self::TokenRepeated { attempt, token } => {
                write!(f, "attempt a{attempt} got token {token}, which another has")
            }
            Self::TokenBackward { attempt, token, after } => write!(
                f,
                "attempt a{attempt} got token {token}, but {after} was out before it began"
            ),
            Self::HoldBehind { attempt, token, before } => {
                write!(f, "attempt a{attempt} holds with token {token}, after a hold with {before}")
            }
            Self::LostUpdate { token } => {
                write!(f, "the resource took a write with token {token} that undid another")
            }
            Self::ToldLate { attempt, by_us } => {
                write!(f, "the holder of attempt a{attempt} was told of its loss {by_us} us late")
            }
            Self::NoReason { attempt, why } => {
                write!(f, "attempt a{attempt} was lost without a reason: {why}")
            }
            Self::GivenBackEarly { attempt, by_us } => write!(
                f,
                "attempt a{attempt} was given back {by_us} us before its holder can know of its loss"
            ),
            Self::NotFreed { node, attempt } => write!(
                f,
                "no release has freed attempt a{attempt} at node n{node}, and its repeat succeeds"
            ),
            Self::NewToken { attempt, outer, inner } => write!(
                f,
                "the owner that holds attempt a{attempt} with token {outer} entered again with {inner}"
            ),
            Self::Leaked { node, attempt, why } => {
                write!(f, "node n{node} keeps the key of attempt a{attempt}: {why}")
            }
            Self::LeftBehind { node, name } => {
                write!(f, "node n{node} holds {name:?} after all was released")
            }
            Self::NotAcquired { client, after_us, why } => {
                write!(f, "client c{client} has no lock {after_us} us after it asked: {why}")
            }
            Self::NotWoken { attempt, after_us } => write!(
                f,
                "the lock was free and waited for, and attempt a{attempt} got it after {after_us} us"
            ),
        }
    }
}
