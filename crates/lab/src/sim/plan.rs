use quorumlock_core::admission::Charter;
use quorumlock_core::{Clock, Settings, Wire};

use super::faults::Fault;
use super::time::{DAY, MS, Micros, SECOND, duration, micros};
use crate::dice::Dice;

/// All that is decided before a run begins: drawn from its seed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) nodes: usize,
    pub(super) clients: usize,
    /// Tasks of each client that want locks.
    pub(super) hands: usize,
    pub(super) names: usize,
    pub(super) wire: Wire,
    pub(super) lease: Micros,
    /// Two leases, unless it is said.
    pub(super) longest: Option<Micros>,
    pub(super) answer_timeout: Micros,
    pub(super) connect_timeout: Micros,
    pub(super) rho: f64,
    /// One way, the fastest.
    pub(super) latency: Micros,
    pub(super) jitter: Micros,
    /// Which kinds of fault happen: the swarm.
    pub(super) faults: Vec<Fault>,
    pub(super) odds: Odds,
    /// The mean time between faults that are not of single messages.
    pub(super) pace: Micros,
    /// When the faults stop.
    pub(super) heals: Micros,
    /// The longest backward step of a node's clock, and the longest freeze.
    pub(super) clock_back: Micros,
    pub(super) think: Micros,
    /// What the nodes' clocks show when the world begins.
    pub(super) epoch: Micros,
    /// With admission: what all clients agree on.
    pub(super) charter: Option<Charter>,
    /// With admission: nobody has vouched for the nodes.
    pub(super) blank: bool,
    /// How long the nodes have been up when the world begins, by their own clocks.
    pub(super) up_for: Micros,
    /// With admission: how long after a node forgot until the next one may.
    pub(super) mends: Micros,
    /// By how much the clients' clocks differ: fencing tokens are proposed by them.
    pub(super) skew: Micros,
    /// Holders are ambushed in mid-round.
    pub(super) siege: bool,
    /// After which the names are new ones.
    pub(super) renames: Micros,
    /// Nothing takes time.
    pub(super) instant: bool,
    /// A play, in which guarantees may fall: it is judged by its history.
    pub(super) staged: bool,
}

