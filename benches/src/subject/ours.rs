//! quorumlock.

use std::time::Duration;

use anyhow::Result;
use quorumlock::{Admission, Locker, Wire};

use super::{Held, Kind, Work};

pub(super) fn locker(kind: Kind, urls: &[String]) -> Result<Locker> {
    let mut builder = Locker::builder();
    if matches!(kind, Kind::Like | Kind::NoAdmission) {
        builder = builder.admission(Admission::Redlock);
    }
    if kind == Kind::Like {
        builder = builder.wire(Wire::Redlock);
    }
    if matches!(kind, Kind::Like | Kind::NoTokens) {
        builder = builder.fencing(false);
    }
    Ok(match urls {
        [one] => builder.single(one)?,
        several => builder.quorum(several)?,
    })
}

pub(super) async fn hold(
    locker: &Locker,
    limit: Option<Duration>,
    name: &str,
    work: Work,
) -> Result<Held> {
    let mut lock = locker.lock(name);
    if let Some(limit) = limit {
        lock = lock.hold_at_most(limit);
    }
    let guard = lock.await?;
    let held = work.run().await;
    guard.unlock().await?;
    Ok(held)
}
