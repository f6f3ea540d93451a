use std::path::Path;
use std::process::ExitStatus;

use quorumlock::{Error, Guard, Locker, blocking};
use tokio::process::Command;

use super::Target;
use crate::within;

pub(super) const TASK: &str = "end";

/// A way in which a program ends with a lock that it has not unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `main` returns, and drops the guard, then the locker.
    Returns,
    /// `main` fails: `?`.
    Fails,
    /// `main` panics.
    Panics,
    /// `main` returns while a task holds the lock: the runtime drops the task.
    DropsTask,
    /// A program without async returns.
    BlockingReturns,
    /// A program without async drops the guard, and its locker is in a `static`.
    BlockingStatic,
}

impl Ending {
    /// All.
    pub const ALL: [Self; 6] = [
        Self::Returns,
        Self::Fails,
        Self::Panics,
        Self::DropsTask,
        Self::BlockingReturns,
        Self::BlockingStatic,
    ];

    /// Starts a process that takes the lock and ends so, and waits for its end.
    pub(crate) async fn run(self, worker: &Path, target: &Target) -> ExitStatus {
        let mut process = Command::new(worker);
        process.arg(TASK).args(target.arguments()).arg(format!("{self:?}")).kill_on_drop(true);
        let status = process.stderr(std::process::Stdio::null()).status();
        within("the end of the process", status).await.expect("started")
    }
}

/// Runs before the worker has a runtime of its own.
///
/// # Panics
/// If that is the ending.
pub(super) fn work(arguments: &[String]) -> Result<(), Error> {
    let (target, rest) = Target::parse(arguments);
    let ending = Ending::ALL.into_iter().find(|ending| format!("{ending:?}") == rest[0]);
    let ending = ending.expect("an ending");
    match ending {
        Ending::BlockingReturns => {
            let locker = blocking::Locker::from_async(target.locker())?;
            let _guard = locker.lock(&target.name).lease(target.lease).acquire()?;
            Ok(())
        }
        Ending::BlockingStatic => {
            static LOCKER: std::sync::OnceLock<blocking::Locker> = std::sync::OnceLock::new();
            let locker = LOCKER
                .get_or_init(|| blocking::Locker::from_async(target.locker()).expect("started"));
            drop(locker.lock(&target.name).lease(target.lease).acquire()?);
            Ok(())
        }
        ending => run(ending, &target),
    }
}

#[tokio::main]
async fn run(ending: Ending, target: &Target) -> Result<(), Error> {
    let locker = target.locker();
    let guard = locker.lock(&target.name).lease(target.lease).await?;
    match ending {
        // A name that is empty.
        Ending::Fails => locker.try_lock("").await.map(drop),
        Ending::Panics => panic!("as it should"),
        Ending::DropsTask => {
            tokio::spawn(holds(locker, guard));
            Ok(())
        }
        _ => Ok(()),
    }
}

async fn holds(_locker: Locker, guard: Guard) {
    let lost = guard.lost().await;
    panic!("{lost}");
}
