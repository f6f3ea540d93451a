use std::time::Duration;

use quorumlock_protocol::{EnqueueRequest, HandoffOffer};

/// One request, or something that happens to the node.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Acquire {
        at: (usize, usize),
        ttl: usize,
        token: Token,
        enqueue: Option<EnqueueRequest>,
        /// The client whose nonce was in the queue before, for an acquisition with an offer.
        previous: Option<usize>,
        by_txn: bool,
    },
    Raise {
        at: (usize, usize),
        by: i64,
    },
    Renew {
        at: (usize, usize),
        ttl: usize,
        holds: u32,
    },
    Regrant {
        at: (usize, usize),
        ttl: usize,
        by: i64,
    },
    Release {
        at: (usize, usize),
        /// The client keeps its place in the queue, and has waited for so long.
        keeps_place: Option<Duration>,
    },
    Inspect {
        name: usize,
    },
    Force {
        name: usize,
    },
    Dequeue {
        at: (usize, usize),
        handoff: Option<HandoffOffer>,
    },
    Delete {
        name: usize,
    },
    Wait,
    Flush,
    NodeInfo,
    Note {
        list: usize,
        takes_over: bool,
    },
    Barrier,
    Admit {
        right: bool,
        young: bool,
    },
    WriteTerms {
        by: u64,
        list: usize,
    },
    Provision {
        seen: bool,
    },
}

/// The token that an acquisition proposes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token {
    None,
    Now,
    /// From a clock that is two hours behind.
    Behind,
    /// The token that was proposed last.
    Again,
}
