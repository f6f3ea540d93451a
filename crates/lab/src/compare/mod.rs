//! The same workload on a single node and on a quorum, side by side.
//!
//! Starts servers of its own, gives both modes the same work in turns, kills a server of each, and
//! has the records judged. What each task saw counts, on one clock; see [`judge`](crate::judge).

mod crew;
mod error;
mod fault;
mod journal;
mod measured;
mod pairs;
mod plan;
mod report;
mod side;
mod voice;

use std::sync::Arc;
use std::time::Duration;

pub use self::error::CompareError;
pub use self::journal::Journal;
pub(crate) use self::journal::MEASURED;
use self::plan::Slice;
pub use self::plan::{BadPlan, Mode, Plan};
pub use self::report::{Alone, Contended, Environment, Measured, Parallel, Report, ServerKilled};
use self::side::Side;
use crate::servers::Servers;

/// How far a comparison is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is measured now.
    pub what: &'static str,
    /// In which mode.
    pub mode: Mode,
    /// Measuring time that has gone.
    pub done: Duration,
    /// Measuring time of the whole comparison.
    pub total: Duration,
}

/// Carries out the plan; `tell` hears of each step before it is done. What is contended, and what
/// happens while a server is killed, is recorded in the `journal` if there is one.
///
/// # Errors
/// A [`CompareError`] if the plan is out of bounds, servers cannot be started or controlled, or the
/// first locks fail. Later failures are counted and reported.
///
/// # Cancel safety
/// Dropping the future ends all tasks and servers; nothing is left behind, and what was recorded is
/// kept by [`Journal::close`].
pub async fn compare(
    plan: Plan,
    mut journal: Option<&mut Journal>,
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
        let Slice { phase, mode, lasts } = slice;
        tell(Progress { what: phase.describe(), mode, done, total });
        let side = match mode {
            Mode::Single => &mut single,
            Mode::Quorum => &mut quorum,
        };
        done += lasts;
        if !side.can(phase) {
            continue;
        }
        let mut scribe = None;
        if let Some(journal) = &mut journal {
            scribe = journal.begin(slice, side.nodes().await)?;
        }
        side.measure(slice, scribe).await?;
        if let Some(journal) = &mut journal {
            journal.end(false).await?;
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
