use std::time::Duration;

use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::admission::members::MemberList;

use quorumlock_protocol::{Layout, Settings};
use quorumlock_watchdog::Clock;

use super::faults::Fault;
use super::time::{DAY, MS, Micros, SECOND, duration, micros};
use crate::dice::Dice;

/// How often each client task takes a lock in the calm phase.
pub const HEALING_ROUNDS: usize = 2;

/// More than a client needs to dial, to load the scripts and to prove that it may vote.
const HANDSHAKE_ROUND_TRIPS: Micros = 12;

/// Everything that the seed decides before a run begins.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub nodes: usize,
    pub clients: usize,
    /// The number of tasks in each client that take locks.
    pub tasks: usize,
    pub names: usize,
    pub kinds: Kinds,
    pub layout: Layout,
    pub lease: Micros,
    /// The longest lease, without the takeover delay; `None`: twice `lease`.
    pub longest: Option<Micros>,
    pub takeover_delay: Micros,
    /// With one node: whether a free name goes to the first of its waiters only.
    pub strict_order: bool,
    pub answer_timeout: Micros,
    pub connect_timeout: Micros,
    pub max_clock_drift: f64,
    /// The shortest one-way latency.
    pub latency: Micros,
    pub jitter: Micros,
    /// The kinds of fault that are on (swarm testing).
    pub faults: Vec<Fault>,
    pub odds: Odds,
    /// The mean time between faults, without the faults of single messages.
    pub pace: Micros,
    /// When the faults stop.
    pub heals: Micros,
    /// The longest backward step of a node's clock, and the longest freeze.
    pub clock_back: Micros,
    pub think: Micros,
    /// The time that the nodes' clocks show when the world begins.
    pub epoch: Micros,
    /// The cluster config that all clients share; `None`: no admission.
    pub cluster: Option<ClusterConfig>,
    /// With admission: no operator has admitted the nodes before the run.
    pub blank: bool,
    /// The uptime of the nodes when the world begins, by their own clocks.
    pub up_for: Micros,
    /// With admission: the shortest time between two faults by which a node forgets.
    pub mends: Micros,
    /// The largest difference between the clients' clocks, by which they propose fencing tokens.
    pub skew: Micros,
    /// Whether clients meet mid-round faults; see `withheld_votes.rs`.
    pub mid_round_faults: bool,
    /// Each client process takes one lock, works for about this time, and ends; see
    /// `short_lives.rs`. `None`: clients live until a fault ends them.
    pub short_work: Option<Micros>,
    /// When nodes restart empty, whatever other faults happen.
    pub restarts: Vec<(Micros, usize)>,
    /// The time after which clients switch to new names; 0: never.
    pub renames: Micros,
    /// Whether everything happens without delay.
    pub instant: bool,
    /// A scripted scenario: invariants may fail; the recorded history is judged instead.
    pub scripted: bool,
}

/// The probability of each fault of single messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Odds {
    pub delay: f64,
    pub drop_request: f64,
    pub drop_reply: f64,
    pub duplicate: f64,
    pub reorder: f64,
    pub lost_message: f64,
    /// The client stops right after it has sent a request.
    pub stop: f64,
    /// The lock is evicted just before its counter is raised.
    pub evict: f64,
}

/// Which kinds of locks tasks take beside plain ones.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// Whether tasks sometimes take all names in one step.
    pub sets: bool,
    /// Whether tasks sometimes take one of two permits.
    pub permits: bool,
    /// Whether tasks sometimes read and write a name of a read-write lock.
    pub read_write: bool,
    /// Whether that name is also a lock's. A client that meets a lock of the other kind gets an error.
    pub mixed: bool,
}

