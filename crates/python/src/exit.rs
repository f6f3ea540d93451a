//! The end of the interpreter gives back what is still held.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use pyo3::prelude::*;
use tokio::task::JoinSet;

use crate::guard::HoldCell;
use crate::runtime;

/// What a process holds.
struct Live {
    process: u32,
    holds: Vec<Weak<HoldCell>>,
    /// How many holds there may be before the dead ones are taken out.
    sweep_at: usize,
}

/// It is locked by threads that hold the GIL only, as the runtime: so a fork finds it unlocked.
static LIVE: Mutex<Option<Live>> = Mutex::new(None);

/// How many holds are kept before anybody looks for dead ones.
const FEW: usize = 64;

/// Remembers a hold until it is collected.
pub(crate) fn watch(cell: &Arc<HoldCell>) {
    with(|live| {
        if live.holds.len() >= live.sweep_at {
            live.holds.retain(|hold| hold.strong_count() > 0);
            live.sweep_at = FEW + 2 * live.holds.len();
        }
        live.holds.push(Arc::downgrade(cell));
    });
}

/// Gives back all holds of this process, and waits for the servers for `patience` seconds at most.
#[pyfunction]
pub(crate) fn release_all(py: Python<'_>, patience: f64) -> PyResult<()> {
    let holds = with(|live| std::mem::take(&mut live.holds));
    let guards: Vec<_> = holds.iter().filter_map(|hold| hold.upgrade()?.take()).collect();
    if guards.is_empty() {
        return Ok(());
    }
    let patience = Duration::try_from_secs_f64(patience).unwrap_or_default();
    let runtime = runtime::handle(py)?;
    let (done, released) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        let mut unlocks = JoinSet::new();
        for guard in guards {
            unlocks.spawn(guard.unlock());
        }
        while unlocks.join_next().await.is_some() {}
        // Fails only if nobody waits any more.
        let _ = done.send(());
    });
    py.detach(move || released.recv_timeout(patience)).ok();
    Ok(())
}

fn with<T>(act: impl FnOnce(&mut Live) -> T) -> T {
    let here = std::process::id();
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    if live.as_ref().is_none_or(|live| live.process != here) {
        let fresh = Live { process: here, holds: Vec::new(), sweep_at: FEW };
        // What the parent holds is the parent's.
        std::mem::forget(live.replace(fresh));
    }
    act(live.as_mut().expect("it was just made"))
}
