//! The same workload on a single node and on a quorum, side by side.
//!
//! A comparison starts its own servers, gives both modes the same work alternately, kills a server
//! of each, and judges the recorded events. Results come from what the tasks observed, on one
//! clock; see [`judge`](crate::judge).

mod error;
mod fault;
mod measured;
mod pairs;
mod phase_recorder;
mod plan;
mod report;
mod run_recorder;
mod side;
mod workers;

use std::sync::Arc;
use std::time::Duration;

pub use self::error::CompareError;
use self::plan::PhaseSpan;
pub use self::plan::{BadPlan, Mode, Plan};
pub use self::report::{Alone, Contended, Environment, Measured, Parallel, Report, ServerKilled};
pub(crate) use self::run_recorder::MEASURED;
pub use self::run_recorder::RunRecorder;
use self::side::Side;
use quorumlock_testbed::servers::Servers;

/// The progress of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The current measurement.
    pub what: &'static str,
    /// The mode that is measured.
    pub mode: Mode,
    /// Elapsed measuring time.
    pub done: Duration,
    /// Total measuring time of the comparison.
    pub total: Duration,
}

/// Carries out the plan. Calls `tell` before each step. If there is a `recorder`, it gets the events
/// of the contended phase and of the fault phase.
///
/// # Errors
/// A [`CompareError`] if the plan is out of bounds, servers cannot be started or controlled, or the
/// first locks fail. Later failures of locks are counted and reported.
///
/// # Cancel safety
/// Dropping the future ends all tasks and servers. [`RunRecorder::close`] then writes what was
/// recorded.
pub async fn compare(
    plan: Plan,
    mut recorder: Option<&mut RunRecorder>,
    mut tell: impl FnMut(Progress),
) -> Result<Report, CompareError> {
    plan.check()?;
    let start = move || Servers::start(1 + plan.nodes);
    let servers = match tokio::task::spawn_blocking(start).await {
        Ok(servers) => Arc::new(servers?),
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    };
    let mut single = Side::new(plan, Mode::Single, servers.clone()).await?;
    let mut quorum = Side::new(plan, Mode::Quorum, servers.clone()).await?;
    let slices = plan.slices();
    let total = slices.iter().map(|slice| slice.lasts).sum();
    let mut done = Duration::ZERO;
    for slice in slices {
        let PhaseSpan { phase, mode, lasts } = slice;
        tell(Progress { what: phase.describe(), mode, done, total });
        let side = match mode {
            Mode::Single => &mut single,
            Mode::Quorum => &mut quorum,
        };
        done += lasts;
        if !side.can(phase) {
            continue;
        }
        let mut sender = None;
        if let Some(recorder) = &mut recorder {
            sender = recorder.begin(slice, side.nodes().await)?;
        }
        side.measure(slice, sender).await?;
        if let Some(recorder) = &mut recorder {
            recorder.end(false).await?;
        }
    }
    Ok(Report {
        environment: Environment::of(plan, &servers),
        single: Measured::of(single.raw()),
        quorum: Measured::of(quorum.raw()),
    })
}

impl Environment {
    fn of(plan: Plan, servers: &Servers) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            server: servers[0].version().map(ToString::to_string),
            cpus: std::thread::available_parallelism().ok().map(usize::from),
            nodes: plan.nodes,
            tasks: plan.tasks,
            seconds: plan.measuring.as_secs_f64(),
            seed: plan.seed,
        }
    }
}
