//! quorumlock as a subject.

use std::time::Duration;

use anyhow::{Context as _, Result};
use quorumlock::{Admission, Builder, Layout, LockRequest, Locker, PermitGuard, Servers, kind};

use super::hold::{Held, Hold, LEASE, Work};
use super::kind::Kind;
use super::what::{What, several};

/// A locker, and how the benches use it.
#[derive(Clone)]
pub struct Ours {
    locker: Locker,
    /// The same options with a strict order; `None` on several nodes.
    in_order: Option<Locker>,
    what: What,
    hold_at_most: Option<Duration>,
}

impl Ours {
    pub(super) async fn connect(kind: Kind, urls: &[String]) -> Result<Self> {
        // A node grants nothing to a program without strict admission where it has a record: quorums have
        // one in database 0, single servers in database 1.
        let redlock = urls.len() > 1 && matches!(kind, Kind::Like | Kind::NoAdmission);
        let database = u8::from(redlock || kind == Kind::Proven);
        let urls: Vec<_> = urls.iter().map(|url| format!("{url}/{database}")).collect();
        let like = kind == Kind::Like;
        let mut builder = Builder::without_servers().scripts_only(kind == Kind::ScriptsOnly);
        if kind == Kind::WithEvents {
            builder = builder.on_event(|event| {
                std::hint::black_box(event.clone());
            });
        }
        if redlock {
            builder = builder.admission(Admission::Redlock);
        }
        if kind == Kind::Proven {
            builder = builder.admission(Admission::Strict);
        }
        if like {
            builder = builder.layout(Layout::Redlock);
        }
        if like || kind == Kind::NoTokens {
            builder = builder.fencing(false);
        }
        let (locker, in_order) = match &urls[..] {
            [one] => (
                builder.clone().on(Servers::single(one))?,
                Some(builder.strict_order(true).on(Servers::single(one))?),
            ),
            several => (builder.on(Servers::quorum(several))?, None),
        };
        if kind == Kind::Proven {
            locker.admit_nodes().await?;
        }
        let hold_at_most = (kind == Kind::NoRenewal).then_some(LEASE);
        Ok(Self { locker, in_order, what: What::Lock, hold_at_most })
    }

    pub(super) fn taking(self, what: What) -> Result<Self> {
        let locker = match what {
            What::InOrder => self.in_order.clone().context("a quorum keeps no strict order")?,
            _ => self.locker,
        };
        Ok(Self { locker, what, ..self })
    }

    /// Takes the permits of a name that are not free.
    pub(super) async fn occupy(&self, name: &str) -> Result<Vec<PermitGuard>> {
        let mut permits = Vec::new();
        if let What::Permit { of, held } = self.what {
            for _ in 0..held {
                permits.push(self.locker.semaphore(name, of).acquire().await?);
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
            What::Lock | What::InOrder => self.pair(locker.lock(name), work).await,
            What::Names(count) => {
                self.pair(locker.lock(several(name, count).collect::<Vec<_>>()), work).await
            }
            What::Permit { of, .. } => self.pair(locker.semaphore(name, of).acquire(), work).await,
            What::Read => self.pair(locker.rw_lock(name).read(), work).await,
            What::Write => self.pair(locker.rw_lock(name).write(), work).await,
        }
    }
}
