//! What the pictures of a run need of its history: read once, in bounded memory.

mod faults;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use quorumlock_core::Instant;

use self::faults::Faults;
use super::bins::Bins;
use super::clean::clean;
use super::svg::{Fault, MarkKind};
use super::words::count;
use crate::history::{Event, Op, Reader};
use crate::judge::{Clerk, Effect, Ended, Hold, Overlap, overlaps};
use crate::stamp::instant;

/// A run, as its pictures need it.
#[derive(Debug)]
pub(super) struct Film {
    /// The first instant of the history.
    pub(super) begin: Instant,
    /// From the first event to the last.
    pub(super) length: Duration,
    /// The clients, in the order of their appearance.
    pub(super) clients: Vec<String>,
    /// What they believed; a hold's locker is its client's place in `clients`.
    pub(super) holds: Vec<Hold>,
    /// What was broken, in the order of time.
    pub(super) faults: Vec<Fault>,
    /// What clients did, or was done to them, at an instant.
    pub(super) marks: Vec<Seen>,
    /// What is not shown, and why, in words.
    pub(super) left_out: Vec<String>,
}

/// Something that a client did, or that was done to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) client: usize,
    pub(super) at: Instant,
    pub(super) kind: MarkKind,
}

/// Holds kept, at about a hundred bytes each; so many marks of each kind, too.
const MOST: usize = 200_000;

impl Film {
    /// Reads a history. One that is cut or damaged is shown up to there, and says so.
    ///
    /// # Errors
    /// If there is no such file, or it cannot be opened.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut take = Take::default();
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

    /// How long after the beginning.
    pub(super) fn offset(&self, at: Instant) -> Duration {
        at.since(self.begin)
    }

    /// Pairs of holds that were believed in at the same time.
    pub(super) fn overlaps(&self) -> Vec<Overlap<'_>> {
        overlaps(&self.holds)
    }

    /// From the end of one belief to the start of the next, of those who were waiting already.
    pub(super) fn handovers(&self) -> Bins {
        let mut holds: Vec<&Hold> = self.holds.iter().collect();
        holds.sort_by(|a, b| (&a.name, a.granted).cmp(&(&b.name, b.granted)));
        let mut bins = Bins::default();
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

/// A history that is being read.
#[derive(Debug, Default)]
struct Take {
    first: Option<Instant>,
    last: Option<Instant>,
    clerk: Clerk,
    holds: Vec<Hold>,
    /// Holds that there was no room for.
    missed: u64,
    faults: Faults,
    marks: Vec<Seen>,
    /// Marks of each kind that there was no room for.
    too_many: HashMap<MarkKind, u64>,
    left_out: Vec<String>,
}

impl Take {
    fn event(&mut self, event: &Event) {
        let at = instant(event.mono_ns);
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.last = self.last.max(Some(at));
        if event.op == Op::Fault {
            self.faults.event(event, at);
        }
        let entry = self.clerk.note(event);
        self.keep(entry.ended);
        let kind = match (event.op, entry.effect) {
            (Op::Lost, _) => Some(MarkKind::Lost),
            (_, effect) => effect.map(|effect| match effect {
                Effect::Accepted => MarkKind::Write,
                Effect::Stale => MarkKind::Stale,
                Effect::Refused => MarkKind::Refused,
            }),
        };
        if let (Some(client), Some(kind)) = (entry.client, kind) {
            self.mark(Seen { client, at, kind });
        }
    }

    fn keep(&mut self, ended: impl IntoIterator<Item = Ended>) {
        for ended in ended {
            match ended {
                Ended::Wait(_) => {}
                Ended::Hold(hold) if self.holds.len() < MOST => self.holds.push(hold),
                Ended::Hold(_) => self.missed += 1,
            }
        }
    }

    fn mark(&mut self, seen: Seen) {
        // Plain writes are as many as holds, and matter least: they leave room for the others.
        let room = if seen.kind == MarkKind::Write { MOST } else { 2 * MOST };
        if self.marks.len() < room {
            self.marks.push(seen);
        } else {
            *self.too_many.entry(seen.kind).or_default() += 1;
        }
    }

    fn finish(mut self) -> Film {
        let begin = self.first.unwrap_or(Instant::NEVER);
        let end = self.last.unwrap_or(Instant::NEVER);
        let (ended, clients) = std::mem::take(&mut self.clerk).close(end);
        self.keep(ended);
        self.holds.sort_by_key(|hold| (hold.granted, hold.who));
        if self.missed > 0 {
            let missed = count(self.missed);
            self.left_out.push(format!("{missed} later holds: the history is too long"));
        }
        let marks: u64 = self.too_many.values().sum();
        if marks > 0 {
            self.left_out.push(format!("{} later writes: the history is too long", count(marks)));
        }
        Film {
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