/// How likely a message meets each of the faults of single messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Odds {
    pub(super) delay: f64,
    pub(super) drop_request: f64,
    pub(super) drop_reply: f64,
    pub(super) duplicate: f64,
    pub(super) reorder: f64,
    pub(super) lost_message: f64,
    /// The client stops right after it sent a request.
    pub(super) stop: f64,
    /// The lock is evicted just before its counter is raised.
    pub(super) evict: f64,
}

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 0);
        let dice = &mut dice;
        let nodes = *dice.pick(&[1, 3, 3, 3, 5, 5, 7]);
        let strict = nodes > 1 && dice.chance(0.5);
        let clients = dice.spread(2, 9).min(8) as usize;
        // With admission a quarantine, of two leases, must fit in several times.
        let lease = dice.spread(200 * MS, if strict { 2 * SECOND } else { 6 * SECOND });
        let answer_timeout = dice.spread(25 * MS, (lease / 2).min(500 * MS));
        let faults = swarm(strict, dice);
        let odds = Odds::of(&faults, dice);
        let mut plan = Self {
            seed,
            nodes,
            clients,
            hands: dice.within(1, if clients > 4 { 1 } else { 2 }) as usize,
            names: dice.within(1, 2) as usize,
            wire: *dice.pick(&[Wire::Redlock, Wire::Redisson]),
            lease,
            longest: None,
            answer_timeout,
            connect_timeout: dice.spread(50 * MS, SECOND),
            rho: *dice.pick(&[0.01, 0.05, 0.1]),
            latency: dice.spread(50, (answer_timeout / 16).min(3 * MS)),
            jitter: dice.spread(100, (answer_timeout / 12).min(4 * MS)),
            odds,
            pace: match faults.contains(&Fault::EvictLock) {
                true => dice.spread(10 * MS, SECOND),
                false => dice.spread(200 * MS, 4 * SECOND),
            },
            faults,
            heals: dice.within(20, 40) * SECOND,
            clock_back: dice.spread(10 * MS, 3 * SECOND),
            think: dice.spread(100 * MS, 8 * SECOND),
            epoch: DAY,
            charter: None,
            blank: dice.chance(0.1),
            up_for: *dice.pick(&[0, 3_600 * SECOND]),
            mends: lease * *dice.pick(&[0, 3, 6]),
            skew: *dice.pick(&[0, 1_800 * SECOND]),
            siege: false,
            renames: 0,
            instant: false,
            staged: false,
        };
        if strict {
            if dice.chance(0.12) {
                plan.besiege(dice);
            }
            plan.charter = Some(plan.agreed());
        } else if plan.faults.contains(&Fault::EvictLock) && dice.chance(0.5) {
            plan.crowd(dice);
        }
        plan
    }

    /// Rounds that take longer than a lease, of holders whose clock stands: what tokens must
    /// survive without any help of time.
    fn besiege(&mut self, dice: &mut Dice) {
        self.siege = true;
        self.lease = dice.spread(200 * MS, 500 * MS);
        self.answer_timeout = dice.within(4, 8) * SECOND;
        self.clients = dice.within(3, 5) as usize;
        (self.hands, self.names, self.renames) = (1, 1, 8 * SECOND);
        (self.think, self.skew) = (dice.spread(50 * MS, 500 * MS), dice.spread(5, 20) * SECOND);
        (self.heals, self.blank) = (dice.within(40, 60) * SECOND, false);
        // Nothing else is to stand in the way.
        self.faults.retain(|fault| [Fault::ClockBack, Fault::ClockSlew].contains(fault));
        self.odds = Odds { delay: self.odds.delay, reorder: self.odds.reorder, ..Odds::default() };
    }

    /// Many want one name all the time: somebody is there at the moment that matters.
    fn crowd(&mut self, dice: &mut Dice) {
        (self.clients, self.hands, self.names) = (dice.within(4, 8) as usize, 1, 1);
        self.think = dice.spread(20 * MS, 400 * MS);
        self.answer_timeout = self.answer_timeout.max(100 * MS).min(self.lease / 2);
    }

    fn agreed(&self) -> Charter {
        Charter {
            prefix: "quorumlock".into(),
            cluster: "sim".into(),
            epoch: 1,
            nodes: self.nodes,
            longest: self.settings().max_lease,
        }
    }

    /// A world in which nothing goes wrong and nothing takes time.
    pub(super) fn calm(nodes: usize, wire: Wire, charter: Option<&Charter>) -> Self {
        Self {
            charter: charter.cloned(),
            blank: true,
            // As real nodes, with which they are compared.
            epoch: Clock::system().wall_micros(),
            skew: 0,
            siege: false,
            nodes,
            wire,
            rho: 0.01,
            faults: Vec::new(),
            odds: Odds::default(),
            heals: 0,
            latency: 0,
            jitter: 0,
            instant: true,
            ..Self::of(0)
        }
    }

    /// The fleet of a play: nothing goes wrong by itself.
    pub(super) fn staged(
        seed: u64,
        (nodes, clients): (usize, usize),
        (lease_ms, longest_ms): (u64, u64),
        strict: bool,
    ) -> Self {
        let settings = Settings::default();
        let plan = Self {
            seed,
            clients,
            hands: 0,
            lease: lease_ms * MS,
            longest: Some(longest_ms * MS),
            answer_timeout: micros(settings.answer_timeout),
            connect_timeout: micros(settings.connect_timeout),
            rho: settings.rho,
            latency: 50,
            jitter: 100,
            epoch: DAY,
            up_for: 3_600 * SECOND,
            blank: false,
            instant: false,
            staged: true,
            ..Self::calm(nodes, Wire::Redlock, None)
        };
        let charter = strict.then(|| plan.agreed());
        Self { charter, ..plan }
    }

    pub(super) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.lease = duration(self.lease);
        settings.max_lease = duration(self.longest.unwrap_or(self.lease * 2));
        settings.answer_timeout = duration(self.answer_timeout);
        settings.connect_timeout = duration(self.connect_timeout);
        settings.rho = self.rho;
        settings
    }

    /// After which a connection that gives no answer is given up: as the real line does.
    pub(super) fn stall(&self) -> Micros {
        self.answer_timeout * 2
    }

    /// A node's rate against the world's, such that it gains at most rho on any client.
    pub(super) fn node_drift(&self, dice: &mut Dice) -> i64 {
        let most = (self.rho * 600_000.0) as u64;
        dice.within(0, 2 * most) as i64 - most as i64
    }

    pub(super) fn client_drift(&self, dice: &mut Dice) -> i64 {
        let most = (self.rho * 300_000.0) as u64;
        dice.within(0, 2 * most) as i64 - most as i64
    }

    /// When every key and connection that the faults left behind is gone.
    pub(super) fn recovered(&self) -> Micros {
        let longest = micros(self.settings().max_lease);
        let leases = (longest as f64 * (1.0 + 2.0 * self.rho)) as Micros;
        self.heals
            + leases
            + self.clock_back * 2
            + 2 * self.stall()
            + self.connect_timeout
            + 3 * SECOND
            + self.charter.as_ref().map_or(0, |_| 2 * leases + 3 * SECOND)
    }

    /// L, and what clocks may differ by: for so long a node that forgot counts for nothing.
    pub(super) fn quarantine(&self) -> Micros {
        let longest = micros(self.settings().max_lease);
        (longest as f64 * (1.0 + 2.0 * self.rho)) as Micros + 10 * MS
    }
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

/// Each kind is on with even odds: a seed with few kinds sees deeper than one with all of them.
fn swarm(strict: bool, dice: &mut Dice) -> Vec<Fault> {
    let mut faults: Vec<_> = Fault::SOUND.into_iter().filter(|_| dice.chance(0.5)).collect();
    if strict {
        // Nodes that forget are what admission is for.
        faults.extend(Fault::FORGETFUL.into_iter().filter(|_| dice.chance(0.4)));
    }
    // Some seeds break assumptions as well, to show that the lab would see it; some only those
    // that the fencing tokens do not need, as hard as they can.
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
