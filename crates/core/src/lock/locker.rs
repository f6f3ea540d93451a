use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorumlock_protocol::admission::NodeStatusReport;
use quorumlock_protocol::telemetry::Stats;
use quorumlock_protocol::{
    Claim, ConfigError, Error, Holder, Lane, Name, NoMajority, NodeReport, Owner, Settings, Ticket,
    quorum_of,
};

use super::environment::Environment;
use super::guard::Guard;
use super::held_locks::{HeldLock, HeldLocks};
use super::inner::Inner;
use super::kind::Kind;
use super::request::{LockRequest, TryLockRequest};
use super::resume::resume;
use crate::{Admission, Lessor};

/// Takes locks on one node or on a quorum: the same API and the same promises. The crate
/// `quorumlock` wraps it, and documents all methods for users.
///
/// Cheap to clone. Clones share the connections and the watchdog's thread, which ends with the last
/// clone and guard. Constructors do no I/O.
#[derive(Clone)]
pub struct Locker {
    inner: Arc<Inner>,
}

impl Locker {
    /// A locker over any lessor: for other stores, simulations and tests.
    ///
    /// # Errors
    /// [`ConfigError`] for settings out of bounds, if the watchdog's thread cannot be started, or
    /// if `watchdog_on_this_runtime` is set outside a tokio runtime.
    pub fn with_lessor(
        lessor: Arc<dyn Lessor>,
        settings: Settings,
        world: Environment,
    ) -> Result<Self, ConfigError> {
        let inner = Arc::new(Inner::new(lessor, settings, world)?);
        Ok(Self { inner })
    }

    /// Whether the same call may succeed later: also once passwords or certificates have changed, where
    /// they may.
    #[doc(hidden)]
    pub fn may_pass(&self, error: &Error) -> bool {
        match self.inner.settings.secrets_change() {
            true => error.may_pass_with_secrets(),
            false => error.is_retryable(),
        }
    }

    /// Waits for what `claim` claims, whose kind is `K`. The watchdog renews it until it is released.
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety.
    pub fn lock<K: Kind>(&self, claim: Result<Claim, ConfigError>) -> LockRequest<K> {
        LockRequest::new(&self.inner, claim)
    }

    /// Takes what `claim` claims if it is free; `None` if another client holds it.
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety.
    pub fn try_lock<K: Kind>(&self, claim: Result<Claim, ConfigError>) -> TryLockRequest<K> {
        TryLockRequest::new(&self.inner, claim)
    }

    /// Takes up a lock that another process left to this one.
    ///
    /// # Errors
    /// [`Error::Lost`] if enough nodes say that the lock is gone. [`Error::Unreachable`] if too few answer.
    /// [`Error::Config`], [`Error::Closed`].
    pub async fn resume(&self, ticket: &Ticket) -> Result<Guard, Error> {
        resume(self.inner.clone(), ticket).await
    }

    /// The locks that are held, with names that begin so, as the nodes list them. Does no I/O.
    pub fn list(&self, prefix: &Arc<str>) -> HeldLocks {
        HeldLocks::new(self.inner.clone(), prefix)
    }

    /// The current holder of each of these claims, as the nodes report it; `None` if nobody holds it. The
    /// nodes are asked about all at once.
    ///
    /// # Errors
    /// Those of the nodes; [`Error::Closed`].
    pub async fn holders(
        &self,
        claims: impl IntoIterator<Item = Claim>,
    ) -> Result<Vec<Option<Holder>>, Error> {
        self.inner.ensure_open()?;
        let asked: Vec<_> =
            claims.into_iter().map(|claim| self.inner.lessor.inspect(claim)).collect();
        let (mut holders, mut failed) = (Vec::new(), None::<Error>);
        for answer in asked {
            match answer.await {
                Ok(holder) => holders.push(holder),
                // The error of a claim that a node says is held tells more.
                Err(error) if failed.as_ref().is_none_or(|_| error.names_holder()) => {
                    failed = Some(error);
                }
                Err(_) => {}
            }
        }
        failed.map_or(Ok(holders), Err)
    }

    /// Whether `owner` holds the lock through this locker, as the nodes report it.
    ///
    /// # Errors
    /// As [`Locker::holders`].
    pub async fn is_held_by(&self, claim: Claim, owner: &Owner) -> Result<bool, Error> {
        self.inner.ensure_open()?;
        let Some(lease) = self.inner.owners.held_by(owner, &claim) else { return Ok(false) };
        if lease.check().is_err() {
            return Ok(false);
        }
        let holders = self.holders(claim.names().cloned().map(Claim::from)).await?;
        Ok(holders.into_iter().all(|holder| holder.is_some_and(|it| it.has(lease.nonce))))
    }

