use std::io::{self, Write as _};

use super::config::Config;
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
    name: String,
}

impl EventWriter {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            run: config.run.clone(),
            seed: config.seed,
            client: config.client.clone(),
            name: config.locking.name.clone(),
        }
    }

    pub(super) fn write(&self, op: Op, phase: Phase, details: Details) {
        let now = (timestamp::mono_ns(), timestamp::wall_ns());
        let event = Event::seen((&self.run, self.seed), now, &self.client, op, phase);
        let Ok(mut line) = serde_json::to_vec(&details.complete(event, &self.name)) else { return };
        line.push(b'\n');
        // One write per line, so that a kill does not leave part of a line between two others.
        let mut out = io::stdout().lock();
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}
