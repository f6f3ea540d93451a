//! quorumlock as a subject.

use std::time::Duration;

use anyhow::Result;
use quorumlock::{Admission, Locker, Wire};

use super::hold::{Held, Hold, LEASE, Work};
use super::kind::Kind;

/// A locker, and how the benches use it.
#[derive(Clone)]
pub struct Ours {
    locker: Locker,
    hold_at_most: Option<Duration>,
}

impl Ours {
    pub(super) fn connect(kind: Kind, urls: &[String]) -> Result<Self> {
        let like = kind == Kind::Like;
        let mut builder = Locker::builder();
        if urls.len() > 1 && (like || kind == Kind::NoAdmission) {
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
        Ok(Self { locker, hold_at_most: (kind == Kind::NoRenewal).then_some(LEASE) })
    }
}

impl Hold for Ours {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let mut lock = self.locker.lock(name);
        if let Some(limit) = self.hold_at_most {
            lock = lock.hold_at_most(limit);
        }
        let guard = lock.await?;
        let held = work.run().await;
        guard.unlock().await?;
        Ok(held)
    }
}