    /// Frees each of these claims, regardless of its holder, and raises the fencing marks. True if one
    /// was held. The nodes are asked about all at once.
    ///
    /// # Errors
    /// As [`Locker::holders`].
    pub async fn force_unlock(
        &self,
        claims: impl IntoIterator<Item = Claim>,
    ) -> Result<bool, Error> {
        self.inner.ensure_open()?;
        let free = |claim| self.inner.lessor.force_release(claim, None);
        let asked: Vec<_> = claims.into_iter().map(free).collect();
        let mut freed = Ok(false);
        for answer in asked {
            match (answer.await, &freed) {
                (Ok(held), Ok(before)) => freed = Ok(held || *before),
                (Err(error), Ok(_)) => freed = Err(error),
                (_, Err(_)) => {}
            }
        }
        freed
    }

    /// Frees a lock if the same holder still holds it, and raises its fencing mark. True if it did.
    ///
    /// # Errors
    /// As [`Locker::holders`].
    pub async fn force_unlock_from(&self, lock: &HeldLock) -> Result<bool, Error> {
        self.inner.ensure_open()?;
        self.inner.lessor.force_release(lock.claim()?, Some(lock.holder.id.clone())).await
    }

    /// How long a request may stay unanswered.
    #[doc(hidden)]
    pub fn answer_timeout(&self) -> Duration {
        self.inner.settings.answer_timeout
    }

    /// What this locker has counted since it was made, over all its clones.
    pub fn stats(&self) -> Stats {
        self.inner.telemetry.stats()
    }

    /// Admits all nodes at once. `force`: also nodes that belong to another cluster.
    ///
    /// # Errors
    /// Those of the nodes; [`ConfigError::NoAdmission`] on a single node or with admission off.
    pub async fn admit_nodes(&self, force: bool) -> Result<(), Error> {
        self.inner.ensure_open()?;
        self.admission()?.admit_nodes(force).await
    }

    /// Which nodes of a quorum may vote now.
    ///
    /// # Errors
    /// [`ConfigError::NoAdmission`] on a single node or with admission off; [`Error::Closed`].
    pub async fn node_status(&self) -> Result<Vec<NodeStatusReport>, Error> {
        self.inner.ensure_open()?;
        self.admission()?.node_status().await
    }

    /// Whether a majority of the nodes answers and may vote. It only reads.
    ///
    /// # Errors
    /// Those of the nodes; [`Error::Closed`].
    pub async fn ping(&self) -> Result<(), Error> {
        self.inner.ensure_open()?;
        self.inner.lessor.inspect(Name::probe().into()).await.map_err(unnamed)?;
        match self.inner.lessor.admission() {
            Some(admission) => majority_votes(admission.node_status().await?),
            // Every node that answers may vote.
            None => Ok(()),
        }
    }

    /// Closes the locker: new calls and waiting ones end with [`Error::Closed`]. Then waits until
    /// every node that answers has confirmed the releases of dropped guards and of locks that those
    /// calls may have been granted meanwhile. Nothing is granted after it has returned.
    ///
    /// # Cancel safety
    /// Cancel safe: the locker stays closed, and the releases go on.
    pub async fn close(&self) {
        let inner = &self.inner;
        if inner.watchdog.check_process().is_err() {
            return; // the releases are up to the parent
        }
        inner.calls.send_replace(true);
        let here = inner.ensure_here().is_ok();
        if here {
            let ended = inner.calls.closed();
            drop(tokio::time::timeout(inner.settings.answer_timeout, ended).await);
        }
        inner.watchdog.flush().await;
        if here {
            inner.lessor.drain(Lane::Caller).await;
        }
    }

    fn admission(&self) -> Result<Arc<dyn Admission>, ConfigError> {
        self.inner.lessor.admission().ok_or(ConfigError::NoAdmission)
    }
}

/// Fails unless a majority of the nodes may vote.
fn majority_votes(statuses: Vec<NodeStatusReport>) -> Result<(), Error> {
    let nodes = statuses.len();
    let problem = |report: NodeStatusReport| {
        let problem = match report.status {
            Ok(status) => status.problem()?,
            Err(problem) => problem,
        };
        Some(NodeReport::new(report.node, problem))
    };
    let problems: Vec<_> = statuses.into_iter().filter_map(problem).collect();
    let voters = nodes - problems.len();
    let barred = problems.iter().any(|report| report.problem.bars());
    if voters >= quorum_of(nodes) && !barred {
        return Ok(());
    }
    Err(NoMajority::new(None, (nodes, quorum_of(nodes)), voters, problems).into())
}

/// The error of a question that is about no lock.
fn unnamed(mut error: Error) -> Error {
    if let Error::Refused(none) | Error::Unreachable(none) = &mut error {
        none.name = None;
    }
    error
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}
