use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use quorumlock_core::{Answer, Denial, Fence, Instant, Lane, Nonce, Vote, Window};

/// Of every lease that stands, which node surely holds it until when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roll(Arc<Mutex<Leases>>);

#[derive(Debug, Default)]
struct Leases {
    /// Boxed: a table has up to twice as many places as entries.
    entries: HashMap<Nonce, Box<Entry>>,
    /// Leases that were given back before all nodes had answered their acquisition, and how many
    /// had not: the release follows the acquisition on its connection.
    given_back: HashMap<Nonce, usize>,
    /// By how much each node's clock has been set forward so far.
    forward: HashMap<usize, Duration>,
}

#[derive(Debug)]
struct Entry {
    window: Window,
    fence: Fence,
    /// While nodes have not answered the acquisition: soon after it none.
    late: Option<Box<Late>>,
}

#[derive(Debug)]
struct Late {
    /// How many nodes.
    stragglers: usize,
    /// Nodes that said no since: a late yes to the acquisition, which they gave before, counts for
    /// nothing any more.
    denied: Vec<usize>,
}

impl Roll {
    /// A lease begins; so many nodes have not answered its acquisition.
    pub(crate) fn enter(&self, nonce: Nonce, window: Window, fence: Fence, stragglers: usize) {
        let late = (stragglers > 0).then(|| Box::new(Late { stragglers, denied: Vec::new() }));
        let entry = Entry { window, fence, late };
        self.with(|leases| leases.entries.insert(nonce, Box::new(entry)));
    }

    /// Ends the lease, which is about to be released on this lane, and tells who held it.
    pub(crate) fn strike(&self, nonce: Nonce, lane: Lane) -> Option<Window> {
        self.with(|leases| {
            let entry = leases.entries.remove(&nonce)?;
            if let (Some(late), Lane::Work) = (entry.late, lane) {
                leases.given_back.insert(nonce, late.stragglers);
            }
            Some(entry.window)
        })
    }

    /// Notes what a node said of a lease. False if the lease has ended: a yes must be released.
    pub(crate) fn note(&self, nonce: Nonce, node: usize, answer: &Answer<Instant>) -> bool {
        self.with(|leases| {
            let Some(entry) = leases.entries.get_mut(&nonce) else { return false };
            match answer {
                Answer::Yes(until) => {
                    entry.window.holds(node, *until);
                    if let Some(late) = &mut entry.late {
                        late.denied.retain(|denied| *denied != node);
                    }
                }
                // Also of a node whose memory is not proven: it counts for nothing, renewals included.
                Answer::No(Denial::Gone | Denial::Busy(_) | Denial::NotAdmitted(_)) => {
                    entry.window.holds_not(node);
                    if let Some(late) = &mut entry.late
                        && !late.denied.contains(&node)
                    {
                        late.denied.push(node);
                    }
                }
                // Unknown changes nothing.
                Answer::No(_) | Answer::Silent(_) => {}
            }
            true
        })
    }

    /// Notes an answer to the acquisition that came after it was won. False if the lease has ended
    /// and no release is on its way behind it.
    pub(crate) fn note_straggler(&self, nonce: Nonce, node: usize, answer: &Answer<Vote>) -> bool {
        self.with(|leases| {
            if let Some(entry) = leases.entries.get_mut(&nonce) {
                let Some(late) = &mut entry.late else { return true };
                if let Answer::Yes(vote) = answer
                    && !late.denied.contains(&node)
                {
                    entry.window.holds(node, vote.until);
                }
                late.stragglers -= 1;
                if late.stragglers == 0 {
                    entry.late = None;
                }
                return true;
            }
            let Some(left) = leases.given_back.get_mut(&nonce) else { return false };
            *left -= 1;
            if *left == 0 {
                leases.given_back.remove(&nonce);
            }
            // What was not answered may have come on another connection than the release.
            matches!(answer, Answer::Yes(_))
        })
    }

    /// The node's clock has been set forward by so much, all in all: what it granted before ends so
    /// much earlier (SAFETY.md H6).
    pub(crate) fn set_forward(&self, node: usize, by: Duration) {
        if by.is_zero() {
            return;
        }
        self.with(|leases| {
            let more = by.saturating_sub(leases.forward.insert(node, by).unwrap_or_default());
            if !more.is_zero() {
                leases.entries.values_mut().for_each(|entry| entry.window.retreats(node, more));
            }
        });
    }

