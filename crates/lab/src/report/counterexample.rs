//! The smallest counterexample of exclusion: two overlapping beliefs, and the events around them.

use std::io;
use std::path::Path;
use std::time::Duration;

use quorumlock_protocol::Instant;

use super::figures::{Lane, Lanes, Mark, Span, Style};
use super::timeline::Timeline;
use super::words::{count, time};
use crate::history::{Event, Op, Phase, Reader};
use crate::judge::{Hold, Overlap};
use crate::svg::clean;
use crate::timestamp::instant;

/// Two overlapping beliefs and the events around them.
#[derive(Debug)]
pub(super) struct Counterexample {
    /// From the first grant to the end of the overlap. The smallest is the clearest.
    pub(super) spans: Duration,
    /// A summary in words.
    pub(super) summary: String,
    /// Both beliefs, enlarged.
    pub(super) lanes: Lanes,
    /// The events, in order of time.
    pub(super) events: Vec<EventRow>,
    /// The number of events left out.
    pub(super) more: u64,
}

/// An event in words.
#[derive(Debug)]
pub(super) struct EventRow {
    /// The time since the beginning of the history.
    pub(super) at: Duration,
    /// Its sequence number in the history.
    pub(super) seq: u64,
    /// The actor.
    pub(super) who: String,
    /// What happened, in words.
    pub(super) what: String,
}

/// The largest number of events in a counterexample.
const EVENTS: usize = 40;

/// The overlap with the shortest span, if there is any.
pub(super) fn smallest<'a>(overlaps: &[Overlap<'a>]) -> Option<Overlap<'a>> {
    overlaps.iter().copied().min_by_key(|o| (spans(o), o.first.granted, o.second.granted))
}

/// From the first grant to the end of the overlap.
pub(super) fn spans(overlap: &Overlap<'_>) -> Duration {
    overlap.until.since(overlap.first.granted)
}

/// Reads the events around the overlap from the history.
///
/// # Errors
/// If the history cannot be opened.
pub(super) fn counterexample(
    timeline: &Timeline,
    pair: Overlap<'_>,
    history: &Path,
) -> io::Result<Counterexample> {
    let margin = (spans(&pair) / 6).max(Duration::from_millis(2));
    let (from, until) = (pair.first.granted - margin, pair.until + margin);
    let name = |hold: &Hold| clean(&timeline.clients[hold.who.locker]).into_owned();
    let (first, second) = (name(pair.first), name(pair.second));
    let around = Around { timeline, from, until, clients: [first.clone(), second.clone()] };
    let (events, more) = around.events(history)?;
    let summary = format!(
        "{first} was granted the lock with token {} and believed in it until {}; {second} was \
         granted it with token {} at {}. For {} both believed.",
        pair.first.token,
        time(timeline.offset(pair.first.believed_until())),
        pair.second.token,
        time(timeline.offset(pair.second.granted)),
        time(pair.lasted()),
    );
    let lanes = Lanes {
        from: timeline.offset(from),
        until: timeline.offset(until).min(timeline.length.max(timeline.offset(pair.until))),
        lanes: vec![around.lane(pair.first, Style::Held), around.lane(pair.second, Style::Second)],
        faults: around.faults(),
        clashes: vec![(timeline.offset(pair.from), timeline.offset(pair.until))],
        left_out: Vec::new(),
    };
    Ok(Counterexample { spans: spans(&pair), summary, lanes, events, more })
}

struct Around<'a> {
    timeline: &'a Timeline,
    from: Instant,
    until: Instant,
    clients: [String; 2],
}

