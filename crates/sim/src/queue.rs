//! The wait queue of one name, and its members.

use std::collections::BTreeMap;

use quorumlock_protocol::{EnqueueRequest, HandoffOffer, Nonce};

use super::time::{Micros, millis};

/// The queue of one name.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// When the queue expires, in milliseconds of the node's clock.
    pub until: u64,
    pub waiting: BTreeMap<QueueMember, Micros>,
    /// A waiter was notified and has not come yet (the member '' of the real queue).
    pub notified: bool,
}

/// A queue member: a client, and the handoff that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueMember {
    pub client: usize,
    /// The client's last lease request, if the name may be handed off to it: nonce, lease in
    /// milliseconds, whether it gets tokens.
    pub handoff: Option<(u128, u64, bool)>,
}

impl QueueMember {
    pub fn of(client: usize, offered: Option<(Nonce, HandoffOffer)>) -> Self {
        let offered = offered.map(|(nonce, HandoffOffer { ttl, fencing })| {
            let bits = u128::from_str_radix(&nonce.to_string(), 16).unwrap_or_default();
            (bits, millis(ttl), fencing)
        });
        Self { client, handoff: offered }
    }

    /// The client's queue member after an attempt under `nonce`, and its member before.
    pub fn at(client: usize, nonce: Nonce, enqueue: EnqueueRequest) -> (Self, Self) {
        let as_of = |nonce| Self::of(client, enqueue.handoff.map(|offer| (nonce, offer)));
        let now = as_of(nonce);
        (now, enqueue.previous.map_or(now, as_of))
    }
}
