//! What planted bugs change. The simulation must find each bug; one that misses a bug proves
//! nothing.
//!
//! No bug changes the library's code. The bugs of clients are planted between that code and its
//! nodes; those of nodes in the texts of the scripts (script.rs) and in the server (peer.rs).

use quorumlock_protocol::expiry;
use quorumlock_protocol::{
    Acceptance, Answer, Denial, HeldInterval, Hints, Instant, Lane, LeaseRequest, NoAnswer, Node,
    NodeProblem, NodeReport, Responder, Vote,
};

use super::bug::Bug;
use super::ledger::Attempt;
use super::request::{SimAnswer, SimRequest};
use super::tap::Posted;
use super::time::duration;
use super::world::{Delivery, State, World};

/// Whether a client with the planted bug never sends this request.
pub fn swallows(state: &State, posted: &Posted) -> bool {
    match &posted.request {
        SimRequest::Release(lease) if state.bug == Some(Bug::ReleasesOnlyGranted) => {
            let number = state.ledger.of(lease);
            number.is_some_and(|number| !state.ledger.attempts[number].nodes[posted.node].counted)
        }
        _ => false,
    }
}

/// The client releases all nodes as soon as too many of them have refused, before its holder knows.
pub fn frees_unheard(world: &World, posted: &Posted) {
    if !matches!(posted.request, SimRequest::Renew(_)) {
        return;
    }
    for lease in posted.request.leases() {
        let nodes = world.with(|state| {
            let lost = state.ledger.of(lease).map(|number| &state.ledger.attempts[number]);
            let lost = lost
                .is_some_and(|lost| lost.granted && !lost.over && lost.until() == Instant::NEVER);
            if !lost || state.closed {
                return Vec::new();
            }
            let nodes = state.processes[posted.client].nodes.clone();
            for node in 0..nodes.len() {
                state.posted((posted.client, node), SimRequest::Release(lease.clone()), false);
                state.unasked(node, lease.nonce, lease.ttl);
            }
            nodes
        });
        for node in nodes.iter().filter_map(std::sync::Weak::upgrade) {
            let hints = Hints::default();
            let nobody = Responder::nobody();
            node.release(lease, HeldInterval::UNKNOWN, Lane::Watchdog, hints, nobody);
        }
    }
}

/// The client releases a lease, and the ledger does not know that its code does so.
fn release_unseen(state: &mut State, (client, node): (usize, usize), lease: LeaseRequest) {
    let node = state.processes[client].nodes.get(node).cloned();
    state.out.push(Delivery::Then(Box::new(move |_| {
        if let Some(node) = node.and_then(|node| node.upgrade()) {
            let (held, hints) = (HeldInterval::UNKNOWN, Hints::default());
            node.release(&lease, held, Lane::Caller, hints, Responder::nobody());
        }
    })));
}

/// The message of a handoff reaches a client that the reply to a later request has told of it.
pub fn hears_late(state: &mut State, (client, node): (usize, usize), attempt: usize) {
    let Attempt { claim, nonce, taken_up, .. } = &state.ledger.attempts[attempt];
    if state.bug == Some(Bug::ReleasesTakenUp) && *taken_up {
        let ttl = duration(state.plan.lease);
        let lease = LeaseRequest::new(claim.clone(), *nonce, ttl);
        release_unseen(state, (client, node), lease);
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

/// The answer that a client with the planted bug makes of `answer`.
pub fn alter(state: &mut State, posted: &Posted, answer: SimAnswer) -> SimAnswer {
    let Some(bug) = state.bug else { return answer };
    let answer = match bug {
        Bug::StartAfterReply => {
            counted_from(state, posted, state.processes[posted.client].now(), answer)
        }
        Bug::NoDriftAllowance => counted_from(state, posted, posted.asked, answer),
        _ => answer,
    };
    match (bug, answer) {
        (Bug::GrantedIsAccepted, SimAnswer::Vote(Answer::Yes(vote))) => {
            SimAnswer::Vote(Answer::Yes(Vote { token: Acceptance::Accepted, ..vote }))
        }
        // A grant by a node that lost its memory does not count. The bug is that its renewals do.
        (Bug::RenewsUnproven, SimAnswer::Vote(Answer::Yes(_))) if posted.unproven => {
            let report = NodeReport::new("node", NodeProblem::NotAdmitted);
            SimAnswer::Vote(Answer::No(Denial::NotAdmitted(report)))
        }
        (Bug::SilenceIsGrant | Bug::QuorumOfReachable, answer) if is_silent(bug, &answer) => {
            granted(state, posted, answer)
        }
        // The lessor would release it, and the call would take no handoff to it.
        (Bug::AbandonedTakenUp, SimAnswer::Vote(Answer::NoAnswer(NoAnswer::Unknown(_))))
            if posted.queued_at.is_some() =>
        {
            for lease in posted.request.leases() {
                release_unseen(state, (posted.client, posted.node), lease.clone());
            }
            SimAnswer::Vote(Answer::No(Denial::Busy(None)))
        }
        (Bug::SilenceIsLoss, SimAnswer::Until(answers)) => {
            let lost = |answer| match answer {
                Answer::NoAnswer(_) => Answer::No(Denial::Gone),
                other => other,
            };
            SimAnswer::Until(answers.into_iter().map(lost).collect())
        }
        (_, answer) => answer,
    }
}

/// The answer, with leases that count from `asked`.
fn counted_from(state: &State, posted: &Posted, asked: Instant, answer: SimAnswer) -> SimAnswer {
    let drift = max_clock_drift(state);
    let until = |at: usize| {
        let ttl = posted.request.leases().get(at).map_or_else(Default::default, |lease| lease.ttl);
        expiry(asked, ttl, drift)
    };
    match answer {
        SimAnswer::Vote(Answer::Yes(vote)) => {
            SimAnswer::Vote(Answer::Yes(Vote { until: until(0), ..vote }))
        }
        SimAnswer::One(Answer::Yes(_)) => SimAnswer::One(Answer::Yes(until(0))),
        SimAnswer::Until(answers) => {
            let counted = |(at, answer)| match answer {
                Answer::Yes(_) => Answer::Yes(until(at)),
                other => other,
            };
            SimAnswer::Until(answers.into_iter().enumerate().map(counted).collect())
        }
        other => other,
    }
}

fn is_silent(bug: Bug, answer: &SimAnswer) -> bool {
    match answer.no_answer() {
        Some(NoAnswer::NotSent(_)) => true,
        Some(NoAnswer::Unknown(_)) => bug == Bug::SilenceIsGrant,
        None => false,
    }
}

fn granted(state: &State, posted: &Posted, answer: SimAnswer) -> SimAnswer {
    let now = state.processes[posted.client].now();
    let until = |at: usize| {
        let ttl = posted.request.leases().get(at).map_or_else(Default::default, |lease| lease.ttl);
        expiry(now, ttl, state.plan.max_clock_drift)
    };
    match answer {
        SimAnswer::Vote(_) => {
            SimAnswer::Vote(Answer::Yes(Vote { until: until(0), token: Acceptance::Accepted }))
        }
        SimAnswer::Raised(_) => SimAnswer::Raised(Answer::Yes(Acceptance::Accepted)),
        SimAnswer::Until(answers) => {
            let all = (0..answers.len()).map(|at| Answer::Yes(until(at)));
            SimAnswer::Until(all.collect())
        }
        other => other,
    }
}
