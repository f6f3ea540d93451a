use std::collections::BTreeSet;
use std::fmt;

use tokio::runtime::Runtime;

use super::belief::Belief;
use super::bug::Bug;
use super::faults::Assumption;
use super::invariants::{leak, liveness};
use super::lua;
use super::plan::Plan;
use super::script::Script;
use super::sometimes::Seen;
use super::time::duration;
use super::violation::{Invariant, Violation};
use super::workload::grace;
use super::world::World;

/// The result of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The first failure of a guarantee whose assumptions all held.
    pub violation: Option<Violation>,
    /// The guarantees that failed after a fault broke an assumption they need.
    pub expected: BTreeSet<Invariant>,
    /// The assumptions that faults broke.
    pub broken: Vec<Assumption>,
    /// What the holders believed.
    pub beliefs: Vec<Belief>,
    /// The situations that were seen at least once.
    pub seen: Seen,
    /// The hash over all events, in order.
    pub hash: u64,
    /// The number of events.
    pub events: u64,
    /// The last events, if `keep` was not 0.
    pub trace: Vec<String>,
    /// The plan of the run: nodes, clients and faults.
    pub plan: String,
}

/// Runs one seed, with a planted bug or without, and keeps the last `keep` lines of the trace.
///
/// # Panics
/// If the operating system cannot start the runtime.
#[must_use]
pub fn run(seed: u64, bug: Option<Bug>, keep: usize) -> Outcome {
    carry_out(seed, bug, keep, false)
}

/// As [`run`], and the run goes on after a violation: a checker from elsewhere judges its beliefs.
/// All guarantees that failed are in [`Outcome::expected`].
///
/// # Panics
/// As for [`run`].
#[must_use]
pub fn run_on(seed: u64, bug: Option<Bug>) -> Outcome {
    carry_out(seed, bug, 0, true)
}

fn carry_out(seed: u64, bug: Option<Bug>, keep: usize, goes_on: bool) -> Outcome {
    let _seed = SayOnPanic(seed);
    let runtime = runtime();
    let plan = Plan::of(seed);
    let shown = format!("{plan:?}");
    let world = runtime.block_on(async {
        let world = World::new(plan, bug, keep);
        world.look(|state| state.goes_on = goes_on);
        live(&world).await;
        world
    });
    let outcome = world.with(|state| Outcome {
        seed,
        violation: state.violation.take(),
        expected: std::mem::take(&mut state.expected),
        broken: state.broken.iter().copied().collect(),
        beliefs: state.ledger.beliefs.take(),
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

/// A runtime in simulated time, for a world without the scripts of former ones.
pub fn runtime() -> Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|error| panic!("no runtime: {error}"));
    if Script::forget_former() {
        lua::forget_compiled();
    }
    runtime
}

/// Says which seed it was, if the thread panics.
struct SayOnPanic(u64);

impl Drop for SayOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the panic is in seed {}", self.0);
        }
    }
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

impl Outcome {
    /// The command that runs this seed again and prints the end of its trace.
    #[must_use]
    pub fn replay(&self) -> String {
        let seed = self.seed;
        format!("cargo run --release -p quorumlock-sim --bin sim -- --seed {seed}")
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
