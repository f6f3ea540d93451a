//! A large fleet without faults: what each process and each node pays for its size.
//!
//! Every process has a locker of its own and takes locks of random names, one after the other. All of
//! it is the real client code over simulated nodes, so the counts are exact and repeatable; the times
//! are those of the network that the plan gives, and the nodes' own time is nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorumlock_core::{Entropy, Environment as Given, Locker, kind};
use quorumlock_protocol::Claim;
use quorumlock_quorum::Quorum;

use super::node::{connect, redis_nodes};
use super::plan::Plan;
use super::run::runtime;
use super::start::spawn;
use super::time::{duration, micros};
use super::world::World;
use crate::dice::Dice;

/// The fleet, its network and its work.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// The number of processes.
    pub processes: usize,
    /// The number of locks that they share.
    pub names: usize,
    /// The number of nodes, which form a quorum under strict admission.
    pub nodes: usize,
    /// The time of a request and its reply.
    pub round_trip: Duration,
    /// For how long a process holds a lock.
    pub hold: Duration,
    /// For how long it pauses after that: a random time of 0 to twice this.
    pub think: Duration,
    /// For how long the processes ask for locks.
    pub time: Duration,
    /// What decides all random choices.
    pub seed: u64,
}

/// What the fleet did.
#[derive(Clone, Debug, Default)]
pub struct FleetReport {
    /// How long each acquisition took, in order.
    pub waits: Vec<Duration>,
    /// Acquisitions that failed.
    pub failed: u64,
    /// The commands that each node carried out while the processes asked for locks, without those of
    /// the handshakes.
    pub commands: Vec<u64>,
    /// Those of the second half of that time.
    pub later_commands: Vec<u64>,
    /// The connections that each node has.
    pub connections: usize,
}

impl FleetReport {
    /// The wait that a share of the acquisitions did not exceed.
    #[must_use]
    pub fn wait(&self, share: f64) -> Duration {
        let last = self.waits.len().saturating_sub(1);
        let at = (share * last as f64).round() as usize;
        self.waits.get(at).copied().unwrap_or_default()
    }

    /// Commands of the node that carries out most, in the second half of the time.
    #[must_use]
    pub fn busiest_later(&self) -> u64 {
        self.later_commands.iter().copied().max().unwrap_or(0)
    }

    /// Commands of all nodes for each acquisition.
    #[must_use]
    pub fn commands_each(&self) -> f64 {
        self.commands.iter().sum::<u64>() as f64 / self.waits.len().max(1) as f64
    }
}

/// Before the processes ask for locks they connect, so that handshakes are not counted.
const CONNECT: Duration = Duration::from_secs(5);

impl Fleet {
    /// Runs the fleet in simulated time.
    ///
    /// # Panics
    /// If the operating system cannot start the runtime.
    #[must_use]
    pub fn run(&self) -> FleetReport {
        let runtime = runtime();
        let report = runtime.block_on(async {
            let world = World::new(self.plan(), None, 0);
            let report = self.live(&world).await;
            world.close();
            report
        });
        drop(runtime);
        report
    }

    fn plan(&self) -> Plan {
        let one_way = micros(self.round_trip) / 2;
        Plan {
            latency: one_way - one_way / 10,
            jitter: one_way / 5,
            ..Plan::scripted(self.seed, (self.nodes, self.processes), (30_000, 60_000), true)
        }
    }

    async fn live(&self, world: &World) -> FleetReport {
        world.with(|state| state.provision());
        tokio::spawn(world.clone().run());
        let report = Arc::new(Mutex::new(FleetReport::default()));
        // A fleet that connects at one instant sends all its scripts at once. A timer takes a millisecond
        // at least.
        let at_once = self.processes.div_ceil(1_000);
        for place in 0..self.processes {
            if place.is_multiple_of(at_once) {
                tokio::time::sleep(CONNECT / 2_500).await;
            }
            world.with(|state| state.add_process(place));
            let locker = self.locker(world, place);
            spawn(world, place, self.work(world.clone(), place, locker, report.clone()));
        }
        tokio::time::sleep(until_connected(world)).await;
        let count = || world.with(|state| state.servers.iter().map(|s| s.commands).collect());
        let before: Vec<u64> = count();
        tokio::time::sleep(self.time / 2).await;
        let half: Vec<u64> = count();
        tokio::time::sleep(self.time / 2).await;
        let after: Vec<u64> = count();
        let since = |then: Vec<u64>| after.iter().zip(then).map(|(now, then)| now - then).collect();
        let connections = world.with(|state| state.conns.len()) / self.nodes;
        let mut report = std::mem::take(&mut *lock(&report));
        report.waits.sort_unstable();
        (report.commands, report.later_commands) = (since(before), since(half));
        report.connections = connections;
        report
    }

    fn locker(&self, world: &World, place: usize) -> Locker {
        let (plan, clock) =
            world.with(|state| (state.plan.clone(), state.processes[place].clock.clock()));
        // Nothing judges a fleet, so its nodes are without the ledger, which would keep each request.
        let nodes =
            redis_nodes(world, &plan, place, true).unwrap_or_else(|error| panic!("{error}"));
        nodes.iter().for_each(connect);
        let settings = plan.settings();
        let dice = Mutex::new(Dice::new(plan.seed, 1_000 + place as u64));
        let entropy = Entropy::given(move || lock(&dice).next_u64());
        let within = settings.answer_timeout;
        let cluster = plan.cluster.clone().unwrap_or_else(|| panic!("strict"));
        let drift = plan.max_clock_drift;
        let quorum = Quorum::strict(nodes, clock.clone(), entropy.clone(), within, drift, cluster);
        let quorum = quorum.unwrap_or_else(|error| panic!("{error}"));
        let given = Given { clock, entropy, watchdog_on_this_runtime: true };
        Locker::with_lessor(Arc::new(quorum), settings, given)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn work(
        &self,
        world: World,
        place: usize,
        locker: Locker,
        report: Arc<Mutex<FleetReport>>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let Self { names, hold, think, time, seed, .. } = *self;
        let mut dice = Dice::new(seed, 3_000_000 + place as u64);
        let (connect, end) = (until_connected(&world), micros(CONNECT + time));
        let now = move || world.with(|state| state.now);
        async move {
            let mut pause = || think.mul_f64(2.0 * dice.fraction());
            tokio::time::sleep(connect).await;
            let mut pick = Dice::new(seed, 4_000_000 + place as u64);
            loop {
                tokio::time::sleep(pause()).await;
                let asked = now();
                if asked >= end {
                    return;
                }
                let name = format!("name-{}", pick.within(0, names as u64 - 1));
                let Ok(guard) = locker.lock::<kind::Lock>(Claim::lock([&*name])).await else {
                    lock(&report).failed += 1;
                    continue;
                };
                lock(&report).waits.push(duration(now() - asked));
                tokio::time::sleep(hold).await;
                let _ = guard.unlock().await;
            }
        }
    }
}

fn until_connected(world: &World) -> Duration {
    CONNECT.saturating_sub(duration(world.with(|state| state.now)))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
