/// An event that must happen in at least one run. If it never does, the faults and the workload
/// reach too little (TigerBeetle's lesson: a fuzzer finds nothing in states that it never reaches,
/// and only a check like this shows which these are).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // `Sometimes::what` says it
#[repr(u8)]
pub enum Sometimes {
    SecondRound,
    RaiseRefused,
    RaiseMoved,
    PartialRenewal,
    Lapsed,
    LostByNo,
    HoldLimit,
    LateGrantKept,
    LateGrantReleased,
    SplitVote,
    NotifiedByMessage,
    PolledByTimer,
    ReleaseRepeated,
    ExecutedAfterRelease,
    NeverSent,
    MaybeSent,
    ReEntered,
    Cancelled,
    QueuedInProcess,
    StoppedPastWindow,
    KilledHolding,
    BacklogExecuted,
    CrashedHolding,
    StaleWriteRefused,
    AnswerAfterStop,
    ToppedUp,
    VoidedByQuarantine,
    Repaired,
    ColdStart,
    StaleRequest,
    UnprovenScript,
    ExchangedInHandshake,
    Retried,
    HomePassed,
    HomeFallback,
    LocalHandoff,
    TxnGrant,
    TxnRefused,
    TxnBehind,
    TxnUnproven,
    HandoffTaken,
    HandoffTakenUp,
    HandoffLost,
    FreedBefore,
    ShortLivedAdmitted,
    HalfWritten,
    ScriptMissing,
    ReadOnly,
    TxnAborted,
    SetGranted,
    PermitGranted,
    SlotTriedNext,
    ReadersOverlapped,
    Downgraded,
    TakenOver,
}

impl Sometimes {
    /// All events.
    pub const ALL: [Self; 55] = [
        Self::SecondRound,
        Self::RaiseRefused,
        Self::RaiseMoved,
        Self::PartialRenewal,
        Self::Lapsed,
        Self::LostByNo,
        Self::HoldLimit,
        Self::LateGrantKept,
        Self::LateGrantReleased,
        Self::SplitVote,
        Self::NotifiedByMessage,
        Self::PolledByTimer,
        Self::ReleaseRepeated,
        Self::ExecutedAfterRelease,
        Self::NeverSent,
        Self::MaybeSent,
        Self::ReEntered,
        Self::Cancelled,
        Self::QueuedInProcess,
        Self::StoppedPastWindow,
        Self::KilledHolding,
        Self::BacklogExecuted,
        Self::CrashedHolding,
        Self::StaleWriteRefused,
        Self::AnswerAfterStop,
        Self::ToppedUp,
        Self::VoidedByQuarantine,
        Self::Repaired,
        Self::ColdStart,
        Self::StaleRequest,
        Self::UnprovenScript,
        Self::ExchangedInHandshake,
        Self::Retried,
        Self::HomePassed,
        Self::HomeFallback,
        Self::LocalHandoff,
        Self::TxnGrant,
        Self::TxnRefused,
        Self::TxnBehind,
        Self::TxnUnproven,
        Self::HandoffTaken,
        Self::HandoffTakenUp,
        Self::HandoffLost,
        Self::FreedBefore,
        Self::ShortLivedAdmitted,
        Self::HalfWritten,
        Self::ScriptMissing,
        Self::ReadOnly,
        Self::TxnAborted,
        Self::SetGranted,
        Self::PermitGranted,
        Self::SlotTriedNext,
        Self::ReadersOverlapped,
        Self::Downgraded,
        Self::TakenOver,
    ];

