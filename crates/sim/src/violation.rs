//! What is checked, and how it can fail.

use std::fmt;

use super::faults::Assumption;

/// A guarantee that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// For every node, at most one acquisition counts it as granted.
    Lemma,
    /// At most one guard is valid.
    Exclusion,
    /// Nobody takes over a lost lease within the takeover delay.
    Takeover,
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
    /// A lease is released only when its holder knows.
    GivenBack,
    /// A repeated release succeeds only if an earlier one did.
    FreedByUs,
    /// Holds of one owner share one token.
    ReEntry,
    /// No key of an abandoned attempt stays on a node.
    Leak,
    /// Every client that asks gets the lock once the faults have stopped.
    Liveness,
    /// Waiters soon ask for a lock that becomes free, and one of them has it soon.
    Wake,
}

/// How an invariant failed. Attempts are numbered as in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // `Display` says it in words
pub enum Violation {
    TwoBelieve { node: usize, attempts: [usize; 2] },
    TwoHolders { attempts: [usize; 2] },
    TakenOverEarly { attempts: [usize; 2], by_us: u64 },
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
    NotAsked { node: usize, name: String, after_us: u64 },
    HandedToSilent { node: usize, attempt: usize, after_us: u64 },
    RefusedByOwn { node: usize, attempts: [usize; 2] },
}

impl Invariant {
    /// All invariants.
    pub const ALL: [Self; 14] = [
        Self::Lemma,
        Self::Exclusion,
        Self::Takeover,
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

    /// The assumptions that the invariant needs; without them it may fail.
    pub fn needs(self) -> &'static [Assumption] {
        use Assumption::{ClientClock, Continuity, Marks, Memory, Oblivion, Rates};
        match self {
            Self::Lemma | Self::Exclusion | Self::Takeover => &[Rates, ClientClock, Continuity],
            Self::Tokens | Self::Register => &[Marks],
            Self::Order => &[Rates, ClientClock, Continuity, Marks],
            Self::ToldInTime | Self::ForAReason => &[ClientClock],
            Self::FreedByUs => &[Rates, ClientClock, Memory],
            Self::Leak => &[Continuity, Oblivion],
            // No client admits a node whose clock is set wrong (PROTOCOL.md MEM3).
            Self::Liveness => &[Rates],
            Self::GivenBack | Self::ReEntry | Self::Wake => &[],
        }
    }
}

impl Violation {
    /// The invariant that failed.
    pub fn invariant(&self) -> Invariant {
        match self {
            Self::TwoBelieve { .. } => Invariant::Lemma,
            Self::TwoHolders { .. } => Invariant::Exclusion,
            Self::TakenOverEarly { .. } => Invariant::Takeover,
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
            Self::NotWoken { .. }
            | Self::NotAsked { .. }
            | Self::HandedToSilent { .. }
            | Self::RefusedByOwn { .. } => Invariant::Wake,
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
            Self::TakenOverEarly { attempts: [lost, attempt], by_us } => write!(
                f,
                "attempt a{attempt} took over from a{lost} {by_us} us before the takeover delay was over"
            ),
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
            Self::NotWoken { .. }
            | Self::NotAsked { .. }
            | Self::HandedToSilent { .. }
            | Self::RefusedByOwn { .. } => self.of_waiting(f),
        }
    }
}

impl Violation {
    fn of_waiting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWoken { attempt, after_us } => write!(
                f,
                "the lock was free and waited for, and attempt a{attempt} got it after {after_us} us"
            ),
            Self::NotAsked { node, name, after_us } => write!(
                f,
                "node n{node} released {name:?}, and none of its waiters asked within {after_us} us"
            ),
            Self::HandedToSilent { node, attempt, after_us } => write!(
                f,
                "node n{node} handed its lock off to attempt a{attempt}, of {after_us} us before"
            ),
            Self::RefusedByOwn { node, attempts: [own, attempt] } => write!(
                f,
                "node n{node} refused attempt a{attempt}, whose call has the lock as attempt a{own}"
            ),
            _ => Ok(()),
        }
    }
}
