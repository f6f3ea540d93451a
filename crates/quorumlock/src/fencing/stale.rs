use std::fmt;

use crate::FencingToken;

/// The resource refused a token, because it has seen a larger one. A later holder exists, so the
/// lock of the holder that presented the token is gone. That holder must stop its work. Retrying
/// cannot help; only a new lock can, with its new token and a new reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stale {
    /// The largest token that the resource has seen.
    pub seen: FencingToken,
    /// The token that was refused.
    pub given: FencingToken,
}

impl Stale {
    /// For resources of your own that check tokens.
    #[doc(hidden)]
    pub const fn new(seen: FencingToken, given: FencingToken) -> Self {
        Self { seen, given }
    }
}

impl std::error::Error for Stale {}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seen, given } = self;
        if *given == FencingToken::NONE {
            return f.write_str("no fencing token: take the lock with fencing");
        }
        write!(f, "fencing token {given} is stale: {seen} has claimed; stop, the lock is lost")
    }
}
