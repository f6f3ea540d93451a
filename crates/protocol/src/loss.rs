use std::fmt;

/// Why a lease is no longer valid. Final: a lost lease never becomes valid again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// No renewal was confirmed in time: the window shut on our own clock.
    WindowShut,
    /// The lessor definitely said that it no longer holds our nonce.
    Gone,
    /// The lessor no longer holds our nonce, and a message had just said that somebody released it by
    /// force.
    Forced,
    /// The hold reached its limit, `hold_at_most`.
    HoldLimit,
    /// The holder itself released it.
    Released,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WindowShut => "no renewal was confirmed before the lease ended",
            Self::Gone => "the nodes no longer hold it (expired, deleted, evicted or taken over)",
            Self::Forced => "somebody released it by force",
            Self::HoldLimit => "its hold_at_most limit was reached",
            Self::Released => "it was released",
        })
    }
}
