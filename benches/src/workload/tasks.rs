//! Tasks that lock and unlock again and again for some time.

use std::time::Duration;

use anyhow::{Result, bail};
use quorumlock_protocol::Instant;

use crate::names::Names;
use crate::subject::{Held, Hold, Subject, Work};
use crate::testbed::now;
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

/// Runs `tasks` tasks of one subject until `end`, or until fresh names have run out.
///
/// # Errors
/// The first error of a task.
pub(super) async fn run(
    subject: &Subject,
    tasks: usize,
    names: &Names,
    work: Work,
    end: Instant,
) -> Result<Vec<Pair>> {
    with_subject!(subject, it => run_of(it, tasks, names, work, end).await)
}

async fn run_of(
    subject: &impl Hold,
    tasks: usize,
    names: &Names,
    work: Work,
    end: Instant,
) -> Result<Vec<Pair>> {
    if tasks == 1 {
        return one(subject, 0, names, work, end).await;
    }
    let spawned: Vec<_> = (0..tasks)
        .map(|task| {
            let (subject, names) = (subject.for_task(), names.clone());
            tokio::spawn(async move { one(&subject, task, &names, work, end).await })
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
    names: &Names,
    work: Work,
    end: Instant,
) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    let mut asked = now();
    let patience = end.since(asked) + PATIENCE;
    // One timer for all pairs: a timer per pair would be measured too.
    let pairing = async {
        while asked < end
            && let Some(name) = names.next(task)
        {
            let Held { granted, released } = subject.hold(name, work).await?;
            let done = now();
            pairs.push(Pair { task, asked, granted, released, done });
            asked = done;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(patience, pairing).await {
        Ok(done) => done.map(|()| pairs),
        Err(_) => bail!("no lock within {PATIENCE:?}"),
    }
}

/// The time after which a subject counts as hung.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_names_come_once_and_repeated_ones_again() {
        let (some, more) = (Names::fresh(2), Names::fresh(2));
        let drawn: Vec<_> = [&some, &some, &more, &more].map(|names| names.next(0)).to_vec();
        assert!(drawn.iter().all(Option::is_some), "{drawn:?}");
        for (at, name) in drawn.iter().enumerate() {
            assert!(!drawn[..at].contains(name), "{drawn:?}");
        }
        assert_eq!((some.next(0), more.next(1)), (None, None));

        let own = Names::repeated(2);
        assert_eq!((own.next(1), own.next(0), own.next(2)), (own.next(1), own.next(0), None));
        assert_ne!(own.next(0), own.next(1));
        let one = Names::one();
        assert!(one.next(0).is_some() && one.next(0) == one.next(7));
        assert_ne!(one.next(0), Names::one().next(0));
    }
}
