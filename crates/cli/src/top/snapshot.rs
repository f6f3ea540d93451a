//! What `quorumlock top` shows at one moment. Does no I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use quorumlock::Holder;
use quorumlock_command::exit;
use quorumlock_protocol::Instant;
use serde::Serialize;

use crate::text::Held;

/// The nodes and the named locks at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Snapshot {
    pub(super) nodes: Vec<NodeRow>,
    /// How many nodes answer.
    pub(super) reachable: usize,
    /// How many nodes vote. `null`: the nodes need no admission.
    pub(super) votes: Option<usize>,
    /// How many nodes must grant a lock.
    pub(super) needed: usize,
    pub(super) locks: Vec<LockRow>,
}

/// One node. `null`: the node did not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct NodeRow {
    /// Its address, without password.
    pub(super) node: String,
    pub(super) reachable: bool,
    /// Whether it votes. `null`: it needs no admission.
    pub(super) admitted: Option<bool>,
    /// Whether it takes and gives back the lock of a reserved name. `null`: it was not tried.
    pub(super) takes_locks: Option<bool>,
    /// Why it does not answer, takes no lock or does not vote.
    pub(super) problem: Option<String>,
    /// `master` or `slave`.
    pub(super) role: Option<String>,
    pub(super) round_trip_us: Option<u64>,
    /// How far its clock is ahead of the slowest clock, known to half the round trip.
    pub(super) clock_ahead_us: Option<i64>,
    /// How many clients are connected, those of this command included.
    pub(super) connections: Option<u64>,
    /// How many keys of fencing marks it has.
    pub(super) marks: Option<u64>,
    /// How many waiters its queues of the named locks have.
    pub(super) waiters: Option<u64>,
}

/// One named lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct LockRow {
    pub(super) name: String,
    /// `null`: it is not known.
    pub(super) held: Option<bool>,
    /// Its holder, or the writer of a read-write lock.
    pub(super) holder: Option<Held>,
    /// For how long the live table has seen this holder.
    #[serde(skip)]
    pub(super) seen_for: Option<Duration>,
    /// How many readers hold it, if it is a read-write lock.
    pub(super) readers: u32,
    /// Of the readers. `null`: none, or the key never expires.
    pub(super) readers_remaining_ms: Option<u64>,
    /// The length of the longest queue that a node keeps of it. `null`: no node told.
    pub(super) waiters: Option<u64>,
    /// Why the holder is not known.
    pub(super) problem: Option<String>,
}

impl Snapshot {
    /// `clock_ahead_us` of the nodes counts from a reference that is the same for all.
    pub(super) fn new(mut nodes: Vec<NodeRow>, needed: usize, locks: Vec<LockRow>) -> Self {
        let slowest = nodes.iter().filter_map(|node| node.clock_ahead_us).min().unwrap_or(0);
        for node in &mut nodes {
            node.clock_ahead_us = node.clock_ahead_us.map(|ahead| ahead - slowest);
        }
        let admission = nodes.iter().any(|node| node.admitted.is_some());
        let votes = |node: &&NodeRow| node.admitted == Some(true) && !node.refuses();
        let votes = nodes.iter().filter(votes).count();
        let reachable = nodes.iter().filter(|node| node.reachable).count();
        Self { reachable, votes: admission.then_some(votes), needed, nodes, locks }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            _ if self.reachable < self.needed => exit::UNREACHABLE,
            _ if self.reachable - self.refuse() < self.needed => exit::CONFIG,
            _ if self.votes.is_some_and(|votes| votes < self.needed) => exit::CONFIG,
            _ => 0,
        }
    }
}

impl Snapshot {
    /// How many of the nodes that answer take no lock.
    pub(super) fn refuse(&self) -> usize {
        self.nodes.iter().filter(|node| node.refuses()).count()
    }
}

impl NodeRow {
    fn refuses(&self) -> bool {
        self.takes_locks == Some(false)
    }
}