    /// Until when the lease is valid; `None` if it has ended.
    pub(crate) fn until(&self, nonce: Nonce) -> Option<Instant> {
        self.with(|leases| leases.entries.get(&nonce).map(|entry| entry.window.until()))
    }

    /// The token of a lease whose window is open at `now`, and the nodes that do not hold it then.
    pub(crate) fn lacking(&self, nonce: Nonce, now: Instant) -> Option<(Fence, Vec<usize>)> {
        self.with(|leases| {
            let entry = leases.entries.get(&nonce).filter(|entry| entry.window.until() > now)?;
            Some((entry.fence, entry.window.lacking(now).collect()))
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Leases) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorumlock_core::{Acceptance, Clock, NodeProblem, NodeReport, Silence};

    const LEASE: Duration = Duration::from_secs(9);

    fn entered(roll: &Roll, now: Instant) -> Nonce {
        let nonce = Nonce::from_u128(7);
        let mut window = Window::shut(3);
        for node in 0..2 {
            window.holds(node, now + LEASE);
        }
        roll.enter(nonce, window, Fence::new(5), 1);
        nonce
    }

    #[test]
    fn a_definite_no_outlives_a_straggling_vote_and_not_a_renewal() {
        let (roll, now) = (Roll::default(), Clock::manual().now());
        let nonce = entered(&roll, now);
        assert!(roll.note(nonce, 1, &Answer::No(Denial::Gone)));
        assert_eq!(roll.until(nonce), Some(Instant::NEVER));
        assert!(roll.note_straggler(nonce, 1, &granted(now)), "it was granted before that");
        assert_eq!(roll.until(nonce), Some(Instant::NEVER));
        let silent = Answer::Silent(Silence::Maybe(NodeReport::new(
            "n",
            NodeProblem::Broken("silent".into()),
        )));
        assert!(roll.note(nonce, 0, &silent), "unknown changes nothing");
        assert!(roll.note(nonce, 1, &Answer::Yes(now + LEASE)));
        assert_eq!(roll.until(nonce), Some(now + LEASE));
        roll.strike(nonce, Lane::Work);
        assert!(!roll.note(nonce, 1, &Answer::Yes(now + LEASE)), "to be released");
    }

    /// SAFETY.md H17.
    #[test]
    fn a_late_vote_is_released_unless_a_release_follows_it_on_its_connection() {
        let (roll, now) = (Roll::default(), Clock::manual().now());
        let nonce = entered(&roll, now);
        roll.strike(nonce, Lane::Keep);
        assert!(!roll.note_straggler(nonce, 2, &granted(now)), "on another connection");
        let nonce = entered(&roll, now);
        roll.strike(nonce, Lane::Work);
        assert!(roll.note_straggler(nonce, 2, &granted(now)), "it follows");
        assert!(!roll.note_straggler(nonce, 2, &granted(now)), "nothing is kept of it");
        let nonce = entered(&roll, now);
        roll.strike(nonce, Lane::Work);
        let silent = Answer::Silent(Silence::Maybe(NodeReport::new(
            "n",
            NodeProblem::Broken("silent".into()),
        )));
        assert!(!roll.note_straggler(nonce, 2, &silent), "the connection broke");
    }

    fn granted(now: Instant) -> Answer<Vote> {
        Answer::Yes(Vote { until: now + LEASE, token: Acceptance::Accepted })
    }

    /// SAFETY.md H6.
    #[test]
    fn a_node_whose_clock_was_set_forward_holds_for_less_once() {
        let (roll, now) = (Roll::default(), Clock::manual().now());
        let nonce = entered(&roll, now);
        let by = Duration::from_secs(4);
        roll.set_forward(1, by);
        roll.set_forward(1, by);
        assert_eq!(roll.until(nonce), Some(now + LEASE - by));
        roll.set_forward(1, by * 2);
        assert_eq!(roll.until(nonce), Some(now + LEASE - by * 2));
        assert_eq!(roll.lacking(nonce, now), Some((Fence::new(5), vec![2])));
    }
}
