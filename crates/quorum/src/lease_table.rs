use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use quorumlock_protocol::{Answer, Denial, FencingToken, Instant, Lane, Nonce, Vote, Window};

/// For every lease that is not released yet: until when each node certainly holds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseTable(Arc<Mutex<Leases>>);

#[derive(Debug, Default)]
struct Leases {
    /// Boxed: a table has up to twice as many places as entries.
    entries: HashMap<Nonce, Box<Entry>>,
    /// Leases that were released before all nodes had answered the acquisition, and how many
    /// answers are missing. The release follows the acquire request on its connection.
    released: HashMap<Nonce, usize>,
    /// Leases that have moved to another process, and when: no late answer may release them.
    moved: HashMap<Nonce, Instant>,
    /// By how much each node's clock has been set forward in total.
    clock_advances: HashMap<usize, Duration>,
}

/// Longer than any request waits for its answer.
const ANSWERS_END: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct Entry {
    window: Window,
    token: FencingToken,
    /// Present while nodes have not answered the acquisition; most often only for a short time.
    stragglers: Option<Box<Straggler>>,
}

#[derive(Debug)]
struct Straggler {
    /// How many nodes have not answered.
    unanswered: usize,
    /// Nodes that have said no since the acquisition was won. Their late yes to the acquisition is
    /// older than that no, and does not count.
    denied: Vec<usize>,
}

impl LeaseTable {
    /// Adds a lease. `stragglers` nodes have not answered its acquisition.
    pub(crate) fn insert(
        &self,
        nonce: Nonce,
        window: Window,
        token: FencingToken,
        stragglers: usize,
    ) {
        let late = (stragglers > 0)
            .then(|| Box::new(Straggler { unanswered: stragglers, denied: Vec::new() }));
        let entry = Entry { window, token, stragglers: late };
        self.with(|leases| {
            // A lease that came back is this process's to release.
            leases.moved.remove(&nonce);
            leases.entries.insert(nonce, Box::new(entry));
        });
    }

    /// Removes a lease that the caller is about to release on `lane`, and returns its window.
    pub(crate) fn remove(&self, nonce: Nonce, lane: Lane) -> Option<Window> {
        self.with(|leases| {
            let entry = leases.entries.remove(&nonce)?;
            if let (Some(late), Lane::Caller) = (entry.stragglers, lane) {
                leases.released.insert(nonce, late.unanswered);
            }
            Some(entry.window)
        })
    }

    /// Removes a lease that moves to another process, which may count on each node that holds it: no late
    /// answer releases it (PROTOCOL.md TIC2).
    pub(crate) fn forget(&self, nonce: Nonce, now: Instant) {
        self.with(|leases| {
            leases.entries.remove(&nonce);
            leases.moved.retain(|_, since| now.since(*since) < ANSWERS_END);
            leases.moved.insert(nonce, now);
        });
    }

    /// Records a node's answer about a lease. False if the lease has ended: then the caller must
    /// release a yes.
    pub(crate) fn record(&self, nonce: Nonce, node: usize, answer: &Answer<Instant>) -> bool {
        self.with(|leases| {
            let Some(entry) = leases.entries.get_mut(&nonce) else {
                return leases.moved.contains_key(&nonce);
            };
            match answer {
                Answer::Yes(until) => {
                    entry.window.record_held(node, *until);
                    if let Some(late) = &mut entry.stragglers {
                        late.denied.retain(|denied| *denied != node);
                    }
                }
                // A node whose memory is not proven counts for nothing, its renewals included.
                Answer::No(Denial::Gone | Denial::Busy(_) | Denial::NotAdmitted(_)) => {
                    entry.window.record_lost(node);
                    if let Some(late) = &mut entry.stragglers
                        && !late.denied.contains(&node)
                    {
                        late.denied.push(node);
                    }
                }
                // Other denials and missing answers change nothing.
                Answer::No(_) | Answer::NoAnswer(_) => {}
            }
            true
        })
    }

    /// Records an answer to the acquisition that came after the acquisition was won. False if the
    /// lease has ended and no release follows the acquire request on its connection.
    pub(crate) fn record_straggler(
        &self,
        nonce: Nonce,
        node: usize,
        answer: &Answer<Vote>,
    ) -> bool {
        self.with(|leases| {
            if let Some(entry) = leases.entries.get_mut(&nonce) {
                let Some(late) = &mut entry.stragglers else { return true };
                if let Answer::Yes(vote) = answer
                    && !late.denied.contains(&node)
                {
                    entry.window.record_held(node, vote.until);
                }
                late.unanswered -= 1;
                if late.unanswered == 0 {
                    entry.stragglers = None;
                }
                return true;
            }
            let Some(left) = leases.released.get_mut(&nonce) else {
                return leases.moved.contains_key(&nonce);
            };
            *left -= 1;
            if *left == 0 {
                leases.released.remove(&nonce);
            }
            // Without a yes the acquire request may have arrived on another connection than the
            // release.
            matches!(answer, Answer::Yes(_))
        })
    }

    /// The node's clock has been set forward by `by` in total: what the node granted before ends
    /// earlier by as much (SAFETY.md H6).
    pub(crate) fn advance_clock(&self, node: usize, by: Duration) {
        if by.is_zero() {
            return;
        }
        self.with(|leases| {
            let more =
                by.saturating_sub(leases.clock_advances.insert(node, by).unwrap_or_default());
            if !more.is_zero() {
                leases.entries.values_mut().for_each(|entry| entry.window.move_back(node, more));
            }
        });
    }

