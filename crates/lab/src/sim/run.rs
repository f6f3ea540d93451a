use std::collections::BTreeSet;
use std::fmt;

use quorumlock_core::admission::Charter;
use quorumlock_core::{Clock, Wire};

use super::faults::Assumption;
use super::invariants::{Invariant, Violation, leak, liveness};
use super::mutants::Bug;
use super::node::SimNode;
use super::plan::Plan;
use super::process::Process;
use super::sometimes::Seen;
use super::time::duration;
use super::work::grace;
use super::world::World;

/// What became of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The first guarantee that fell although all that it rests on stood.
    pub violation: Option<Violation>,
    /// Guarantees that fell with an assumption that a fault had broken.
    pub expected: BTreeSet<Invariant>,
    /// What the faults broke.
    pub broken: Vec<Assumption>,
    /// What happened at least once.
    pub seen: Seen,
    /// Over everything that happened, in order.
    pub hash: u64,
    /// How much happened.
    pub events: u64,
    /// The end of what happened, if it was to be kept.
    pub trace: Vec<String>,
    /// The fleet and its faults.
    pub plan: String,
}

/// Runs one seed, with a planted bug or none; keeps the last `keep` lines of the trace.
///
/// # Panics
/// If the operating system gives no runtime.
#[must_use]
pub fn run(seed: u64, bug: Option<Bug>, keep: usize) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|error| panic!("no runtime: {error}"));
    let plan = Plan::of(seed);
    let shown = format!("{plan:?}");
    let world = runtime.block_on(async {
        let world = World::new(plan, bug, keep);
        live(&world).await;
        world
    });
    let outcome = world.with(|state| Outcome {
        seed,
        violation: state.violation.take(),
        expected: std::mem::take(&mut state.expected),
        broken: state.broken.iter().copied().collect(),
        seen: state.ledger.seen,
        hash: state.trace.hash(),
        events: state.trace.count(),
        trace: state.trace.lines(),
        plan: shown,
    });
    world.close();
    drop(runtime);
    outcome
}

async fn live(world: &World) {
    world.with(|state| state.begin());
    tokio::spawn(world.clone().run());
    let longest = world.with(|state| state.plan.recovered() + 2 * liveness::longest_wait(state));
    if tokio::time::timeout(duration(longest), world.ended()).await.is_err() {
        world.with(|state| state.overdue());
    }
    if world.with(|state| state.violation.is_some()) {
        return;
    }
    tokio::time::sleep(duration(world.with(|state| grace(state)))).await;
    world.with(leak::check_all);
}

/// Simulated nodes, blank where there is a charter, in a world where nothing goes wrong, on the caller's runtime and its clock: to
/// be held against real ones. As one client sees them, and that client's lease clock.
#[must_use]
pub fn nodes(count: usize, wire: Wire, charter: Option<&Charter>) -> (Vec<SimNode>, Clock) {
    let world = World::new(Plan::calm(count, wire, charter), None, 0);
    let clock = world.with(|state| {
        let process = Process::new(state, 0);
        let clock = process.clock.clock();
        state.processes.push(process);
        clock
    });
    tokio::spawn(world.clone().run());
    ((0..count).map(|node| SimNode::new(world.clone(), 0, node)).collect(), clock)
}

impl Outcome {
    /// The command that runs this seed again, and shows the end of its trace.
    #[must_use]
    pub fn replay(&self) -> String {
        let seed = self.seed;
        format!("cargo run --release -p quorumlock-lab --features sim --bin sim -- --seed {seed}")
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.violation {
            Some(violation) => {
                write!(f, "seed {}: {:?}: {violation}", self.seed, violation.invariant())
            }
            None => write!(f, "seed {}: {} events, no violation", self.seed, self.events),
        }
    }
}
