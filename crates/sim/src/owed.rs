//! A released name for which a waiter is to ask (PROTOCOL.md W3).

use quorumlock_protocol::{Claim, Name};

use super::time::Micros;

/// A release that left its name free, and after which no waiter has asked yet.
#[derive(Debug)]
pub struct Owed {
    pub node: usize,
    pub name: Name,
    pub at: Micros,
    /// The processes that were in the queue, ran, and could hear of it, and what each waits for.
    pub waiters: Vec<(usize, Claim)>,
}

impl Owed {
    /// Whether the process waited for what was released, and the claim is for it.
    pub fn is_of(&self, client: usize, claim: &Claim) -> bool {
        self.waiters.iter().any(|(waiter, _)| *waiter == client) && self.is_for(claim)
    }

    pub fn is_for(&self, claim: &Claim) -> bool {
        let queue = self.name.queue();
        claim.names().any(|name| name.queue() == queue)
    }
}
