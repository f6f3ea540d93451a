use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use quorumlock_protocol::Claim;

use crate::admission::NodeStatusReport;
use crate::election::Election;
use crate::mutex::Mutex;
use crate::names::{self, Names};
use crate::rw_lock::RwLock;
use crate::semaphore::Semaphore;
use crate::telemetry::Stats;
use crate::{Error, Guard, HeldLock, HeldLocks, HoldView, LockRequest, Ticket, TryLockRequest};

/// Takes locks, on one node or on a quorum: the same API and the same promises.
///
/// Cheap to clone. Clones share the connections and the watchdog's thread, which ends with the last
/// clone and guard. It may live in a `static`. Constructors do no I/O.
#[derive(Clone)]
pub struct Locker {
    inner: quorumlock_core::Locker,
    /// Begins every name; empty by default.
    prefix: Arc<str>,
}

impl Locker {
    /// Whether the same call may succeed later.
    #[doc(hidden)]
    pub fn may_pass(&self, error: &Error) -> bool {
        self.inner.may_pass(error)
    }

    pub(crate) fn of(inner: quorumlock_core::Locker, prefix: &str) -> Self {
        Self { inner, prefix: prefix.into() }
    }
}

/// Locks.
impl Locker {
    /// Waits for the lock of a name, or of several names: all or none. The watchdog renews it until it
    /// is released. Short for [`Mutex::lock`] of [`Locker::mutex`].
    ///
    /// ```no_run
    /// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
    /// use std::time::Duration;
    ///
    /// let guard = locker.lock("invoice/7").await?;
    /// guard.unlock().await?;
    /// let both = locker.lock(["account/7", "account/8"]).wait(Duration::from_secs(5)).await?;
    /// both.unlock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`Mutex::lock`], also for cancel safety.
    pub fn lock(&self, names: impl Names) -> LockRequest {
        self.inner.lock(Claim::lock(names::full(&names, &self.prefix)))
    }

    /// Takes the lock of a name, or of several names, if it is free; `None` if another client holds it,
    /// or one of them. Short for [`Mutex::try_lock`] of [`Locker::mutex`].
    ///
    /// # Errors
    /// See [`Mutex::try_lock`], also for cancel safety.
    pub fn try_lock(&self, names: impl Names) -> TryLockRequest {
        self.inner.try_lock(Claim::lock(names::full(&names, &self.prefix)))
    }

    /// Waits for the lock, runs `work`, releases the lock: `lock(names).run(work)`. The work is
    /// dropped when the lock is lost.
    ///
    /// ```no_run
    /// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
    /// let answer = locker.run("invoice/7", |lock| async move {
    ///     println!("token {}", lock.token());
    ///     42
    /// });
    /// assert_eq!(answer.await?, 42);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`LockRequest::run`].
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future drops the work and posts the release.
    pub async fn run<T, F, Fut>(&self, names: impl Names, work: F) -> Result<T, Error>
    where
        F: FnOnce(HoldView) -> Fut,
        Fut: Future<Output = T>,
    {
        self.lock(names).run(work).await
    }

    /// A handle of the lock of a name, or of several names, to keep and to pass around. Does no I/O.
    ///
    /// A bad name is an error of the handle's first call.
    pub fn mutex(&self, names: impl Names) -> Mutex {
        let names = names::full(&names, &self.prefix);
        Mutex::new(self.inner.clone(), names.map(Cow::into_owned).collect())
    }

    /// A handle of the read-write lock `name`, to keep and to pass around. Does no I/O.
    ///
    /// A bad name is an error of the handle's first call.
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.inner.clone(), self.full(name.as_ref()))
    }

    /// A handle of the permits of `name`, of which so many are held at a time, to keep and to pass
    /// around. Does no I/O.
    ///
    /// A bad name or number is an error of the handle's first call.
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self.inner.clone(), self.full(name.as_ref()), permits)
    }

    /// A handle to lead, or to see who leads, under `name`. Does no I/O.
    ///
    /// It is the lock `name`: one candidate at a time holds it. A bad name is an error of the handle's
    /// first call.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.inner.clone(), self.full(name.as_ref()))
    }

    /// Takes up a lock that another process, or another locker of this one, left by
    /// [`Guard::into_ticket`](crate::Guard::into_ticket). From then on it is renewed here.
    ///
    /// The locker must lead to the same servers, with the same [`Layout`](crate::Layout). The names are those of
    /// the other process: no prefix is added. The token is the next one, so that a resource refuses what the
    /// other process still writes. What was left of `hold_at_most` when the ticket was made is left now: the
    /// time between, less than one lease, is not counted (docs/PROTOCOL.md TIC3).
    ///
    /// ```no_run
    /// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
    /// let guard = locker.lock("upload/7").await?;
    /// guard.renew().await?;
    /// let text = guard.into_ticket()?.to_string();
    /// // Another process:
    /// let guard = locker.resume(&text.parse()?).await?;
    /// guard.unlock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Lost`] if the nodes say that the lock is gone, or its `hold_at_most` is over.
    /// [`Error::Unreachable`] if too few nodes answer within the connect and the answer timeout: the lock is
    /// not renewed, and the same ticket can be tried again. [`Error::Config`], also
    /// [`ConfigError::OtherLayout`](crate::ConfigError::OtherLayout); [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: a renewal that was sent may be carried out, and the lock then ends with its lease.
    pub async fn resume(&self, ticket: &Ticket) -> Result<Guard, Error> {
        self.inner.resume(ticket).await
    }
}

