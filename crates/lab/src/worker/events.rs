use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use super::config::Config;
use super::protocol::Line;
use crate::history::{Event, Op, Phase};
use crate::timestamp;
use crate::workload::Details;

/// Writes the events of one client to standard output, with the current time unless given. The
/// recorder assigns their sequence numbers.
#[derive(Debug)]
pub(super) struct EventWriter {
    run: String,
    seed: u64,
    client: String,
    /// Events that are written at the end of the worker; `None` if each is written at once.
    kept: Option<Mutex<Vec<Observation>>>,
}

/// An event without what all events of the client share.
#[derive(Debug)]
struct Observation {
    op: Op,
    phase: Phase,
    /// By the judges' clock and by the wall clock.
    at: (u64, u64),
    details: Details,
}

impl EventWriter {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            run: config.run.clone(),
            seed: config.seed,
            client: config.client.clone(),
            kept: config.work.records_at_end.then(Mutex::default),
        }
    }

    pub(super) fn record(&self, op: Op, phase: Phase, details: Details) {
        let at = (timestamp::mono_ns(), timestamp::wall_ns());
        let seen = Observation { op, phase, at, details };
        match &self.kept {
            // The lab waits for its notes: `ready`, `done`.
            Some(kept) if op != Op::Note => {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
            }
            _ => self.write(seen),
        }
    }

    /// Writes what was kept.
    pub(super) fn flush(&self) {
        if let Some(kept) = &self.kept {
            let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
            kept.into_iter().for_each(|seen| self.write(seen));
        }
    }

    fn write(&self, Observation { op, phase, at, details }: Observation) {
        let event = Event::seen((&self.run, self.seed), at, &self.client, op, phase);
        print(&Line::Event(Box::new(details.complete(event))));
    }
}

/// Prints a line to the lab.
pub(super) fn print(line: &Line) {
    let Ok(mut text) = serde_json::to_vec(line) else { return };
    text.push(b'\n');
    // One write per line, so that a kill does not leave part of a line between two others.
    let mut out = io::stdout().lock();
    let _ = out.write_all(&text).and_then(|()| out.flush());
}
