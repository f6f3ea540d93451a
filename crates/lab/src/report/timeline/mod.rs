//! The parts of a run's history that the figures need, read once, in bounded memory.

mod faults;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use quorumlock_protocol::Instant;

use self::faults::Faults;
use super::figures::{Fault, MarkKind};
use super::histogram::Histogram;
use super::words::count;
use crate::history::{Event, Op, Reader};
use crate::judge::{Effect, Ended, HistoryReplay, Hold, Overlap, overlaps};
use crate::svg::clean;
use crate::timestamp::instant;

/// A run as the figures need it.
#[derive(Debug)]
pub(super) struct Timeline {
    /// The first instant of the history.
    pub(super) begin: Instant,
    /// From the first event to the last.
    pub(super) length: Duration,
    /// The clients, in the order of first appearance.
    pub(super) clients: Vec<String>,
    /// The holds. The locker of a hold is its client's index in `clients`.
    pub(super) holds: Vec<Hold>,
    /// The faults, in order of time.
    pub(super) faults: Vec<Fault>,
    /// What clients did or suffered at an instant.
    pub(super) marks: Vec<Mark>,
    /// What is not shown, and why, in words.
    pub(super) left_out: Vec<String>,
}

/// Something that a client did or suffered at an instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) client: usize,
    pub(super) at: Instant,
    pub(super) kind: MarkKind,
}

/// The largest number of holds (about 100 bytes each). The same limit applies to marks.
const MAX_HOLDS: usize = 200_000;

impl Timeline {
    /// Reads a history. If it is cut off or damaged, the timeline ends there and says so.
    ///
    /// # Errors
    /// If the file does not exist or cannot be opened.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut take = TimelineBuilder::default();
        for event in Reader::open(path)? {
            match event {
                Ok(event) => take.event(&event),
                Err(bad) => {
                    take.left_out.push(format!("what follows, since {}", clean(&bad.to_string())));
                    break;
                }
            }
        }
        Ok(take.finish())
    }

    /// The offset of an instant from the beginning.
    pub(super) fn offset(&self, at: Instant) -> Duration {
        at.since(self.begin)
    }

    /// Pairs of holds that were believed in at the same time.
    pub(super) fn overlaps(&self) -> Vec<Overlap<'_>> {
        overlaps(&self.holds)
    }

    /// From the end of one belief to the next grant, if the next holder was already waiting.
    pub(super) fn handovers(&self) -> Histogram {
        let mut holds: Vec<&Hold> = self.holds.iter().collect();
        holds.sort_by(|a, b| (&a.name, a.granted).cmp(&(&b.name, b.granted)));
        let mut bins = Histogram::default();
        for two in holds.windows(2) {
            let (one, next) = (two[0], two[1]);
            let ended = one.believed_until();
            if one.name == next.name && next.asked <= ended {
                bins.add(next.granted.since(ended));
            }
        }
        bins
    }
}

/// Builds a timeline from events.
#[derive(Debug, Default)]
struct TimelineBuilder {
    first: Option<Instant>,
    last: Option<Instant>,
    replay: HistoryReplay,
    holds: Vec<Hold>,
    /// The number of holds above the limit.
    missed: u64,
    faults: Faults,
    marks: Vec<Mark>,
    /// The number of marks of each kind above the limit.
    too_many: HashMap<MarkKind, u64>,
    left_out: Vec<String>,
}

impl TimelineBuilder {
    fn event(&mut self, event: &Event) {
        let at = instant(event.mono_ns);
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = self.last.max(Some(at));
        if event.op == Op::Fault {
            self.faults.event(event, at);
        }
        let entry = self.replay.observe(event);
        self.add_ended(entry.ended);
        let kind = match (event.op, entry.effect) {
            (Op::Lost, _) => Some(MarkKind::Lost),
            (_, effect) => effect.map(|effect| match effect {
                Effect::Accepted => MarkKind::Write,
                Effect::Stale => MarkKind::Stale,
                Effect::Refused => MarkKind::Refused,
            }),
        };
        if let (Some(client), Some(kind)) = (entry.client, kind) {
            self.mark(Mark { client, at, kind });
        }
    }

    fn add_ended(&mut self, ended: impl IntoIterator<Item = Ended>) {
        for ended in ended {
            match ended {
                Ended::Wait(_) => {}
                Ended::Hold(hold) if self.holds.len() < MAX_HOLDS => self.holds.push(hold),
                Ended::Hold(_) => self.missed += 1,
            }
        }
    }

    fn mark(&mut self, seen: Mark) {
        // Accepted writes are as numerous as holds and matter least, so they leave room for the
        // other kinds.
        let room = if seen.kind == MarkKind::Write { MAX_HOLDS } else { 2 * MAX_HOLDS };
        if self.marks.len() < room {
            self.marks.push(seen);
        } else {
            *self.too_many.entry(seen.kind).or_default() += 1;
        }
    }

    fn finish(mut self) -> Timeline {
        let begin = self.first.unwrap_or(Instant::NEVER);
        let end = self.last.unwrap_or(Instant::NEVER);
        let (ended, clients) = std::mem::take(&mut self.replay).close(end);
        self.add_ended(ended);
        self.holds.sort_by_key(|hold| (hold.granted, hold.who));
        if self.missed > 0 {
            let missed = count(self.missed);
            self.left_out.push(format!("{missed} later holds: the history is too long"));
        }
        let marks: u64 = self.too_many.values().sum();
        if marks > 0 {
            self.left_out.push(format!("{} later writes: the history is too long", count(marks)));
        }
        Timeline {
            begin,
            length: end.since(begin),
            clients,
            holds: self.holds,
            faults: self.faults.finish(begin, end),
            marks: self.marks,
            left_out: self.left_out,
        }
    }
}

#[cfg(test)]
mod tests;
