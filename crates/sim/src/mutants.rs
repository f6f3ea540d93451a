//! What planted bugs change. The simulation must find each bug; one that misses a bug proves
//! nothing.
//!
//! All bugs are planted at the boundary between the library's code and the simulated nodes, so that
//! the library's code stays unchanged.

use quorumlock_protocol::expiry;
use quorumlock_protocol::{
    Acceptance, Answer, Denial, HeldInterval, Instant, Lane, NoAnswer, NodeProblem, NodeReport,
    Responder, Vote,
};

use super::bug::Bug;
use super::link::{LinkId, Pending};
use super::request::{DeliveredReply, SimRequest, SimResponder};
use super::world::State;

/// Whether a client with the planted bug never sends this request.
pub fn swallows(state: &State, at: LinkId, request: &SimRequest) -> bool {
    match request {
        SimRequest::Release(lease, ..) if state.bug == Some(Bug::ReleasesOnlyGranted) => {
            let number = state.ledger.of(lease);
            number.is_some_and(|number| !state.ledger.attempts[number].nodes[at.node].counted)
        }
        _ => false,
    }
}

/// The client releases all nodes as soon as too many of them have refused, before its holder knows.
pub fn frees_unheard(state: &mut State, at: LinkId, request: &SimRequest) {
    if state.bug != Some(Bug::FreesUnheard) || !matches!(request, SimRequest::Renew(_)) {
        return;
    }
    for lease in request.leases() {
        let lost = state.ledger.of(lease).map(|number| &state.ledger.attempts[number]);
        if lost.is_some_and(|lost| lost.granted && !lost.over && lost.until() == Instant::NEVER) {
            for node in 0..state.plan.nodes {
                let link = LinkId { node, lane: Lane::Watchdog, ..at };
                state.post(
                    link,
                    SimRequest::release(lease, HeldInterval::UNKNOWN, None),
                    SimResponder::Freed(Responder::nobody()),
                );
            }
        }
    }
}

/// The instant from which the client counts the lease.
pub fn asked(state: &State, client: usize, pending: &Pending) -> Instant {
    match state.bug {
        Some(Bug::StartAfterReply) => state.processes[client].now(),
        _ => pending.asked,
    }
}

pub fn max_clock_drift(state: &State) -> f64 {
    if state.bug == Some(Bug::NoDriftAllowance) { 0.0 } else { state.plan.max_clock_drift }
}

/// A client connects to a node that is not proven, and admits it if its uptime is long enough.
pub fn trusts_uptime(state: &mut State, node: usize) {
    if state.bug != Some(Bug::UptimeWitness) {
        return;
    }
    let (now, longest) = (state.now, state.plan.quarantine());
    let server = &state.servers[node];
    let old = server.uptime(now) > longest;
    if !old || server.admitted() {
        return;
    }
    let incarnation = state.fresh_incarnation();
    state.servers[node].provision(&incarnation, now);
}

/// Whether the client sends this request to a node that is not proven.
pub fn asks_unproven(bug: Option<Bug>, request: &SimRequest) -> bool {
    match bug {
        Some(Bug::RenewsUnproven) => {
            matches!(request, SimRequest::Acquire(..) | SimRequest::Renew(_))
        }
        Some(Bug::RecreatesUnproven) => matches!(request, SimRequest::Regrant(..)),
        _ => false,
    }
}

/// The answers that a client with the planted bug makes of `answer`.
pub fn bend(
    state: &mut State,
    at: LinkId,
    request: &SimRequest,
    answer: DeliveredReply,
) -> Vec<DeliveredReply> {
    let Some(bug) = state.bug else { return vec![answer] };
    match (bug, answer) {
        (Bug::GrantedIsAccepted, DeliveredReply::Vote(to, Answer::Yes(vote))) => {
            vec![DeliveredReply::Vote(
                to,
                Answer::Yes(Vote { token: Acceptance::Accepted, ..vote }),
            )]
        }
        // A grant by a node that lost its memory does not count. The bug is that its renewals do.
        (Bug::RenewsUnproven, DeliveredReply::Vote(to, Answer::Yes(_)))
            if state.link(at).unproven().is_some() =>
        {
            let report = NodeReport::new("node", NodeProblem::NotAdmitted);
            vec![DeliveredReply::Vote(to, Answer::No(Denial::NotAdmitted(report)))]
        }
        (Bug::SilenceIsGrant | Bug::QuorumOfReachable, answer) if is_silent(bug, &answer) => {
            vec![granted(state, at, request, answer)]
        }
        (Bug::SilenceIsLoss, DeliveredReply::Until(to, answers)) => {
            let lost = |answer| match answer {
                Answer::NoAnswer(_) => Answer::No(Denial::Gone),
                other => other,
            };
            vec![DeliveredReply::Until(to, answers.into_iter().map(lost).collect())]
        }
        (_, answer) => vec![answer],
    }
}

fn is_silent(bug: Bug, answer: &DeliveredReply) -> bool {
    let counts = |no_answer: &NoAnswer| match no_answer {
        NoAnswer::NotSent(_) => true,
        NoAnswer::Unknown(_) => bug == Bug::SilenceIsGrant,
    };
    match answer {
        DeliveredReply::Vote(_, Answer::NoAnswer(no_answer))
        | DeliveredReply::Raised(_, Answer::NoAnswer(no_answer)) => counts(no_answer),
        DeliveredReply::Until(_, answers) => {
            matches!(answers.first(), Some(Answer::NoAnswer(no_answer)) if counts(no_answer))
        }
        _ => false,
    }
}

fn granted(
    state: &State,
    at: LinkId,
    request: &SimRequest,
    answer: DeliveredReply,
) -> DeliveredReply {
    let now = state.processes[at.client].now();
    let until = |at: usize| {
        let ttl = request.leases().get(at).map_or_else(Default::default, |lease| lease.ttl);
        expiry(now, ttl, state.plan.max_clock_drift)
    };
    match answer {
        DeliveredReply::Vote(to, _) => DeliveredReply::Vote(
            to,
            Answer::Yes(Vote { until: until(0), token: Acceptance::Accepted }),
        ),
        DeliveredReply::Raised(to, _) => {
            DeliveredReply::Raised(to, Answer::Yes(Acceptance::Accepted))
        }
        DeliveredReply::Until(to, answers) => {
            let all = (0..answers.len()).map(|at| Answer::Yes(until(at)));
            DeliveredReply::Until(to, all.collect())
        }
        other => other,
    }
}
