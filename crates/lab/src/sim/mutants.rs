//! Bugs planted on purpose: each must be found, or the lab proves nothing.
//!
//! All are planted at the boundary, so that the library's own code stays as it is.

use quorumlock_core::{
    Acceptance, Answer, Denial, Held, Instant, Lane, NodeProblem, NodeReport, ReplyTo, Silence,
    Vote,
};
use quorumlock_watchdog::expiry;

use super::ask::{Ask, To, Told};
use super::invariants::Invariant;
use super::link::{LinkId, Pending};
use super::world::State;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // `Bug::what` says it
pub enum Bug {
    AcceptsEqual,
    GrantedIsAccepted,
    CopiesNoMarks,
    OwnerNotNonce,
    ReleasesAnybodys,
    RenewsAnybodys,
    RenewalRecreates,
    StartAfterReply,
    NoDriftAllowance,
    ReleasesOnlyGranted,
    NoLookAfterSubscribe,
    SilenceIsGrant,
    QuorumOfReachable,
    SilenceIsLoss,
    ClockStopsInSuspend,
    UptimeWitness,
    RenewsUnproven,
    RecreatesUnproven,
    NoBarrier,
    BoundWhenSent,
    RecordAtConnect,
    FreesUnheard,
    BelievesAnyMemory,
    HandsWhatIsHeld,
    HandsOldToken,
    TrustsAnyLife,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::AcceptsEqual,
        Self::GrantedIsAccepted,
        Self::CopiesNoMarks,
        Self::OwnerNotNonce,
        Self::ReleasesAnybodys,
        Self::RenewsAnybodys,
        Self::RenewalRecreates,
        Self::StartAfterReply,
        Self::NoDriftAllowance,
        Self::ReleasesOnlyGranted,
        Self::NoLookAfterSubscribe,
        Self::SilenceIsGrant,
        Self::QuorumOfReachable,
        Self::SilenceIsLoss,
        Self::ClockStopsInSuspend,
        Self::UptimeWitness,
        Self::RenewsUnproven,
        Self::RecreatesUnproven,
        Self::NoBarrier,
        Self::BoundWhenSent,
        Self::RecordAtConnect,
        Self::FreesUnheard,
        Self::BelievesAnyMemory,
        Self::HandsWhatIsHeld,
        Self::HandsOldToken,
        Self::TrustsAnyLife,
    ];

    /// By what it must be caught: anything else would be luck.
    pub fn caught_by(self) -> &'static [Invariant] {
        match self {
            Self::AcceptsEqual
            | Self::GrantedIsAccepted
            | Self::CopiesNoMarks
            | Self::NoBarrier
            | Self::BoundWhenSent
            | Self::HandsOldToken => &[Invariant::Tokens, Invariant::Register],
            Self::ReleasesOnlyGranted | Self::RenewalRecreates => &[Invariant::Leak],
            Self::NoLookAfterSubscribe => &[Invariant::Wake],
            Self::SilenceIsLoss => &[Invariant::ForAReason],
            Self::FreesUnheard => &[Invariant::GivenBack],
            Self::TrustsAnyLife => &[Invariant::FreedByUs],
            _ => &[Invariant::Lemma, Invariant::Exclusion],
        }
    }

    /// The first seed in which it shows (docs/SIMULATION.md).
    pub fn first_seed(self) -> u64 {
        match self {
            Self::AcceptsEqual => 1,
            Self::GrantedIsAccepted => 0,
            Self::CopiesNoMarks => 8902,
            Self::OwnerNotNonce => 0,
            Self::ReleasesAnybodys => 0,
            Self::RenewsAnybodys => 0,
            Self::RenewalRecreates => 5,
            Self::StartAfterReply => 76,
            Self::NoDriftAllowance => 0,
            Self::ReleasesOnlyGranted => 84,
            Self::NoLookAfterSubscribe => 7,
            Self::SilenceIsGrant => 0,
            Self::QuorumOfReachable => 0,
            Self::SilenceIsLoss => 0,
            Self::ClockStopsInSuspend => 15,
            Self::UptimeWitness => 0,
            Self::RenewsUnproven => 32,
            Self::RecreatesUnproven => 28,
            Self::NoBarrier => 1702,
            Self::BoundWhenSent => 4677,
            Self::RecordAtConnect => 0,
            Self::FreesUnheard => 0,
            Self::BelievesAnyMemory => 9,
            Self::HandsWhatIsHeld => 82,
            Self::HandsOldToken => 26,
            Self::TrustsAnyLife => 38,
        }
    }

    /// In words.
    pub fn what(self) -> &'static str {
        match self {
            Self::AcceptsEqual => "a token that equals the mark is accepted",
            Self::GrantedIsAccepted => "a node that granted counts, though it did not accept",
            Self::CopiesNoMarks => "a repair copies no marks",
            Self::OwnerNotNonce => "nodes match the owner instead of the nonce",
            Self::ReleasesAnybodys => "a release does not check the nonce",
            Self::RenewsAnybodys => "a renewal does not check the nonce",
            Self::RenewalRecreates => "a renewal creates a missing key, and counts",
            Self::StartAfterReply => "the lease counts from the reply",
            Self::NoDriftAllowance => "rho is 0 while clocks are slewed",
            Self::ReleasesOnlyGranted => "only nodes that granted are released",
            Self::NoLookAfterSubscribe => "no second look after the subscription",
            Self::SilenceIsGrant => "no answer counts as granted",
            Self::QuorumOfReachable => "the quorum is that of the reachable nodes",
            Self::SilenceIsLoss => "an unanswered renewal counts as lost",
            Self::ClockStopsInSuspend => "the lease clock stops while the process does",
            Self::UptimeWitness => "a node that forgot is admitted by its uptime",
            Self::RenewsUnproven => {
                "a node that forgot grants without counting, but renewals count"
            }
            Self::RecreatesUnproven => "a lease that is re-created on a node that forgot counts",
            Self::NoBarrier => "a repair reads the marks without a barrier",
            Self::BoundWhenSent => "a request is bound to the stamp of when it is sent",
            Self::RecordAtConnect => "the record is checked at connect, not in the scripts",
            Self::FreesUnheard => "nodes are freed at a loss, before its holder has heard",
            Self::BelievesAnyMemory => "a grant without a script counts wherever the name was free",
            Self::HandsWhatIsHeld => "a release hands over a name that another holds",
            Self::HandsOldToken => "a name is handed over with the token of the holder before",
            Self::TrustsAnyLife => {
                "a repeated release succeeds whatever life of the server it meets"
            }
        }
    }
}

