/// How leases are held: the library's way and planted bugs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The library's rule: each share of a key ends by itself, by the node's clock. A lease that was
    /// lost is released when the takeover delay has passed.
    Library,
    /// Planted, M24: a key has one end for all who share it, and the last request sets it.
    ExpiryPerKey,
    /// Planted, M24: a request drops the shares that have ended by its client's clock, which is
    /// ahead.
    PurgeByClient,
    /// Planted, M24: a node grants any free slot, and the client counts it.
    AnySlot,
    /// Planted, M26: a lease that was lost is released at once.
    ReleasesLost,
    /// Planted, M26: the quarantine of a node is as long as a lease, without the takeover delay.
    ShortQuarantine,
    /// Planted, M26: the holder counts on its lease and the takeover delay.
    CountsDelay,
}

/// By how many ticks the clocks of clients are ahead, where that matters.
pub(super) const AHEAD: u8 = 1;
