use std::io::{self, Write as _};

use super::Config;
use crate::history::{Event, Op, Phase, SCHEMA};
use crate::stamp;

/// Tells events of one client, stamped now unless said otherwise.
#[derive(Debug)]
pub(super) struct Teller {
    run: String,
    seed: u64,
    client: String,
    name: String,
}

/// What an event has besides op and phase.
#[derive(Debug, Default)]
pub(super) struct Details {
    /// When it happened, if not now.
    pub(super) mono_ns: Option<u64>,
    pub(super) hold: Option<u64>,
    pub(super) nonce: Option<String>,
    pub(super) token: Option<u64>,
    pub(super) valid_until_ns: Option<u64>,
    pub(super) value: Option<i64>,
    pub(super) what: Option<String>,
}

impl Details {
    pub(super) fn of(hold: u64) -> Self {
        Self { hold: Some(hold), ..Self::default() }
    }

    pub(super) fn what(mut self, what: impl ToString) -> Self {
        self.what = Some(what.to_string());
        self
    }
}

impl Teller {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            run: config.run.clone(),
            seed: config.seed,
            client: config.client.clone(),
            name: config.locking.name.clone(),
        }
    }

    pub(super) fn tell(&self, op: Op, phase: Phase, details: Details) {
        let event = Event {
            v: SCHEMA,
            run: self.run.clone(),
            seed: self.seed,
            // The recorder gives it its place.
            seq: 0,
            mono_ns: details.mono_ns.unwrap_or_else(stamp::mono_ns),
            wall_ns: stamp::wall_ns(),
            client: self.client.clone(),
            op,
            phase,
            hold: details.hold,
            name: (op != Op::Note).then(|| self.name.clone()),
            nonce: details.nonce,
            token: details.token,
            valid_until_ns: details.valid_until_ns,
            node: None,
            value: details.value,
            what: details.what,
        };
        let Ok(mut line) = serde_json::to_vec(&event) else { return };
        line.push(b'\n');
        // One write per line, or a kill could leave half of one between two others.
        let mut out = io::stdout().lock();
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}
