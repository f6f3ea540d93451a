//! quorumlock.

use std::time::Duration;

use anyhow::Result;
use quorumlock::{Admission, Locker, Wire};

use super::{Held, Hold, Kind, LEASE, Work};

/// A locker, and for how long it holds at most.
#[derive(Clone)]
pub struct Ours(Locker, Option<Duration>);

impl Ours {
    pub(super) fn connect(kind: Kind, urls: &[String]) -> Result<Self> {
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
        let locker = match urls {
            [one] => builder.single(one)?,
            several => builder.quorum(several)?,
        };
        Ok(Self(locker, (kind == Kind::NoRenewal).then_some(LEASE)))
    }
}

impl Hold for Ours {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let mut lock = self.0.lock(name);
        if let Some(limit) = self.1 {
            lock = lock.hold_at_most(limit);
        }
        let guard = lock.await?;
        let held = work.run().await;
        guard.unlock().await?;
        Ok(held)
    }
}