impl LockRow {
    /// A lock of which the holder is known, if it has one.
    pub(super) fn new(name: String, holder: Option<Holder>) -> Self {
        let held = Some(holder.is_some());
        Self { name, held, holder: holder.map(Held::from), ..Self::default() }
    }

    /// A read-write lock.
    pub(super) fn read_write(name: String, holder: Holder) -> Self {
        if !holder.reads() {
            return Self::new(name, Some(holder));
        }
        let Held { remaining_ms, holds, .. } = Held::from(holder);
        let readers_remaining_ms = remaining_ms;
        Self { name, held: Some(true), readers: holds, readers_remaining_ms, ..Self::default() }
    }

    /// A lock of which the nodes do not tell the holder.
    pub(super) fn unknown(name: String, problem: String) -> Self {
        Self { name, problem: Some(problem), ..Self::default() }
    }
}

/// Since when a live table has seen the holders, by lock. Not every holder has a token that tells since when
/// it holds the lock.
#[derive(Debug, Default)]
pub(super) struct Sightings(BTreeMap<String, (String, Instant)>);

impl Sightings {
    /// Sets `seen_for` of the locks. One whose holder is not known keeps what was seen before.
    pub(super) fn note(&mut self, locks: &mut [LockRow], now: Instant) {
        for lock in locks {
            if let Some(Held { id, .. }) = &lock.holder {
                let seen = self.0.entry(lock.name.clone()).or_insert_with(|| (id.clone(), now));
                if seen.0 != *id {
                    *seen = (id.clone(), now);
                }
                lock.seen_for = Some(now.since(seen.1));
            } else if lock.held.is_some() {
                self.0.remove(&lock.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_seen_from_the_first_sight_of_it_until_another_one_is_seen() {
        let (start, second) = (Instant::from_nanos(1), Duration::from_secs(1));
        let held =
            |id: &str| LockRow::new("x".into(), Some(Holder::new(id.into(), Some(second), 1)));
        let unknown = || LockRow::unknown("x".into(), "no answer".into());
        let free = || LockRow::new("x".into(), None);
        let mut sightings = Sightings::default();
        let mut seen = |after: u32, mut lock: LockRow| {
            sightings.note(std::slice::from_mut(&mut lock), start + second * after);
            lock.seen_for
        };
        assert_eq!(seen(0, held("a")), Some(Duration::ZERO));
        assert_eq!(seen(2, held("a")), Some(second * 2));
        assert_eq!(seen(3, unknown()), None);
        assert_eq!(seen(4, held("a")), Some(second * 4));
        assert_eq!(seen(5, held("b")), Some(Duration::ZERO));
        assert_eq!(seen(6, free()), None);
        assert_eq!(seen(7, held("b")), Some(Duration::ZERO));
    }

    fn node(reachable: bool, admitted: Option<bool>, clock_ahead_us: Option<i64>) -> NodeRow {
        NodeRow { reachable, admitted, clock_ahead_us, ..NodeRow::default() }
    }

    #[test]
    fn clocks_count_from_the_slowest() {
        let nodes = [Some(7_000), None, Some(4_000)].map(|ahead| node(true, None, ahead));
        let snapshot = Snapshot::new(nodes.into(), 2, Vec::new());
        let ahead = snapshot.nodes.iter().map(|node| node.clock_ahead_us).collect::<Vec<_>>();
        assert_eq!(ahead, [Some(3_000), None, Some(0)]);
    }

    #[test]
    fn the_exit_code_says_whether_enough_nodes_answer_and_vote() {
        let code = |nodes: [(bool, Option<bool>); 3]| {
            let nodes = nodes.map(|(reachable, admitted)| node(reachable, admitted, None));
            Snapshot::new(nodes.into(), 2, Vec::new()).exit_code()
        };
        let (yes, no, silent) = ((true, Some(true)), (true, Some(false)), (false, Some(false)));
        assert_eq!(code([yes, yes, silent]), 0);
        assert_eq!(code([yes, no, no]), exit::CONFIG);
        assert_eq!(code([yes, silent, silent]), exit::UNREACHABLE);
        assert_eq!(code([(true, None), (true, None), (false, None)]), 0);
    }
}
