//! A mid-round fault that is planned (mid_round_faults.rs).

use quorumlock_protocol::Nonce;

use super::time::Micros;

/// A mid-round fault that waits for a round to reach the victim.
#[derive(Clone, Copy, Debug)]
pub struct WithheldVotes {
    pub nonce: Nonce,
    pub victim: usize,
    /// Whether the connections to nodes that the majority needs break and are dialled anew;
    /// otherwise they are cut for a while.
    pub dials: bool,
    /// Whether the client hears of the victim's grant before it stops.
    pub after_grant: bool,
    pub lasts: Micros,
    /// No other mid-round fault begins before this time.
    pub over: Micros,
    pub triggered: bool,
}