    /// Until when the lease is valid; `None` if it has been removed.
    pub(crate) fn until(&self, nonce: Nonce) -> Option<Instant> {
        self.with(|leases| leases.entries.get(&nonce).map(|entry| entry.window.until()))
    }

    /// The token of a lease whose window is open at `now`, and the nodes that do not hold the lease
    /// then.
    pub(crate) fn lacking(&self, nonce: Nonce, now: Instant) -> Option<(FencingToken, Vec<usize>)> {
        self.with(|leases| {
            let entry = leases.entries.get(&nonce).filter(|entry| entry.window.until() > now)?;
            Some((entry.token, entry.window.lacking(now).collect()))
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Leases) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorumlock_protocol::{Acceptance, NoAnswer, NodeProblem, NodeReport};
    use quorumlock_watchdog::Clock;

    const LEASE: Duration = Duration::from_secs(9);

    fn entered(lease_table: &LeaseTable, now: Instant) -> Nonce {
        let nonce = Nonce::from_u128(7);
        let mut window = Window::shut(3);
        for node in 0..2 {
            window.record_held(node, now + LEASE);
        }
        lease_table.insert(nonce, window, FencingToken::new(5), 1);
        nonce
    }

    #[test]
    fn a_definite_no_outlives_a_straggling_vote_and_not_a_renewal() {
        let (lease_table, now) = (LeaseTable::default(), Clock::manual().now());
        let nonce = entered(&lease_table, now);
        assert!(lease_table.record(nonce, 1, &Answer::No(Denial::Gone)));
        assert_eq!(lease_table.until(nonce), Some(Instant::NEVER));
        assert!(
            lease_table.record_straggler(nonce, 1, &granted(now)),
            "it was granted before that"
        );
        assert_eq!(lease_table.until(nonce), Some(Instant::NEVER));
        let silent = Answer::NoAnswer(NoAnswer::Unknown(NodeReport::new(
            "n",
            NodeProblem::Broken("silent".into()),
        )));
        assert!(lease_table.record(nonce, 0, &silent), "unknown changes nothing");
        assert!(lease_table.record(nonce, 1, &Answer::Yes(now + LEASE)));
        assert_eq!(lease_table.until(nonce), Some(now + LEASE));
        lease_table.remove(nonce, Lane::Caller);
        assert!(!lease_table.record(nonce, 1, &Answer::Yes(now + LEASE)), "to be released");
    }

    /// SAFETY.md H17.
    #[test]
    fn a_late_vote_is_released_unless_a_release_follows_it_on_its_connection() {
        let (lease_table, now) = (LeaseTable::default(), Clock::manual().now());
        let nonce = entered(&lease_table, now);
        lease_table.remove(nonce, Lane::Watchdog);
        assert!(!lease_table.record_straggler(nonce, 2, &granted(now)), "on another connection");
        let nonce = entered(&lease_table, now);
        lease_table.remove(nonce, Lane::Caller);
        assert!(lease_table.record_straggler(nonce, 2, &granted(now)), "it follows");
        assert!(!lease_table.record_straggler(nonce, 2, &granted(now)), "nothing is kept of it");
        let nonce = entered(&lease_table, now);
        lease_table.remove(nonce, Lane::Caller);
        let silent = Answer::NoAnswer(NoAnswer::Unknown(NodeReport::new(
            "n",
            NodeProblem::Broken("silent".into()),
        )));
        assert!(!lease_table.record_straggler(nonce, 2, &silent), "the connection broke");
    }

    fn granted(now: Instant) -> Answer<Vote> {
        Answer::Yes(Vote { until: now + LEASE, token: Acceptance::Accepted })
    }

    /// PROTOCOL.md TIC2: the process that the lease moved to counts on the node.
    #[test]
    fn a_late_answer_about_a_lease_that_moved_releases_nothing() {
        let (lease_table, now) = (LeaseTable::default(), Clock::manual().now());
        let nonce = entered(&lease_table, now);
        lease_table.forget(nonce, now);
        assert_eq!(lease_table.until(nonce), None);
        assert!(lease_table.record_straggler(nonce, 2, &granted(now)), "its acquisition");
        assert!(lease_table.record(nonce, 2, &Answer::Yes(now + LEASE)), "a top-up");
        lease_table.forget(Nonce::from_u128(8), now + ANSWERS_END);
        assert!(!lease_table.record(nonce, 2, &Answer::Yes(now + LEASE)), "nobody answers so late");
        lease_table.forget(nonce, now);
        lease_table.insert(nonce, Window::shut(3), FencingToken::new(5), 0);
        lease_table.remove(nonce, Lane::Watchdog);
        assert!(!lease_table.record(nonce, 2, &Answer::Yes(now + LEASE)), "it came back");
    }

    /// SAFETY.md H6.
    #[test]
    fn a_node_whose_clock_was_set_forward_holds_for_less_once() {
        let (lease_table, now) = (LeaseTable::default(), Clock::manual().now());
        let nonce = entered(&lease_table, now);
        let by = Duration::from_secs(4);
        lease_table.advance_clock(1, by);
        lease_table.advance_clock(1, by);
        assert_eq!(lease_table.until(nonce), Some(now + LEASE - by));
        lease_table.advance_clock(1, by * 2);
        assert_eq!(lease_table.until(nonce), Some(now + LEASE - by * 2));
        assert_eq!(lease_table.lacking(nonce, now), Some((FencingToken::new(5), vec![2])));
    }
}
