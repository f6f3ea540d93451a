use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use quorumlock_core::{Answer, Denial, Fence, Instant, Nonce, Window};

/// Of every lease that stands, which node surely holds it until when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roll(Arc<Mutex<HashMap<Nonce, Entry>>>);

#[derive(Debug)]
struct Entry {
    window: Window,
    fence: Fence,
    /// Nodes that said no since: a late yes to the acquisition, which they gave before, counts for
    /// nothing any more.
    denied: Vec<usize>,
}

impl Roll {
    pub(crate) fn enter(&self, nonce: Nonce, window: Window, fence: Fence) {
        self.with(|entries| entries.insert(nonce, Entry { window, fence, denied: Vec::new() }));
    }

    /// Ends the lease; true if it stood.
    pub(crate) fn strike(&self, nonce: Nonce) -> bool {
        self.with(|entries| entries.remove(&nonce).is_some())
    }

    /// Notes what a node said of a lease. False if the lease has ended: a yes must be released.
    pub(crate) fn note(&self, nonce: Nonce, node: usize, answer: &Answer<Instant>) -> bool {
        self.with(|entries| {
            let Some(entry) = entries.get_mut(&nonce) else { return false };
            match answer {
                Answer::Yes(until) => {
                    entry.window.holds(node, *until);
                    entry.denied.retain(|denied| *denied != node);
                }
                // Also of a node whose memory is not proven: it counts for nothing, renewals included.
                Answer::No(Denial::Gone | Denial::Busy(_) | Denial::NotAdmitted(_)) => {
                    entry.window.holds_not(node);
                    if !entry.denied.contains(&node) {
                        entry.denied.push(node);
                    }
                }
                // Unknown changes nothing.
                Answer::No(_) | Answer::Silent(_) => {}
            }
            true
        })
    }

    /// Notes a vote that came after the acquisition was won. False if the lease has ended.
    pub(crate) fn note_straggler(&self, nonce: Nonce, node: usize, until: Instant) -> bool {
        self.with(|entries| {
            let Some(entry) = entries.get_mut(&nonce) else { return false };
            if !entry.denied.contains(&node) {
                entry.window.holds(node, until);
            }
            true
        })
    }

    /// Until when the lease is valid; `None` if it has ended.
    pub(crate) fn until(&self, nonce: Nonce) -> Option<Instant> {
        self.with(|entries| entries.get(&nonce).map(|entry| entry.window.until()))
    }

    /// The token of a lease whose window is open at `now`, and the nodes that do not hold it then.
    pub(crate) fn lacking(&self, nonce: Nonce, now: Instant) -> Option<(Fence, Vec<usize>)> {
        self.with(|entries| {
            let entry = entries.get(&nonce).filter(|entry| entry.window.until() > now)?;
            Some((entry.fence, entry.window.lacking(now).collect()))
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Nonce, Entry>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