    /// The event in words.
    pub fn what(self) -> &'static str {
        match self {
            Self::SecondRound => "another token was proposed to nodes that hold",
            Self::RaiseRefused => "a raise came when the nonce was no longer held",
            Self::RaiseMoved => "a raise found the mark as high as the token already",
            Self::PartialRenewal => "a renewal reached some nodes only, and the lease stood",
            Self::Lapsed => "a lease ended because no renewal was confirmed",
            Self::LostByNo => "a lease ended because nodes said definitely no",
            Self::HoldLimit => "a hold reached its limit",
            Self::LateGrantKept => "a grant after the decision was kept as a vote",
            Self::LateGrantReleased => "a grant after the decision was released",
            Self::SplitVote => "two attempts held nodes and neither a majority",
            Self::NotifiedByMessage => "a waiter tried again after a message",
            Self::PolledByTimer => "a waiter tried again after its timer",
            Self::ReleaseRepeated => "a release that may not have arrived was sent again",
            Self::ExecutedAfterRelease => "a node executed an acquisition after its release",
            Self::NeverSent => "a request failed before it was sent",
            Self::MaybeSent => "a request got no answer",
            Self::ReEntered => "an owner entered again",
            Self::Cancelled => "a call was dropped while it waited",
            Self::QueuedInProcess => "a task waited for its turn in its own process",
            Self::StoppedPastWindow => "a holder was stopped until after its window",
            Self::KilledHolding => "a holder was killed",
            Self::BacklogExecuted => "a stopped node executed what had come meanwhile",
            Self::CrashedHolding => "a node crashed while it held a lock",
            Self::StaleWriteRefused => "the resource refused a stale token",
            Self::AnswerAfterStop => "an answer lay waiting while the client was stopped",
            Self::ToppedUp => "a node that lacked a lease took its share",
            Self::VoidedByQuarantine => "a holder was told that a node counts for nothing",
            Self::Repaired => "a node was admitted with the marks of a majority",
            Self::ColdStart => "a node was admitted with fewer helpers than a majority",
            Self::StaleRequest => "a request was not sent: the node had been verified anew",
            Self::UnprovenScript => "a script found another stamp than its own, or was gone",
            Self::ExchangedInHandshake => "a server was exchanged in a handshake",
            Self::Retried => "a round that had become stale was begun again",
            Self::HomePassed => "the gate granted, and then the others were asked",
            Self::HomeFallback => "a gate did not answer in time, and all were asked",
            Self::LocalHandoff => "a lease was handed over inside a process",
            Self::TxnGrant => "an acquisition was granted without a script",
            Self::TxnRefused => "a mark moved for a caller that was refused",
            Self::TxnBehind => "a name was granted without a script, and the token not accepted",
            Self::TxnUnproven => "a name was set where no memory was proven",
            Self::HandoffTaken => "a release handed a name over to a waiter",
            Self::HandoffTakenUp => {
                "a waiter that asked again heard of a handoff whose message was lost"
            }
            Self::HandoffLost => "a name was handed over where nobody waited for it any more",
            Self::FreedBefore => "a release that was asked again had freed the lock before",
            Self::ShortLivedAdmitted => "short-lived clients alone admitted nodes that restarted",
            Self::HalfWritten => "a stream took a part of a request",
            Self::ScriptMissing => "a server had lost the script that a client called",
            Self::ReadOnly => "a replica refused to write",
            Self::TxnAborted => "a replica refused a command of a transaction",
            Self::SetGranted => "several names were granted in one step",
            Self::PermitGranted => "a permit was granted",
            Self::SlotTriedNext => "a client asked for another slot of its permits",
            Self::ReadersOverlapped => "two readers held a name at the same time",
            Self::Downgraded => "a writer became a reader",
            Self::TakenOver => "a lost lease was taken over after the takeover delay",
        }
    }
}

/// The set of events that have been seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen(u64);

impl Seen {
    /// Adds an event.
    pub fn see(&mut self, what: Sometimes) {
        self.0 |= 1 << what as u8;
    }

    /// Whether `what` was seen.
    pub fn has(self, what: Sometimes) -> bool {
        self.0 & (1 << what as u8) != 0
    }

    /// The events that are in either set.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The events that were not seen.
    pub fn missing(self) -> Vec<Sometimes> {
        Sometimes::ALL.into_iter().filter(|what| !self.has(*what)).collect()
    }
}
