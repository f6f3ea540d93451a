use std::sync::Arc;

use crate::history::{Event, Refusal};

/// The fields of a client's event besides `op` and `phase`.
#[derive(Debug, Default)]
pub(crate) struct Details {
    /// The time of the event, if not now.
    pub(crate) mono_ns: Option<u64>,
    pub(crate) asked_ns: Option<u64>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) permits: Option<u32>,
    pub(crate) reads: bool,
    pub(crate) task: Option<u64>,
    pub(crate) hold: Option<u64>,
    pub(crate) nonce: Option<String>,
    pub(crate) token: Option<u64>,
    pub(crate) valid_until_ns: Option<u64>,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) what: Option<String>,
}

impl Details {
    pub(crate) fn of(hold: u64) -> Self {
        Self { hold: Some(hold), ..Self::default() }
    }

    pub(crate) fn what(mut self, what: impl ToString) -> Self {
        self.what = Some(what.to_string());
        self
    }

    /// The event with these fields.
    pub(crate) fn complete(self, event: Event) -> Event {
        let Self {
            mono_ns,
            asked_ns,
            name,
            permits,
            reads,
            task,
            hold,
            nonce,
            token,
            valid_until_ns,
            refusal,
            what,
        } = self;
        Event {
            mono_ns: mono_ns.unwrap_or(event.mono_ns),
            asked_ns,
            hold,
            task,
            name: name.map(|name| name.to_string()),
            permits,
            reads,
            nonce,
            token,
            valid_until_ns,
            refusal,
            what,
            ..event
        }
    }
}
