use quorumlock_protocol::Instant;

use super::super::figures::Fault;
use crate::history::{Event, Phase};
use crate::svg::clean;

/// The faults, with their start and end.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Broken>);

#[derive(Debug)]
struct Broken {
    what: String,
    node: Option<usize>,
    from: Instant,
    until: Option<Instant>,
}

/// More faults would not be visible in a figure.
const MAX_FAULTS: usize = 1_000;

impl Faults {
    /// Takes an event of the nemesis.
    pub(super) fn event(&mut self, event: &Event, at: Instant) {
        let what = clean(event.what.as_deref().unwrap_or("fault")).into_owned();
        let full = self.0.len() >= MAX_FAULTS;
        let mended = self.0.iter_mut().rev().find(|broken| {
            broken.until.is_none() && broken.what == what && broken.node == event.node
        });
        let broken = |until| Broken { what: what.clone(), node: event.node, from: at, until };
        match (event.phase, mended) {
            // After `Fail` and `Unknown` too: the fault is over, or it is unknown whether it ever
            // began.
            (Phase::Ok | Phase::Fail | Phase::Unknown, Some(mended)) => mended.until = Some(at),
            _ if full => {}
            (Phase::Invoke, _) => self.0.push(broken(None)),
            _ => self.0.push(broken(Some(at))),
        }
    }

    /// The faults in order of time. A fault without an end lasts until the end of the history.
    pub(super) fn finish(self, begin: Instant, end: Instant) -> Vec<Fault> {
        let mut faults: Vec<_> = self
            .0
            .into_iter()
            .map(|broken| Fault {
                from: broken.from.since(begin),
                until: broken.until.unwrap_or(end).since(begin),
                words: match broken.node {
                    Some(node) => format!("{} (node {node})", broken.what),
                    None => broken.what,
                },
            })
            .collect();
        faults.sort_by(|a, b| (a.from, a.until, &a.words).cmp(&(b.from, b.until, &b.words)));
        faults
    }
}
