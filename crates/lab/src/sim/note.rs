//! What is noted of the requests that clients send.

use super::ask::{Ask, Office};
use super::link::{LinkId, Pending};
use super::sometimes::Sometimes;
use super::trace::Who;
use super::world::State;

impl State {
    pub(super) fn waiter_asks(&mut self, at: LinkId, ask: &Ask) {
        if let Ask::Acquire(term, ..) = ask
            && self.ledger.of(term).is_none()
            && self.processes[at.client].waits_for(at.node, &term.name)
        {
            let told = std::mem::take(&mut self.processes[at.client].told);
            let (message, subscribed) = told;
            if message {
                self.see(Sometimes::WokenByMessage);
            } else if !subscribed {
                self.see(Sometimes::WokenByTimer);
            }
        }
    }

    pub(super) fn note_ask(&mut self, what: &'static str, at: LinkId, ask: &Ask) {
        let attempt = ask.terms().first().and_then(|term| self.ledger.of(term));
        self.note(what, Who::both(at.client, at.node).on(attempt), verb_number(ask));
    }
}

impl State {
    /// A single node's lessor listens no longer than the answer timeout.
    pub(super) fn note_late(&mut self, pending: &Pending) {
        let late = self.now > pending.sent + self.plan.answer_timeout;
        if late && let Ask::Renew(terms) = &*pending.ask {
            for term in terms {
                if let Some(number) = self.ledger.of(term) {
                    self.ledger.attempts[number].late_at = self.now;
                }
            }
        }
    }
}

fn verb_number(ask: &Ask) -> u64 {
    match ask {
        Ask::Acquire(..) => 1,
        Ask::Raise(..) => 2,
        Ask::Renew(_) => 3,
        Ask::Release(..) => 4,
        Ask::Inspect(_) => 5,
        Ask::ForceRelease(_) => 6,
        Ask::Recreate(..) => 7,
        Ask::Leave(_) => 13,
        Ask::Office(Office::Examine) => 8,
        Ask::Office(Office::Note(_)) => 9,
        Ask::Office(Office::Barrier(_)) => 10,
        Ask::Office(Office::Admit { .. }) => 11,
        Ask::Office(Office::Provision { .. }) => 12,
    }
}
