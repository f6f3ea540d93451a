//! Handoffs that a reply told before their message (PROTOCOL.md W5).

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use quorumlock_protocol::Nonce;

/// The attempts that have a name by handoff, as the reply to a later request said. The message of such a
/// handoff may still come: nobody waits for it then, and it must not be taken for one to give back.
/// Messages of a subscription that has ended come no more.
#[derive(Debug, Default)]
pub(super) struct TakenUp(Mutex<VecDeque<Nonce>>);

/// Most messages have come long before so many others are lost.
const MAX_REMEMBERED: usize = 1_024;

impl TakenUp {
    /// A reply told that the attempt has the name.
    pub(super) fn add(&self, nonce: Nonce) {
        let mut nonces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if nonces.len() == MAX_REMEMBERED {
            nonces.pop_front();
        }
        nonces.push_back(nonce);
    }

    /// The message of a handoff came: whether a reply told of it before. Forgets the attempt.
    pub(super) fn take(&self, nonce: Nonce) -> bool {
        let mut nonces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = nonces.iter().position(|other| *other == nonce);
        at.and_then(|at| nonces.remove(at)).is_some()
    }

    /// A subscription begins: messages of the one before come no more.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