impl Around<'_> {
    fn lane(&self, hold: &Hold, style: Style) -> Lane {
        let Self { timeline, from, until, .. } = self;
        let client = hold.who.locker;
        let spans = timeline.holds.iter().filter(|held| {
            held.who.locker == hold.who.locker
                && held.granted <= *until
                && held.believed_until() >= *from
        });
        let spans = spans.map(|held| Span {
            from: timeline.offset(held.granted),
            until: timeline.offset(held.believed_until()),
            style,
            label: (held.who == hold.who).then(|| format!("token {}", held.token)),
        });
        let marks = timeline
            .marks
            .iter()
            .filter(|seen| seen.client == client && (*from..=*until).contains(&seen.at));
        let marks = marks.map(|seen| Mark { at: timeline.offset(seen.at), kind: seen.kind });
        Lane {
            name: timeline.clients[client].clone(),
            spans: spans.take(200).collect(),
            marks: marks.take(200).collect(),
        }
    }

    /// The faults that reach into the window, and the last fault before it, which may be the cause.
    fn faults(&self) -> Vec<super::figures::Fault> {
        let (from, until) = (self.timeline.offset(self.from), self.timeline.offset(self.until));
        let (within, before): (Vec<_>, Vec<_>) = self
            .timeline
            .faults
            .iter()
            .filter(|fault| fault.from <= until)
            .cloned()
            .partition(|fault| fault.until >= from);
        before.into_iter().max_by_key(|fault| fault.until).into_iter().chain(within).collect()
    }

    fn events(&self, history: &Path) -> io::Result<(Vec<EventRow>, u64)> {
        let (mut rows, mut more) = (Vec::new(), 0);
        for event in Reader::open(history)? {
            // The timeline has already reported what cannot be read.
            let Ok(event) = event else { break };
            if self.concerns(&event) {
                if rows.len() < EVENTS {
                    rows.push(self.row(&event));
                } else {
                    more += 1;
                }
            }
        }
        rows.sort_by_key(|row| (row.at, row.seq));
        Ok((rows, more))
    }

    fn concerns(&self, event: &Event) -> bool {
        let at = instant(event.mono_ns);
        let ours = matches!(event.op, Op::Fault | Op::Note)
            || self.clients.iter().any(|client| *client == clean(&event.client));
        ours && (self.from..=self.until).contains(&at)
    }

    fn row(&self, event: &Event) -> EventRow {
        let at = self.timeline.offset(instant(event.mono_ns));
        let mut what = act(event.op, event.phase).to_owned();
        if let Some(token) = event.token {
            what += &format!(", token {token}");
        }
        if let Some(value) = event.value {
            what += &format!(", value {value}");
        }
        if let Some(node) = event.node {
            what += &format!(", node {node}");
        }
        if let Some(until) = event.valid_until_ns {
            let until = instant(until);
            what += &format!(", may believe until {}", time(self.timeline.offset(until)));
        }
        if let Some(words) = &event.what {
            what += &format!(": {}", clean(words));
        }
        EventRow { at, seq: event.seq, who: clean(&event.client).into_owned(), what }
    }
}

fn act(op: Op, phase: Phase) -> &'static str {
    match (op, phase) {
        (Op::Lock, Phase::Invoke) => "asks for the lock",
        (Op::Lock, Phase::Ok) => "gets the lock",
        (Op::Lock, Phase::Fail) => "does not get the lock",
        (Op::Lock, Phase::Info) => "finds the lock held, and does not wait",
        (Op::Lock, _) => "gives up asking, and does not know whether it got the lock",
        (Op::Unlock, Phase::Invoke) => "gives the lock back, and believes no more",
        (Op::Unlock, Phase::Ok) => "has given the lock back",
        (Op::Unlock, Phase::Fail) => "could not give the lock back",
        (Op::Unlock, _) => "does not know whether it gave the lock back",
        (Op::Hold, _) => "has renewed the lock",
        (Op::Lost, Phase::Fail) => "is killed, and believes no more",
        (Op::Lost, _) => "is told that the lock is lost",
        (Op::Write, Phase::Invoke) => "sends a write",
        (Op::Write, Phase::Ok) => "its write is accepted",
        (Op::Write, Phase::Fail) => "its write is refused",
        (Op::Write, _) => "does not know whether its write was accepted",
        (Op::Fault, Phase::Invoke) => "fault begins",
        (Op::Fault, Phase::Ok) => "fault ends",
        (Op::Fault, _) => "fault",
        (Op::Read, Phase::Invoke) => "sends a read",
        (Op::Read, Phase::Ok) => "its read is accepted",
        (Op::Read, Phase::Fail) => "its read is refused",
        (Op::Read, _) => "does not know whether its read was accepted",
        (Op::Note, _) => "note",
    }
}

/// "and 7 more", or nothing.
pub(super) fn and_more(more: u64) -> Option<String> {
    (more > 0).then(|| format!("and {} more events, which are in the history", count(more)))
}
