//! The faults, and the assumptions of docs/SAFETY.md that each of them breaks.

/// An assumption that a guarantee rests on (docs/SAFETY.md, A1 to A8). The simulation cannot break
/// the others: nonces are distinct, scripts are atomic, and all clients have the same
/// configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assumption {
    /// A node's clock gains at most `max_clock_drift` on the client's and makes no forward step.
    Rates,
    /// The lease clock counts all time, also while the process does not run.
    ClientClock,
    /// A node neither forgets nor deletes a lock that it acknowledged.
    Continuity,
    /// A node never forgets a mark.
    Marks,
    /// A lock that a node released or let expire does not come back.
    Oblivion,
    /// The server behind a live connection deletes no lock: nobody flushes it, evicts from it,
    /// frees by hand, loads other data into it, or puts another server in its place.
    Memory,
}

/// A kind of fault. Each sound kind is on for half of all seeds.
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
    ScriptFlush,
    /// The node is a replica for a while, keeps its data, and is promoted again.
    Demotion,
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
    /// The faults that break no assumption: every guarantee must hold under them.
    pub const SOUND: [Self; 18] = [
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
        Self::ScriptFlush,
        Self::Demotion,
        Self::ClientPause,
        Self::ClientKill,
    ];

    /// The faults by which a node forgets. Admission detects them, so with strict admission they
    /// break few assumptions.
    pub const FORGETFUL: [Self; 6] = [
        Self::CrashLosingTail,
        Self::CrashLosingAll,
        Self::StalePromotion,
        Self::Flush,
        Self::Resync,
        Self::Restore,
    ];

    /// The faults that break an assumption without admission. The guarantees that rest on it fail,
    /// and the simulation must see this.
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

    /// The assumptions that no longer hold once the fault has happened, with strict admission
    /// (`strict`) or without.
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

/// The text of a fault in the trace.
pub fn fault_name(fault: Fault) -> &'static str {
    match fault {
        Fault::Break => "FAULT break",
        Fault::Cut => "FAULT cut",
        Fault::HalfOpen => "FAULT half-open",
        Fault::CrashKeepingData => "FAULT crash keeping data",
        Fault::NodePause => "FAULT node stops",
        Fault::ClockBack => "FAULT node clock steps back",
        Fault::ClockSlew => "FAULT node clock slews",
        Fault::NodeFreeze => "FAULT node clock freezes",
        Fault::ScriptFlush => "FAULT script flush",
        Fault::Demotion => "FAULT demotion",
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
