//! The trace notes and observations about requests that clients send.

use super::link::{LinkId, Pending};
use super::request::{AdmissionRequest, SimRequest};
use super::sometimes::Sometimes;
use super::trace::Who;
use super::world::State;

impl State {
    pub fn observe_waiter(&mut self, at: LinkId, request: &SimRequest) {
        if let SimRequest::Acquire(lease, ..) = request
            && self.ledger.of(lease).is_none()
            && self.processes[at.client].waits_for(at.node, &lease.name)
        {
            let (message, subscribed) = std::mem::take(&mut self.processes[at.client].wake_ups);
            if message {
                self.see(Sometimes::NotifiedByMessage);
            } else if !subscribed {
                self.see(Sometimes::PolledByTimer);
            }
        }
    }

    pub fn note_request(&mut self, what: &'static str, at: LinkId, request: &SimRequest) {
        let attempt = request.leases().first().and_then(|lease| self.ledger.of(lease));
        self.note(what, Who::both(at.client, at.node).on(attempt), verb_number(request));
    }
}

impl State {
    /// Notes an answer that comes after the answer timeout, when a single node's lessor no longer
    /// waits for it.
    pub fn note_late(&mut self, pending: &Pending) {
        let late = self.now > pending.sent + self.plan.answer_timeout;
        if late && let SimRequest::Renew(leases) = &*pending.request {
            for lease in leases {
                if let Some(number) = self.ledger.of(lease) {
                    self.ledger.attempts[number].late_at = self.now;
                }
            }
        }
    }
}

fn verb_number(request: &SimRequest) -> u64 {
    match request {
        SimRequest::Acquire(..) => 1,
        SimRequest::Raise(..) => 2,
        SimRequest::Renew(_) => 3,
        SimRequest::Release(..) => 4,
        SimRequest::Inspect(_) => 5,
        SimRequest::ForceRelease(_) => 6,
        SimRequest::Regrant(..) => 7,
        SimRequest::Dequeue(_) => 13,
        SimRequest::Admission(AdmissionRequest::NodeInfo) => 8,
        SimRequest::Admission(AdmissionRequest::Note(_)) => 9,
        SimRequest::Admission(AdmissionRequest::Barrier(_)) => 10,
        SimRequest::Admission(AdmissionRequest::Admit(_)) => 11,
        SimRequest::Admission(AdmissionRequest::Provision(..)) => 12,
        SimRequest::Admission(AdmissionRequest::WriteTerms(..)) => 13,
    }
}