#[cfg(feature = "blocking")]
impl Locker {
    pub(crate) fn answer_timeout(&self) -> std::time::Duration {
        self.inner.answer_timeout()
    }
}

/// Questions about locks.
impl Locker {
    /// Lists the locks that are held: of each kind, with the names that begin with the locker's prefix, in the
    /// layout of its [`Layout`](crate::Layout). A stream, which does no I/O before it is polled.
    ///
    /// The nodes look through all their keys in small steps (`SCAN`), which takes a while where other programs
    /// keep many. A lock that is taken or released meanwhile may be missing. A name that other libraries hold
    /// is listed if its value has the form that redsync or node-redlock write.
    ///
    /// ```no_run
    /// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
    /// use futures::TryStreamExt as _;
    ///
    /// let mut held = locker.list();
    /// while let Some(lock) = held.try_next().await? {
    ///     println!("{} is held by {:?}", lock.name, lock.holder.label);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn list(&self) -> HeldLocks {
        self.inner.list(&self.prefix)
    }

    /// Frees a lock that [`Locker::list`] showed, of any kind, if the same holder still holds it, and raises its
    /// fencing mark. True if it did. So the next holder, which may be healthy, loses nothing. See
    /// [`Mutex::force_unlock`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn force_unlock_from(&self, lock: &HeldLock) -> Result<bool, Error> {
        self.inner.force_unlock_from(lock).await
    }
}

/// Nodes, and the end.
impl Locker {
    /// Asks whether locks can be granted now: whether a majority of the nodes answers and may vote.
    /// Takes no lock and changes nothing on the nodes. For health checks, and to connect before the
    /// first lock.
    ///
    /// It writes nothing, so it does not notice a server that refuses writes (full memory, failed
    /// snapshots). Under [`Admission::Strict`](crate::Admission::Strict) it waits for each node's
    /// status, for the answer timeout where a node hangs.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if too few nodes answer; [`Error::Refused`] if enough answer and too
    /// few of them may vote. Both hold the problem of each node. [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn ping(&self) -> Result<(), Error> {
        self.inner.ping().await
    }

    /// What this locker has counted since it was made, over all its clones. Reads memory only.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Admits all nodes at once, if they are new. Does nothing if all of them vote.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if a node did not answer. [`Error::Refused`] if a node does not vote though
    /// another has the record of this cluster ([`NodeProblem::Founded`](crate::NodeProblem::Founded): it
    /// may have forgotten a lock), belongs to a cluster with another list of nodes, or is new and has a
    /// cluster in another database ([`Locker::force_admit_nodes`] admits these, too), or if its
    /// configuration does not let it vote. [`ConfigError::NoAdmission`](crate::ConfigError::NoAdmission) on a single node or with
    /// admission off.
    ///
    /// # Cancel safety
    /// Once polled, some nodes may have been admitted even if the future is dropped.
    pub async fn admit_nodes(&self) -> Result<(), Error> {
        self.inner.admit_nodes(false).await
    }

    /// Admits all nodes at once, whatever they show, and takes nodes from the cluster to which they belong.
    /// By this call you vouch that every client that uses one of them has been stopped for the longest
    /// lease.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if a node did not answer. [`Error::Refused`] if the configuration of a node
    /// does not let it vote.
    ///
    /// # Cancel safety
    /// As [`Locker::admit_nodes`].
    pub async fn force_admit_nodes(&self) -> Result<(), Error> {
        self.inner.admit_nodes(true).await
    }

    /// Which nodes of a quorum may vote now: those whose memory is proven. Restart a node only
    /// while all of them may vote.
    ///
    /// # Errors
    /// [`ConfigError::NoAdmission`](crate::ConfigError::NoAdmission) on a single node or with
    /// admission off; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn node_status(&self) -> Result<Vec<NodeStatusReport>, Error> {
        self.inner.node_status().await
    }

    /// Closes the locker: new calls and waiting ones end with [`Error::Closed`]. Then waits until
    /// every node that answers has confirmed the releases of dropped guards and of locks that those
    /// calls may have been granted meanwhile. Nothing is granted after it has returned. Existing
    /// guards stay valid. Call it before the process exits.
    ///
    /// On a quorum it then advances the admission of unproven nodes by one step: twice the answer
    /// timeout more at most, and nothing if all vote.
    ///
    /// A call whose future is no longer polled delays this by the answer timeout at most.
    ///
    /// # Cancel safety
    /// Cancel safe: the locker stays closed, and the releases go on.
    pub async fn close(&self) {
        self.inner.close().await;
    }

    fn full(&self, name: &str) -> String {
        names::full(name, &self.prefix).map(Cow::into_owned).collect()
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}