/// Whether the client's code does not send this at all.
pub(super) fn swallows(state: &State, at: LinkId, ask: &Ask) -> bool {
    match ask {
        Ask::Release(terms, ..) if state.bug == Some(Bug::ReleasesOnlyGranted) => {
            let number = terms.first().and_then(|term| state.ledger.of(term));
            number.is_some_and(|number| !state.ledger.attempts[number].nodes[at.node].counted)
        }
        _ => false,
    }
}

/// The client's code gives nodes back as soon as it has heard too many noes.
pub(super) fn frees_unheard(state: &mut State, at: LinkId, ask: &Ask) {
    if state.bug != Some(Bug::FreesUnheard) || !matches!(ask, Ask::Renew(_)) {
        return;
    }
    for term in ask.terms() {
        let lost = state.ledger.of(term).map(|number| &state.ledger.attempts[number]);
        if lost.is_some_and(|lost| lost.granted && !lost.over && lost.until() == Instant::NEVER) {
            for node in 0..state.plan.nodes {
                let link = LinkId { node, lane: Lane::Keep, ..at };
                state.post(
                    link,
                    Ask::release(term, Held::UNKNOWN, None),
                    To::Freed(ReplyTo::nobody()),
                );
            }
        }
    }
}

/// From when the lease counts.
pub(super) fn asked(state: &State, client: usize, pending: &Pending) -> Instant {
    match state.bug {
        Some(Bug::StartAfterReply) => state.processes[client].now(),
        _ => pending.asked,
    }
}

