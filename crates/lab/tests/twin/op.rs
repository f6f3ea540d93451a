use quorumlock_core::{InLine, Offer, Spot};

/// One request, or something that happens to the node.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Acquire {
        at: (usize, usize),
        ttl: usize,
        token: Token,
        line: Option<InLine>,
        /// Who asked before in its place, if it may be handed the name.
        before: Option<usize>,
        plain: bool,
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
    Recreate {
        at: (usize, usize),
        ttl: usize,
        by: i64,
    },
    Release {
        at: (usize, usize),
        spot: Option<Spot>,
    },
    Inspect {
        name: usize,
    },
    Force {
        name: usize,
    },
    Leave {
        at: (usize, usize),
        offer: Option<Offer>,
    },
    Delete {
        name: usize,
    },
    Wait,
    Flush,
    Examine,
    Note,
    Barrier,
    Admit {
        right: bool,
    },
    Provision {
        replace: bool,
    },
}

/// What an acquisition proposes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token {
    None,
    Now,
    /// By a clock that is two hours behind.
    Behind,
    /// What was proposed last.
    Again,
}
