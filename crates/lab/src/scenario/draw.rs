use super::{ClientPlan, Locking, Plan, ServerPlan, Span};
use crate::dice::Dice;
use crate::mode::Mode;

/// What a plan is drawn with: the mode, and numbers that the seed decides.
#[derive(Debug)]
pub struct Draw {
    /// The mode that the plan is for.
    pub mode: Mode,
    /// Whether the run is to be short.
    pub quick: bool,
    dice: Dice,
}

impl Draw {
    pub(super) fn new(mode: Mode, seed: u64, repetition: u64, quick: bool) -> Self {
        // All modes draw the same numbers: what differs between them is not luck.
        Self { mode, quick, dice: Dice::new(seed, repetition) }
    }

    /// A number of milliseconds, both ends included.
    pub fn ms(&mut self, low: u64, high: u64) -> u64 {
        self.dice.within(low, high)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.dice.next()
    }

    /// A plan without clients and faults: the servers of the mode, a drawn lease of 1.5 to 2 s.
    pub fn plan(&mut self) -> Plan {
        let lease_ms = self.ms(1_500, 2_000);
        Plan {
            servers: ServerPlan {
                voters: self.mode.voters(),
                replicas: self.mode.replicas(),
                ..ServerPlan::default()
            },
            locking: Locking { name: "x".to_owned(), lease_ms, max_lease_ms: 2_500 },
            clients: Vec::new(),
            schedule: Vec::new(),
            least_ms: 0,
            tail_ms: 200,
            fenced: self.mode.fenced(),
        }
    }

    /// A client that starts at once, reaches all nodes directly, waits in the queue and holds shortly.
    pub fn client(&mut self, id: &str) -> ClientPlan {
        ClientPlan::new(id, self.number())
    }

    /// A span that begins at a drawn point.
    pub fn span(&mut self, low: u64, high: u64) -> Span {
        let from = self.ms(low, high);
        Span { low_ms: from, high_ms: high.max(from) }
    }
}