pub(super) fn rho(state: &State) -> f64 {
    if state.bug == Some(Bug::NoDriftAllowance) { 0.0 } else { state.plan.rho }
}

/// A client connects to a node that is not proven.
pub(super) fn trusts_uptime(state: &mut State, node: usize) {
    if state.bug != Some(Bug::UptimeWitness) {
        return;
    }
    let (now, longest) = (state.now, state.plan.quarantine());
    let server = &state.servers[node];
    let old = server.uptime(now) > longest;
    let Some(charter) = server.charter.clone().filter(|_| old && !server.admitted()) else {
        return;
    };
    let stamp = state.fresh_stamp();
    let server = &mut state.servers[node];
    let life = server.life.id();
    server.store.provision((&stamp, true), &charter, &life, now);
}

/// Whether this is asked of a node that is not proven.
pub(super) fn asks_unproven(bug: Option<Bug>, ask: &Ask) -> bool {
    match bug {
        Some(Bug::RenewsUnproven) => matches!(ask, Ask::Acquire(..) | Ask::Renew(_)),
        Some(Bug::RecreatesUnproven) => matches!(ask, Ask::Recreate(..)),
        _ => false,
    }
}

/// What the client's code makes of an answer.
pub(super) fn bend(state: &mut State, at: LinkId, ask: &Ask, told: Told) -> Vec<Told> {
    let Some(bug) = state.bug else { return vec![told] };
    match (bug, told) {
        (Bug::GrantedIsAccepted, Told::Vote(to, Answer::Yes(vote))) => {
            vec![Told::Vote(to, Answer::Yes(Vote { token: Acceptance::Accepted, ..vote }))]
        }
        // A grant of a node that forgot does not count; where the renewals do is the bug.
        (Bug::RenewsUnproven, Told::Vote(to, Answer::Yes(_)))
            if state.link(at).unproven().is_some() =>
        {
            let report = NodeReport::new("node", NodeProblem::NotAdmitted);
            vec![Told::Vote(to, Answer::No(Denial::NotAdmitted(report)))]
        }
        (Bug::SilenceIsGrant | Bug::QuorumOfReachable, told) if is_silent(bug, &told) => {
            vec![granted(state, at, ask, told)]
        }
        (Bug::SilenceIsLoss, Told::Until(to, answers)) => {
            let lost = |answer| match answer {
                Answer::Silent(_) => Answer::No(Denial::Gone),
                other => other,
            };
            vec![Told::Until(to, answers.into_iter().map(lost).collect())]
        }
        (_, told) => vec![told],
    }
}

fn is_silent(bug: Bug, told: &Told) -> bool {
    let counts = |silence: &Silence| match silence {
        Silence::Never(_) => true,
        Silence::Maybe(_) => bug == Bug::SilenceIsGrant,
    };
    match told {
        Told::Vote(_, Answer::Silent(silence)) | Told::Raised(_, Answer::Silent(silence)) => {
            counts(silence)
        }
        Told::Until(_, answers) => {
            matches!(answers.first(), Some(Answer::Silent(silence)) if counts(silence))
        }
        _ => false,
    }
}

fn granted(state: &State, at: LinkId, ask: &Ask, told: Told) -> Told {
    let now = state.processes[at.client].now();
    let until = |at: usize| {
        let ttl = ask.terms().get(at).map_or_else(Default::default, |term| term.ttl);
        expiry(now, ttl, state.plan.rho)
    };
    match told {
        Told::Vote(to, _) => {
            Told::Vote(to, Answer::Yes(Vote { until: until(0), token: Acceptance::Accepted }))
        }
        Told::Raised(to, _) => Told::Raised(to, Answer::Yes(Acceptance::Accepted)),
        Told::Until(to, answers) => {
            let all = (0..answers.len()).map(|at| Answer::Yes(until(at)));
            Told::Until(to, all.collect())
        }
        other => other,
    }
}