impl Kinds {
    /// By numbers of their own: the plans stay what they are.
    fn of(seed: u64, names: usize) -> Self {
        let read_write = Dice::new(seed, 9_000_000).chance(0.25);
        Self {
            sets: names > 1 && Dice::new(seed, 5_000_000).chance(0.25),
            permits: Dice::new(seed, 7_000_000).chance(0.25),
            read_write,
            mixed: read_write && Dice::new(seed, 13_000_000).chance(0.5),
        }
    }
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 0);
        let dice = &mut dice;
        let nodes = *dice.pick(&[1, 3, 3, 3, 5, 5, 7]);
        let strict = nodes > 1 && dice.chance(0.5);
        let clients = dice.spread(2, 9).min(8) as usize;
        // With admission the run must have room for several quarantines, of two leases each.
        let lease = dice.spread(200 * MS, if strict { 2 * SECOND } else { 6 * SECOND });
        let answer_timeout = dice.spread(25 * MS, (lease / 2).min(500 * MS));
        let faults = swarm(strict, dice);
        let odds = Odds::of(&faults, dice);
        let mut plan = Self {
            seed,
            nodes,
            clients,
            tasks: dice.within(1, if clients > 4 { 1 } else { 2 }) as usize,
            names: dice.within(1, 2) as usize,
            kinds: Kinds::default(),
            layout: *dice.pick(&[Layout::Redlock, Layout::Redisson]),
            lease,
            longest: None,
            takeover_delay: takeover_delay(seed, lease),
            strict_order: is_single(nodes, seed) && Dice::new(seed, 12_000_000).chance(0.5),
            answer_timeout,
            connect_timeout: dice.spread(50 * MS, SECOND),
            max_clock_drift: *dice.pick(&[0.01, 0.05, 0.1]),
            latency: dice.spread(50, (answer_timeout / 16).min(3 * MS)),
            jitter: dice.spread(100, (answer_timeout / 12).min(4 * MS)),
            odds,
            pace: pace(&faults, dice),
            faults,
            heals: dice.within(20, 40) * SECOND,
            clock_back: dice.spread(10 * MS, 3 * SECOND),
            think: dice.spread(100 * MS, 8 * SECOND),
            epoch: DAY,
            cluster: None,
            blank: dice.chance(0.1),
            up_for: *dice.pick(&[0, 3_600 * SECOND]),
            mends: lease * *dice.pick(&[0, 3, 6]),
            skew: *dice.pick(&[0, 1_800 * SECOND]),
            mid_round_faults: false,
            short_work: None,
            restarts: Vec::new(),
            renames: 0,
            instant: false,
            scripted: false,
        };
        plan.kinds = Kinds::of(seed, plan.names);
        if strict {
            plan.specialize(dice);
            plan.cluster = Some(plan.agreed());
        } else if plan.faults.contains(&Fault::EvictLock) && dice.chance(0.5) {
            plan.contend(dice);
        }
        plan.prove_memory();
        plan.connect_timeout = plan.connect_timeout.max(plan.longest_handshake());
        plan
    }

    /// Some seeds have mid-round faults, short-lived processes, or restarts in turn.
    fn specialize(&mut self, dice: &mut Dice) {
        if dice.chance(0.12) {
            self.add_mid_round_faults(dice);
        } else if dice.chance(0.12) {
            self.shorten_lives(dice);
        } else if dice.chance(0.08) {
            self.restart_in_turn(dice);
        }
    }

    /// How long a client may take to connect once all faults are healed. A client with a shorter timeout
    /// connects by chance only, and nothing bounds for how long what it released last stays locked.
    fn longest_handshake(&self) -> Micros {
        HANDSHAKE_ROUND_TRIPS * 2 * (self.latency + self.jitter)
    }

    /// Some single servers must prove their memory, and may forget. By numbers of their own, as the
    /// kinds of locks.
    fn prove_memory(&mut self) {
        let dice = &mut Dice::new(self.seed, 28_000_000);
        if !is_single(self.nodes, self.seed) || !dice.chance(0.4) {
            return;
        }
        self.faults.extend(Fault::FORGETFUL.into_iter().filter(|_| dice.chance(0.4)));
        self.faults.sort_unstable();
        self.faults.dedup();
        self.lease = self.lease.min(2 * SECOND);
        self.takeover_delay = self.takeover_delay.min(self.lease);
        self.answer_timeout = self.answer_timeout.min(self.lease / 2);
        if dice.chance(0.5) {
            self.contend(dice);
        }
        self.cluster = Some(self.agreed());
    }

    /// Mid-round faults: rounds take longer than a lease, and the holder's clock stands still.
    /// Tokens must be right without any help of time.
    fn add_mid_round_faults(&mut self, dice: &mut Dice) {
        self.mid_round_faults = true;
        self.shorten_leases(dice);
        self.answer_timeout = dice.within(4, 8) * SECOND;
        // A dial goes on after the freeze: the timers of a frozen machine stand still, too.
        self.connect_timeout = 10 * SECOND;
        self.clients = dice.within(3, 5) as usize;
        (self.tasks, self.names, self.renames) = (1, 1, 8 * SECOND);
        (self.think, self.skew) = (dice.spread(50 * MS, 500 * MS), dice.spread(5, 20) * SECOND);
        (self.heals, self.blank) = (dice.within(40, 60) * SECOND, false);
        // Other faults would keep such rounds from happening.
        self.faults.retain(|fault| [Fault::ClockBack, Fault::ClockSlew].contains(fault));
        self.odds = Odds { delay: self.odds.delay, reorder: self.odds.reorder, ..Odds::default() };
    }

    /// Each node restarts empty once, one after the other, while few locks are taken: only what a
    /// repair copies keeps the marks.
    fn restart_in_turn(&mut self, dice: &mut Dice) {
        (self.clients, self.tasks, self.names) = (dice.within(2, 3) as usize, 1, 1);
        self.shorten_leases(dice);
        self.answer_timeout = self.answer_timeout.min(self.lease / 4);
        self.latency = self.latency.min(self.answer_timeout / 16);
        self.jitter = self.jitter.min(self.answer_timeout / 12);
        (self.skew, self.blank) = (1_800 * SECOND, false);
        self.clock_back = self.clock_back.min(200 * MS);
        // Other restarts would leave fewer helpers than a majority.
        self.faults.retain(|fault| *fault <= Fault::Break);
        let (first, gap) = (dice.within(3, 8) * SECOND, self.quarantine() * 5 / 4);
        self.restarts = (0..self.nodes).map(|node| (first + node as u64 * gap, node)).collect();
        let whole = self.nodes as u64 * gap;
        (self.think, self.heals) = (2 * whole, first + whole + 3 * self.quarantine());
    }

    pub fn shorten_leases(&mut self, dice: &mut Dice) {
        self.lease = dice.spread(200 * MS, 500 * MS);
        self.takeover_delay = self.takeover_delay.min(self.lease);
    }

    /// Many clients want one name all the time, so that some client asks at the critical moment.
    fn contend(&mut self, dice: &mut Dice) {
        (self.clients, self.tasks, self.names) = (dice.within(4, 8) as usize, 1, 1);
        self.think = dice.spread(20 * MS, 400 * MS);
        self.answer_timeout = self.answer_timeout.max(100 * MS).min(self.lease / 2);
    }

    fn agreed(&self) -> ClusterConfig {
        ClusterConfig {
            prefix: "quorumlock".into(),
            members: MemberList::new((0..self.nodes).map(member)),
            longest: self.settings().max_lease,
            clock_bound: duration(self.clock_bound()),
            replicated: false,
        }
    }

    /// How far a node's clock gets from those of the clients: by the steps back that faults make.
    fn clock_bound(&self) -> Micros {
        if self.scripted { 100 * MS } else { self.clock_back + 100 * MS }
    }

    /// A world in which nothing goes wrong and nothing takes time.
    pub fn faultless(nodes: usize, layout: Layout, cluster: Option<&ClusterConfig>) -> Self {
        Self {
            cluster: cluster.cloned(),
            blank: true,
            // The nodes are compared with real ones, so their clocks show the real time.
            epoch: Clock::system().wall_micros(),
            skew: 0,
            mid_round_faults: false,
            short_work: None,
            restarts: Vec::new(),
            longest: None,
            takeover_delay: 0,
            strict_order: false,
            nodes,
            layout,
            max_clock_drift: 0.01,
            faults: Vec::new(),
            odds: Odds::default(),
            heals: 0,
            latency: 0,
            jitter: 0,
            instant: true,
            ..Self::of(0)
        }
    }

    /// The plan of a scripted scenario: no fault happens unless the script says so.
    pub fn scripted(
        seed: u64,
        (nodes, clients): (usize, usize),
        (lease_ms, longest_ms): (u64, u64),
        strict: bool,
    ) -> Self {
        let settings = Settings::default();
        let plan = Self {
            seed,
            clients,
            tasks: 0,
            lease: lease_ms * MS,
            longest: Some(longest_ms * MS),
            answer_timeout: micros(settings.answer_timeout),
            connect_timeout: micros(settings.connect_timeout),
            max_clock_drift: settings.max_clock_drift,
            latency: 50,
            jitter: 100,
            epoch: DAY,
            up_for: 3_600 * SECOND,
            blank: false,
            instant: false,
            scripted: true,
            ..Self::faultless(nodes, Layout::Redlock, None)
        };
        let cluster = strict.then(|| plan.agreed());
        Self { cluster, ..plan }
    }

    /// The same plan, with this takeover delay.
    #[must_use]
    pub fn with_takeover_delay(self, takeover_delay: Micros) -> Self {
        let plan = Self { takeover_delay, ..self };
        let cluster = plan.cluster.is_some().then(|| plan.agreed());
        Self { cluster, ..plan }
    }

    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.lease = duration(self.lease);
        settings.answer_timeout = duration(self.answer_timeout);
        settings.connect_timeout = duration(self.connect_timeout);
        settings.max_clock_drift = self.max_clock_drift;
        settings.takeover_delay = duration(self.takeover_delay);
        settings.strict_order = self.strict_order;
        // A node keeps no lock for longer than the longest lease.
        let longest = duration(self.longest.unwrap_or(self.lease * 2));
        settings.max_lease = longest + settings.delay_at_node();
        settings
    }

    /// The time after which a client gives up a connection that gives no answer. The real
    /// connection uses the same time.
    pub fn stall(&self) -> Micros {
        self.answer_timeout * 2
    }

    /// The drift of a node's clock against the world's, in parts per million. With it a node gains
    /// at most `max_clock_drift` on any client.
    pub fn node_drift(&self, dice: &mut Dice) -> i64 {
        let most = (self.max_clock_drift * 600_000.0) as u64;
        dice.within(0, 2 * most) as i64 - most as i64
    }

    pub fn client_drift(&self, dice: &mut Dice) -> i64 {
        let most = (self.max_clock_drift * 300_000.0) as u64;
        dice.within(0, 2 * most) as i64 - most as i64
    }

    /// The time by which every key and connection that the faults left behind is gone.
    pub fn recovered(&self) -> Micros {
        let longest = micros(self.settings().max_lease);
        let leases = (longest as f64 * (1.0 + 2.0 * self.max_clock_drift)) as Micros;
        self.heals
            + leases
            + self.clock_back * 2
            + 2 * self.stall()
            + self.connect_timeout
            + 3 * SECOND
            + self.cluster.as_ref().map_or(0, |_| 2 * self.quarantine() + 3 * SECOND)
    }

    /// For how long a node keeps a lease of `ttl`.
    pub fn kept(&self, ttl: Duration) -> Micros {
        micros(ttl + self.settings().delay_at_node())
    }

    /// The time for which a node that forgot does not count.
    pub fn quarantine(&self) -> Micros {
        micros(self.agreed().note_age(self.max_clock_drift))
    }
}

