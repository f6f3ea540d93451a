//! Tasks that take and give back locks, over and over, for some time.

use std::time::Duration;

use anyhow::{Result, bail};
use quorumlock_core::Instant;

use crate::bed::now;
use crate::subject::{Held, Hold, Subject, Work};
use crate::with_subject;

/// One pair of lock and unlock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) task: usize,
    pub(super) asked: Instant,
    pub(super) granted: Instant,
    pub(super) released: Instant,
    /// When the release was done.
    pub(super) done: Instant,
}

impl Pair {
    pub(super) fn took(&self) -> Duration {
        self.done.since(self.asked)
    }
}

/// Whether all tasks want the same lock.
#[derive(Debug, Clone, Copy)]
pub(super) enum Names<'a> {
    /// One for all.
    One(&'a str),
    /// One for each.
    Apart,
}

/// The name of the lock that only this task wants.
pub(super) fn own_name(task: usize) -> String {
    format!("bench:{task}")
}

/// Runs `tasks` tasks of one subject until `end`.
///
/// # Errors
/// The first error of a task.
pub(super) async fn reel(
    subject: &Subject,
    tasks: usize,
    names: Names<'_>,
    work: Work,
    end: Instant,
) -> Result<Vec<Pair>> {
    with_subject!(subject, it => reel_of(it, tasks, names, work, end).await)
}

async fn reel_of(
    subject: &impl Hold,
    tasks: usize,
    names: Names<'_>,
    work: Work,
    end: Instant,
) -> Result<Vec<Pair>> {
    let name = |task: usize| match names {
        Names::One(name) => name.to_owned(),
        Names::Apart => own_name(task),
    };
    if tasks == 1 {
        return one(subject, 0, &name(0), work, end).await;
    }
    let spawned: Vec<_> = (0..tasks)
        .map(|task| {
            let (subject, name) = (subject.for_task(), name(task));
            tokio::spawn(async move { one(&subject, task, &name, work, end).await })
        })
        .collect();
    let mut pairs = Vec::new();
    for task in spawned {
        pairs.append(&mut task.await??);
    }
    Ok(pairs)
}

async fn one(
    subject: &impl Hold,
    task: usize,
    name: &str,
    work: Work,
    end: Instant,
) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    let mut asked = now();
    let patience = end.since(asked) + PATIENCE;
    // One timer for all: what is measured is the subject.
    let pairing = async {
        while asked < end {
            let held = subject.hold(name, work).await?;
            let done = now();
            let Held { granted, released } = held;
            pairs.push(Pair { task, asked, granted, released, done });
            asked = done;
        }
        subject.finish().await
    };
    match tokio::time::timeout(patience, pairing).await {
        Ok(done) => done.map(|()| pairs),
        Err(_) => bail!("no lock within {PATIENCE:?}"),
    }
}

/// A subject that hangs is told so by this.
const PATIENCE: Duration = Duration::from_secs(10);
