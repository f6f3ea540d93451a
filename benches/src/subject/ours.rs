//! quorumlock as a subject.

use std::time::Duration;

use anyhow::Result;
use quorumlock::{Admission, LockRequest, Locker, Permit, Wire, kind};

use super::hold::{Held, Hold, LEASE, Work};
use super::kind::Kind;
use super::what::{What, several};

/// A locker, and how the benches use it.
#[derive(Clone)]
pub struct Ours {
    locker: Locker,
    what: What,
    hold_at_most: Option<Duration>,
}

impl Ours {
    pub(super) fn connect(kind: Kind, urls: &[String]) -> Result<Self> {
        let like = kind == Kind::Like;
        let mut builder = Locker::builder().scripts_only(kind == Kind::ScriptsOnly);
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
        let hold_at_most = (kind == Kind::NoRenewal).then_some(LEASE);
        Ok(Self { locker, what: What::Lock, hold_at_most })
    }

    pub(super) fn taking(self, what: What) -> Self {
        Self { what, ..self }
    }

    /// Takes the permits of a name that are not free.
    pub(super) async fn occupy(&self, name: &str) -> Result<Vec<Permit>> {
        let mut permits = Vec::new();
        if let What::Permit { of, held } = self.what {
            for _ in 0..held {
                permits.push(self.locker.permit(name, of).await?);
            }
        }
        Ok(permits)
    }

    async fn pair<K: kind::Kind>(&self, mut request: LockRequest<K>, work: Work) -> Result<Held> {
        if let Some(limit) = self.hold_at_most {
            request = request.hold_at_most(limit);
        }
        let guard = request.await?;
        let held = work.run().await;
        guard.unlock().await?;
        Ok(held)
    }
}

impl Hold for Ours {
    async fn hold(&self, name: &str, work: Work) -> Result<Held> {
        let locker = &self.locker;
        match self.what {
            What::Lock => self.pair(locker.lock(name), work).await,
            What::Names(count) => self.pair(locker.lock_all(several(name, count)), work).await,
            What::Permit { of, .. } => self.pair(locker.permit(name, of), work).await,
        }
    }
}
