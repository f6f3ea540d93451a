use super::{ClientPlan, Fault, Locking, Overtaking, Plan, ServerPlan, Span, Step, Waiting, When};
use crate::mode::{Engine, Mode};
use crate::record::Load;
use quorumlock_sim::Dice;

/// How many sentinels monitor a master.
const SENTINELS: usize = 3;

/// The input of a plan: the mode, and random numbers that the seed determines.
#[derive(Debug)]
pub struct Draw {
    /// The mode that the plan is for.
    pub mode: Mode,
    /// Whether the run is short.
    pub quick: bool,
    load: Option<Load>,
    dice: Dice,
}

impl Draw {
    pub(super) fn new(
        load: Option<Load>,
        mode: Mode,
        seed: u64,
        repetition: u64,
        quick: bool,
    ) -> Self {
        // All modes draw the same numbers, so that differences between modes are not chance.
        Self { mode, quick, load, dice: Dice::new(seed, repetition) }
    }

    /// The load that a comparison asks for, or that of the mode.
    pub(super) fn load(&self) -> Load {
        let (nodes, quick) = (self.mode.voters(), self.quick);
        let (tasks, ms) = if quick { (16, 1_000) } else { (64, 3_000) };
        self.load.unwrap_or(Load { nodes, tasks, ms })
    }

    /// A random number of milliseconds, both ends included.
    pub fn ms(&mut self, low: u64, high: u64) -> u64 {
        self.dice.within(low, high)
    }

    /// A random number.
    pub fn number(&mut self) -> u64 {
        self.dice.next_u64()
    }

    /// A plan without clients and faults: the servers of the mode, and a drawn lease of 8 to 9 s. A
    /// holder hears of a loss at its next renewal, a third of that later. Servers and a rival start
    /// before that, on a busy machine too. Where memories must be proven, the rival waits for a
    /// quarantine, and leases are half as long; behind sentinels they are three times as long.
    pub fn plan(&mut self) -> Plan {
        let drawn_ms = self.ms(4_000, 4_500);
        let (lease_ms, max_lease_ms) = match self.mode.engine() {
            // Sentinels take seconds for a failover: they ask each replica once a second.
            Engine::Sentinel => (6 * drawn_ms, 30_000),
            _ if self.mode.strict() => (drawn_ms, 5_000),
            // etcd counts whole seconds.
            _ if self.mode == Mode::E => (2 * drawn_ms / 1_000 * 1_000, 10_000),
            _ => (2 * drawn_ms, 10_000),
        };
        // All replicas: if one is missing, that one might be promoted (L17).
        let acks = if self.mode.awaits_replicas() { self.mode.replicas() } else { 0 };
        Plan {
            servers: ServerPlan {
                voters: self.mode.voters(),
                replicas: self.mode.replicas(),
                sentinels: if self.mode.engine() == Engine::Sentinel { SENTINELS } else { 0 },
                ..ServerPlan::default()
            },
            locking: Locking {
                name: "x".to_owned(),
                lease_ms,
                max_lease_ms,
                takeover_delay_ms: 0,
                acks,
                permits: None,
                strict_order: false,
            },
            clients: Vec::new(),
            schedule: Vec::new(),
            least_ms: 0,
            tail_ms: 200,
            fenced: self.mode.fenced(),
            vacant_at_most_ms: None,
            failing_at_most_ms: None,
            failing_total_at_most_ms: None,
            tokens_in_order: false,
            refused: Vec::new(),
            starved: Vec::new(),
            overtaking: Overtaking::Any,
            ended_by_delay: None,
        }
    }

    /// A plan as [`plan`](Self::plan) draws it, with the nodes of the load and the library's default
    /// leases: what a user would measure.
    pub(super) fn measured(&mut self) -> Plan {
        let mut plan = self.plan();
        if self.mode.voters() > 1 {
            plan.servers.voters = self.load().nodes;
        }
        (plan.locking.lease_ms, plan.locking.max_lease_ms) = (30_000, 60_000);
        plan
    }

    /// A client that starts at once, reaches all nodes directly, waits in the queue and holds the
    /// lock briefly.
    pub fn client(&mut self, id: &str) -> ClientPlan {
        ClientPlan::new(id, self.number())
    }

    /// A client that starts by a step and holds once, until it loses the lock or the run ends.
    pub fn holder(&mut self, id: &str) -> ClientPlan {
        let mut client = self.client(id);
        client.starts = false;
        client.work.holds = Some(1);
        client.work.hold = Span::always(600_000);
        client
    }

    /// As [`holder`](Self::holder), and it reaches only a bare majority of the nodes, by ways.
    pub fn bare_holder(&mut self, id: &str) -> ClientPlan {
        let alone = self.mode.replicas() > 0;
        let reaches = (!alone).then(|| (0..self.mode.majority()).collect());
        ClientPlan { ways: true, reaches, ..self.holder(id) }
    }

    /// A client that starts by a step, polls every few milliseconds, and holds the lock briefly.
    pub fn rival(&mut self, id: &str) -> ClientPlan {
        let mut client = self.client(id);
        client.starts = false;
        client.work.waiting = Waiting::PollMs(self.ms(5, 15));
        client.work.hold = Span { low_ms: 20, high_ms: 60 };
        client
    }

    /// The master dies and its first replica is promoted. Where grants await replicas, the new
    /// master gets as many replicas as the old one had.
    pub fn fails_over(&self) -> Vec<Step> {
        let mut steps = vec![Fault::Kill(0), Fault::Promote(1)];
        if self.mode.awaits_replicas() {
            steps.extend([
                Fault::ReplicaOf { node: 2, of: 1 },
                Fault::Restart(0),
                Fault::ReplicaOf { node: 0, of: 1 },
            ]);
        }
        steps.into_iter().map(|fault| When::NOW.then(fault)).collect()
    }

    /// A span whose lower end is drawn between `low` and `high`; `high` is its upper end.
    pub fn span(&mut self, low: u64, high: u64) -> Span {
        let from = self.ms(low, high);
        Span { low_ms: from, high_ms: high.max(from) }
    }
}
