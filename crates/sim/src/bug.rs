//! The planted bugs: which invariant must catch each, and in which seed.

use super::faults::Fault;
use super::plan::Plan;
use super::violation::Invariant;

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
    NotesEndWithProcess,
    RevokesNothing,
    ReadsBesideWriter,
    SlotOfOthers,
    NoTakeoverDelay,
    HandsToSilent,
    DropsOwnHandoff,
    ForgetsOwnHandoff,
    HandsToOtherKinds,
    UnheardSlot,
    YieldsToEqual,
    ReleasesTakenUp,
    AbandonedTakenUp,
}

impl Bug {
    /// All planted bugs.
    pub const ALL: [Self; 39] = [
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
        Self::NotesEndWithProcess,
        Self::RevokesNothing,
        Self::ReadsBesideWriter,
        Self::SlotOfOthers,
        Self::NoTakeoverDelay,
        Self::HandsToSilent,
        Self::DropsOwnHandoff,
        Self::ForgetsOwnHandoff,
        Self::HandsToOtherKinds,
        Self::UnheardSlot,
        Self::YieldsToEqual,
        Self::ReleasesTakenUp,
        Self::AbandonedTakenUp,
    ];

    /// The invariants that must catch the bug. A catch by any other invariant does not count.
    pub fn caught_by(self) -> &'static [Invariant] {
        match self {
            Self::AcceptsEqual
            | Self::GrantedIsAccepted
            | Self::CopiesNoMarks
            | Self::NoBarrier
            | Self::BoundWhenSent
            | Self::HandsOldToken => &[Invariant::Tokens, Invariant::Register],
            Self::ReleasesOnlyGranted | Self::RenewalRecreates | Self::HandsToOtherKinds => {
                &[Invariant::Leak]
            }
            Self::NoLookAfterSubscribe
            | Self::HandsToSilent
            | Self::ForgetsOwnHandoff
            | Self::UnheardSlot
            | Self::YieldsToEqual => &[Invariant::Wake],
            Self::SilenceIsLoss => &[Invariant::ForAReason],
            Self::FreesUnheard => &[Invariant::GivenBack],
            Self::TrustsAnyLife => &[Invariant::FreedByUs],
            Self::NotesEndWithProcess => &[Invariant::Liveness],
            Self::NoTakeoverDelay => &[Invariant::Takeover],
            _ => &[Invariant::Lemma, Invariant::Exclusion],
        }
    }

    /// Whether a run of the plan is likely to show the bug. Some bugs need a round that is open for
    /// longer than a quarantine, a late copy of a request, or several nodes that restart. Runs with
    /// short-lived clients take long and show little else than what they are for.
    pub fn shows_in(self, plan: &Plan) -> bool {
        match self {
            Self::NoBarrier | Self::BoundWhenSent => plan.mid_round_faults,
            Self::CopiesNoMarks => !plan.restarts.is_empty() && plan.short_work.is_none(),
            Self::NotesEndWithProcess => plan.short_work.is_some(),
            Self::NoTakeoverDelay => plan.takeover_delay > 0 && plan.short_work.is_none(),
            Self::RenewsUnproven => {
                plan.cluster.is_some()
                    && plan.faults.contains(&Fault::Duplicate)
                    && plan.short_work.is_none()
            }
            Self::RevokesNothing => plan.faults.contains(&Fault::StalePromotion),
            Self::HandsToOtherKinds => plan.nodes == 1 && plan.kinds.mixed,
            Self::UnheardSlot => plan.nodes == 1 && plan.kinds.permits && plan.short_work.is_none(),
            Self::YieldsToEqual => plan.strict_order && plan.kinds.permits,
            Self::HandsToSilent
            | Self::DropsOwnHandoff
            | Self::ForgetsOwnHandoff
            | Self::ReleasesTakenUp
            | Self::AbandonedTakenUp => plan.nodes == 1,
            _ => plan.short_work.is_none(),
        }
    }

    /// The first seed that finds the bug (docs/SIMULATION.md); `None` if none is known.
    pub fn first_seed(self) -> Option<u64> {
        Some(match self {
            Self::AcceptsEqual => 7,
            Self::GrantedIsAccepted => 0,
            Self::CopiesNoMarks => 1_290,
            Self::OwnerNotNonce => 10,
            Self::ReleasesAnybodys => 1,
            Self::RenewsAnybodys => 10,
            Self::RenewalRecreates => 5,
            Self::StartAfterReply => 94,
            Self::NoDriftAllowance => 20,
            Self::ReleasesOnlyGranted => 310,
            Self::NoLookAfterSubscribe => 1,
            Self::SilenceIsGrant => 1,
            Self::QuorumOfReachable => 1,
            Self::SilenceIsLoss => 2,
            Self::ClockStopsInSuspend => 30,
            Self::UptimeWitness => 21,
            // No seed is known; the model finds the first two (PROTOCOL.md M9, M8e).
            Self::RenewsUnproven | Self::BoundWhenSent | Self::TrustsAnyLife => return None,
            Self::RecreatesUnproven => 438,
            Self::NoBarrier => 1_394,
            Self::RecordAtConnect => 55,
            Self::FreesUnheard => 0,
            Self::BelievesAnyMemory => 66,
            Self::HandsWhatIsHeld => 44,
            Self::HandsOldToken => 26,
            Self::NotesEndWithProcess => 8,
            Self::RevokesNothing => 1_047,
            Self::ReadsBesideWriter => 1,
            Self::SlotOfOthers => 20,
            Self::NoTakeoverDelay => 21,
            Self::HandsToSilent => 102,
            Self::DropsOwnHandoff => 264,
            Self::ForgetsOwnHandoff => 44,
            Self::HandsToOtherKinds => 4_864,
            Self::UnheardSlot => 39,
            Self::YieldsToEqual => 140,
            Self::ReleasesTakenUp => 642,
            Self::AbandonedTakenUp => 874,
        })
    }

    /// The bug in words.
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
            Self::NoDriftAllowance => "no allowance for drift while clocks are slewed",
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
            Self::NotesEndWithProcess => "a note ends with the process that wrote it",
            Self::RevokesNothing => "scripts are loaded on another server than the verified one",
            Self::ReadsBesideWriter => "a writer excludes no reader",
            Self::SlotOfOthers => {
                "a slot that another holds is granted while the other slot is free"
            }
            Self::NoTakeoverDelay => "a lost lease is released without the takeover delay",
            Self::HandsToSilent => "a release hands off to a waiter that is silent for two seconds",
            Self::DropsOwnHandoff => "a request drops the hold that its call was handed off",
            Self::ForgetsOwnHandoff => {
                "a request is refused by a hold that its call was handed off"
            }
            Self::HandsToOtherKinds => "a release hands off in its layout to a waiter of another",
            Self::UnheardSlot => "the message that a slot is free is not understood",
            Self::YieldsToEqual => {
                "in strict order two waiters who arrived at once yield to each other"
            }
            Self::ReleasesTakenUp => "a late message releases the hold that a reply has told",
            Self::AbandonedTakenUp => "a request that is being released gets the name by handoff",
        }
    }
}
