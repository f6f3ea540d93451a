//! quorumlock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use quorumlock::{Admission, Guard, Locker, Wire};

use super::{Held, Hold, Kind, LEASE, Work};

/// A locker, and how it is used.
#[derive(Clone)]
pub struct Ours {
    locker: Locker,
    hold_at_most: Option<Duration>,
    /// Of a task that bumps: what it holds until it is its turn again.
    kept: Option<Arc<Mutex<Option<Guard>>>>,
}

impl Ours {
    pub(super) fn connect(kind: Kind, urls: &[String]) -> Result<Self> {
        let like = matches!(kind, Kind::Like | Kind::LikeBump);
        let mut builder = Locker::builder();
        if like || kind == Kind::NoAdmission {
            builder = builder.admission(Admission::Redlock);
        }
        if like {
            builder = builder.wire(Wire::Redlock);
        }
        if like || kind == Kind::NoTokens {
            builder = builder.fencing(false);
        }
        let locker = match urls {
            [one] => builder.single(one)?,
            several => builder.quorum(several)?,
        };
        let hold_at_most = (kind == Kind::NoRenewal).then_some(LEASE);
        let kept = matches!(kind, Kind::Bump | Kind::LikeBump).then(Arc::default);
        Ok(Self { locker, hold_at_most, kept })
    }

    fn take(&self) -> Option<Guard> {
        self.kept.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Hold for Ours {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let mut lock = match self.take().filter(|guard| guard.name() == name) {
            Some(guard) => guard.bump(),
            None => self.locker.lock(name),
        };
        if let Some(limit) = self.hold_at_most {
            lock = lock.hold_at_most(limit);
        }
        let guard = lock.await?;
        let held = work.run().await;
        match &self.kept {
            Some(kept) => *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard),
            None => guard.unlock().await?,
        }
        Ok(held)
    }

    async fn finish(&self) -> Result<()> {
        match self.take() {
            Some(guard) => Ok(guard.unlock().await?),
            None => Ok(()),
        }
    }

    fn for_task(&self) -> Self {
        let kept = self.kept.as_ref().map(|_| Arc::default());
        Self { kept, ..self.clone() }
    }
}
