//! What goes wrong, and which of docs/SAFETY.md's assumptions that breaks.

/// What a guarantee rests on (docs/SAFETY.md, A1 to A8). The others cannot be broken here: nonces
/// are distinct, scripts atomic, and all clients configured alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assumption {
    /// A node's clock gains at most rho on the client's and makes no forward step.
    Rates,
    /// The lease clock counts all time in which the process does not run.
    ClientClock,
    /// A node forgets and deletes no lock that it acknowledged.
    Continuity,
    /// A node forgets no counter.
    Marks,
    /// What a node gave back or let expire does not come back.
    Oblivion,
    /// What answers on a connection that lives on deletes no lock: nobody flushes it, evicts from it, frees
    /// by hand, hands it another memory or puts another server in its place.
    Memory,
}

/// A kind of fault; each is on for half of all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // each says what it is; `breaks` says what it does
pub enum Fault {
    // Single messages.
    Delay,
    DropRequest,
    DropReply,
    Duplicate,
    Reorder,
    LostMessage,
    // Connections.
    Break,
    Cut,
    HalfOpen,
    // Nodes.
    CrashKeepingData,
    NodePause,
    ClockBack,
    ClockSlew,
    NodeFreeze,
    // Clients.
    ClientPause,
    ClientKill,
    // Faults that break an assumption.
    CrashLosingTail,
    CrashLosingAll,
    StalePromotion,
    Flush,
    Resync,
    Restore,
    EvictLock,
    EvictMark,
    ForceUnlock,
    ClockForward,
    ClockRace,
    ClientFreeze,
}

impl Fault {
    /// Those that break no assumption: every guarantee must stand.
    pub const SOUND: [Self; 16] = [
        Self::Delay,
        Self::DropRequest,
        Self::DropReply,
        Self::Duplicate,
        Self::Reorder,
        Self::LostMessage,
        Self::Break,
        Self::Cut,
        Self::HalfOpen,
        Self::CrashKeepingData,
        Self::NodePause,
        Self::ClockBack,
        Self::ClockSlew,
        Self::NodeFreeze,
        Self::ClientPause,
        Self::ClientKill,
    ];

    /// Those by which a node forgets: admission notices, so with it they break little.
    pub const FORGETFUL: [Self; 6] = [
        Self::CrashLosingTail,
        Self::CrashLosingAll,
        Self::StalePromotion,
        Self::Flush,
        Self::Resync,
        Self::Restore,
    ];

    /// Those that break one, without admission: the guarantees that rest on it fall, and the lab must see it.
    pub const BREAKING: [Self; 12] = [
        Self::CrashLosingTail,
        Self::CrashLosingAll,
        Self::StalePromotion,
        Self::Flush,
        Self::Resync,
        Self::Restore,
        Self::EvictLock,
        Self::EvictMark,
        Self::ForceUnlock,
        Self::ClockForward,
        Self::ClockRace,
        Self::ClientFreeze,
    ];

    /// The assumptions that no longer hold once it has happened, with strict admission or without.
    pub fn breaks(self, strict: bool) -> &'static [Assumption] {
        use Assumption::{ClientClock, Continuity, Marks, Memory, Oblivion, Rates};
        match self {
            Self::CrashLosingTail | Self::Restore if strict => &[Oblivion],
            Self::StalePromotion if strict => &[Oblivion, Memory],
            Self::Flush | Self::Resync if strict => &[Memory],
            Self::CrashLosingAll if strict => &[],
            Self::CrashLosingTail | Self::Restore => &[Continuity, Marks, Oblivion],
            Self::StalePromotion => &[Continuity, Marks, Oblivion, Memory],
            Self::Flush | Self::Resync => &[Continuity, Marks, Memory],
            Self::CrashLosingAll => &[Continuity, Marks],
            Self::EvictLock | Self::ForceUnlock => &[Continuity, Memory],
            Self::EvictMark => &[Marks],
            Self::ClockForward | Self::ClockRace => &[Rates],
            Self::ClientFreeze => &[ClientClock],
            _ => &[],
        }
    }
}

/// As the trace says it.
pub(super) fn fault_name(fault: Fault) -> &'static str {
    match fault {
        Fault::Break => "FAULT break",
        Fault::Cut => "FAULT cut",
        Fault::HalfOpen => "FAULT half-open",
        Fault::CrashKeepingData => "FAULT crash keeping data",
        Fault::NodePause => "FAULT node stops",
        Fault::ClockBack => "FAULT node clock steps back",
        Fault::ClockSlew => "FAULT node clock slews",
        Fault::NodeFreeze => "FAULT node clock freezes",
        Fault::ClientPause => "FAULT client stops",
        Fault::ClientKill => "FAULT client is killed",
        Fault::CrashLosingTail => "FAULT crash losing the tail",
        Fault::CrashLosingAll => "FAULT crash losing all",
        Fault::StalePromotion => "FAULT promotion of a stale replica",
        Fault::Flush => "FAULT flush",
        Fault::Resync => "FAULT resynchronisation from another server",
        Fault::Restore => "FAULT an old backup is restored",
        Fault::EvictLock => "FAULT a lock is evicted",
        Fault::EvictMark => "FAULT a counter is evicted",
        Fault::ForceUnlock => "FAULT force unlock",
        Fault::ClockForward => "FAULT node clock steps forward",
        Fault::ClockRace => "FAULT node clock races",
        Fault::ClientFreeze => "FAULT client is frozen",
        _ => "FAULT of messages",
    }
}