/// Whether clients use the nodes as one server; the others use them as a quorum, perhaps of one.
pub fn is_single(nodes: usize, seed: u64) -> bool {
    nodes == 1 && seed.is_multiple_of(2)
}

/// The takeover delay: none in three quarters of the seeds. By numbers of its own, as the kinds of locks.
fn takeover_delay(seed: u64, lease: Micros) -> Micros {
    let mut dice = Dice::new(seed, 11_000_000);
    if dice.chance(0.25) { dice.spread(50 * MS, lease) } else { 0 }
}

/// The label of a node in lists of nodes.
pub fn member(node: usize) -> String {
    format!("n{node}")
}

impl Odds {
    fn of(faults: &[Fault], dice: &mut Dice) -> Self {
        let mut odds = |fault: Fault, most: f64| match faults.contains(&fault) {
            true => most * dice.fraction(),
            false => 0.0,
        };
        Self {
            delay: odds(Fault::Delay, 0.1),
            drop_request: odds(Fault::DropRequest, 0.05),
            drop_reply: odds(Fault::DropReply, 0.05),
            duplicate: odds(Fault::Duplicate, 0.1),
            reorder: odds(Fault::Reorder, 0.2),
            lost_message: odds(Fault::LostMessage, 0.5),
            stop: odds(Fault::ClientPause, 0.002),
            evict: odds(Fault::EvictLock, 0.5),
        }
    }
}

fn pace(faults: &[Fault], dice: &mut Dice) -> Micros {
    match faults.contains(&Fault::EvictLock) {
        true => dice.spread(10 * MS, SECOND),
        false => dice.spread(200 * MS, 4 * SECOND),
    }
}

/// Each sound kind is on with probability 1/2: a seed with few kinds of fault goes deeper than one
/// with all of them.
fn swarm(strict: bool, dice: &mut Dice) -> Vec<Fault> {
    let mut faults: Vec<_> = Fault::SOUND.into_iter().filter(|_| dice.chance(0.5)).collect();
    if strict {
        // Admission exists for nodes that forget.
        faults.extend(Fault::FORGETFUL.into_iter().filter(|_| dice.chance(0.4)));
    }
    // Some seeds also break assumptions, to show that the simulation would see it. Some of these
    // break only assumptions that fencing tokens do not need, and break them often.
    if dice.chance(0.15) {
        faults.extend([Fault::EvictLock, Fault::ClockForward]);
    } else if dice.chance(0.15) {
        faults.push(*dice.pick(&Fault::BREAKING));
        faults.extend(Fault::BREAKING.into_iter().filter(|_| dice.chance(0.2)));
    }
    faults.sort_unstable();
    faults.dedup();
    faults
}
