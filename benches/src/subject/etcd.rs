//! quorumlock's locker with the default options on a cluster of etcd: only the store differs.

use anyhow::Result;
use quorumlock_core::{Locker, kind};
use quorumlock_protocol::{Claim, Settings};

use super::hold::{Held, Hold, Work};

/// A locker over the lab's lessor.
#[derive(Clone)]
pub struct Etcd(Locker);

impl Etcd {
    pub(super) fn connect(urls: &[String]) -> Result<Self> {
        Ok(Self(quorumlock_lab::etcd::locker(urls, Settings::default())?))
    }
}

impl Hold for Etcd {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let guard = self.0.lock::<kind::Lock>(Claim::lock([name])).await?;
        let held = work.run().await;
        guard.unlock().await?;
        Ok(held)
    }
}
