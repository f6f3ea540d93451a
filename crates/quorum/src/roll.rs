use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use quorumlock_core::{Answer, Denial, Instant, Nonce, Window};

/// Of every lease that stands, which node surely holds it until when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roll(Arc<Mutex<HashMap<Nonce, Window>>>);

impl Roll {
    pub(crate) fn enter(&self, nonce: Nonce, window: Window) {
        self.with(|windows| windows.insert(nonce, window));
    }

    /// Ends the lease; true if it stood.
    pub(crate) fn strike(&self, nonce: Nonce) -> bool {
        self.with(|windows| windows.remove(&nonce).is_some())
    }

    /// Notes what a node said of a lease. False if the lease has ended: a yes must be released.
    pub(crate) fn note(&self, nonce: Nonce, node: usize, answer: &Answer<Instant>) -> bool {
        self.with(|windows| {
            let Some(window) = windows.get_mut(&nonce) else { return false };
            match answer {
                Answer::Yes(until) => window.holds(node, *until),
                // Also of a node whose memory is not proven: it counts for nothing, renewals included.
                Answer::No(Denial::Gone | Denial::Busy(_) | Denial::NotAdmitted(_)) => {
                    window.holds_not(node)
                }
                // Unknown changes nothing.
                Answer::No(_) | Answer::Silent(_) => {}
            }
            true
        })
    }

    /// Until when the lease is valid; `None` if it has ended.
    pub(crate) fn until(&self, nonce: Nonce) -> Option<Instant> {
        self.with(|windows| windows.get(&nonce).map(Window::until))
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Nonce, Window>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
