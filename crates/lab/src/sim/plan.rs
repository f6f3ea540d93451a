use quorumlock_core::{Settings, Wire};

use super::dice::Dice;
use super::faults::Fault;
use super::time::{DAY, MS, Micros, SECOND, duration, micros};

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
    /// Nothing takes time.
    pub(super) instant: bool,
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
        let clients = dice.spread(2, 9).min(8) as usize;
        let lease = dice.spread(200 * MS, 6 * SECOND);
        let answer_timeout = dice.spread(25 * MS, (lease / 2).min(500 * MS));
        let faults = swarm(dice);
        let odds = Odds::of(&faults, dice);
        Self {
            seed,
            nodes,
            clients,
            hands: dice.within(1, if clients > 4 { 1 } else { 2 }) as usize,
            names: dice.within(1, 2) as usize,
            wire: *dice.pick(&[Wire::Redlock, Wire::Redisson]),
            lease,
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
            instant: false,
        }
    }

    /// A world in which nothing goes wrong and nothing takes time.
    pub(super) fn calm(nodes: usize, wire: Wire) -> Self {
        Self {
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

    pub(super) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.lease = duration(self.lease);
        settings.max_lease = duration(self.lease * 2);
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
fn swarm(dice: &mut Dice) -> Vec<Fault> {
    let mut faults: Vec<_> = Fault::SOUND.into_iter().filter(|_| dice.chance(0.5)).collect();
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
