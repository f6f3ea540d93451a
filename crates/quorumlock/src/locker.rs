use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::admission::NodeStatusReport;
use crate::election::Election;
use crate::mutex::Mutex;
use crate::rw_lock::RwLock;
use crate::semaphore::Semaphore;
use crate::telemetry::Stats;
use crate::{
    Error, Guard, HeldLock, HeldLocks, HoldView, Holder, LockRequest, Owner, Ticket,
    TryLockRequest, kind,
};

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

    pub(crate) fn new(inner: quorumlock_core::Locker, prefix: &str) -> Self {
        Self { inner, prefix: prefix.into() }
    }
}

/// Locks.
impl Locker {
    /// Waits for the lock `name`. The watchdog renews it until it is released.
    ///
    /// Set options on the request, then await it or [`run`](LockRequest::run) work under it:
    /// [`LockRequest::wait`], [`LockRequest::fail_fast`], [`LockRequest::lease`],
    /// [`LockRequest::hold_at_most`], [`LockRequest::owner`].
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety.
    pub fn lock(&self, name: impl AsRef<str>) -> LockRequest {
        self.inner.lock(self.full(name.as_ref()))
    }

    /// Takes the lock `name` if it is free; `None` if another client holds it.
    ///
    /// When several clients ask a quorum at once and none gets a majority, one of them asks again,
    /// up to five times within an eighth of a second. Only if the votes stay split does it return
    /// `None` for a lock that nobody holds.
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety.
    pub fn try_lock(&self, name: impl AsRef<str>) -> TryLockRequest {
        self.inner.try_lock(self.full(name.as_ref()))
    }

    /// Waits until all of these names are free, and takes them in one step: all or none.
    ///
    /// One guard holds them all, with one token ([`Guard::names`](crate::Guard::names),
    /// [`Guard::token`](crate::Guard::token)). It excludes every lock of one of these names, and every
    /// set that shares a name. While the call waits it holds none of them, so calls whose sets overlap
    /// cannot wait for each other in a ring. The lock is lost as soon as one name is. Up to 32 names;
    /// a name that is given twice counts once. On a Redis Cluster all names need one hash tag.
    ///
    /// The options are those of [`Locker::lock`]. An owner enters again by the same names alone: a lock of
    /// one of them waits for the owner's own set, and [`Locker::is_held_by`] says no.
    ///
    /// ```no_run
    /// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
    /// let guard = locker.lock_all(["account/7", "account/8"]).await?;
    /// assert_eq!(guard.names().count(), 2);
    /// guard.unlock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety. Without a name
    /// [`ConfigError::NoNames`](crate::ConfigError::NoNames), with more than 32
    /// [`ConfigError::TooManyNames`](crate::ConfigError::TooManyNames), on a Redis Cluster
    /// [`ConfigError::NamesInCluster`](crate::ConfigError::NamesInCluster).
    pub fn lock_all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> LockRequest {
        self.inner.lock_all(self.all_full(names))
    }

    /// Takes all of these names in one step if all are free; `None`, and none of them, if another
    /// client holds one. See [`Locker::lock_all`].
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety; [`Locker::lock_all`] for the names.
    pub fn try_lock_all<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> TryLockRequest {
        self.inner.try_lock_all(self.all_full(names))
    }

    /// Waits for one of `permits` permits of `name`: at most so many are held at a time.
    ///
    /// Each permit has a slot, a number from 0 to `permits - 1` that no other valid permit of the name
    /// has ([`Guard::slot`](crate::PermitGuard::slot)): it can be the number of a worker, a shard or a port.
    /// A slot is a lock of its own, so a permit is renewed, lost and fenced as a lock is, on a quorum,
    /// too. A lock and the permits of one name do not exclude each other.
    ///
    /// All clients of a name give the same number, 1 to 256. While they differ, the largest one bounds
    /// how many permits are held. Permits have no owner: two calls of one task take two.
    ///
    /// ```no_run
    /// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
    /// let permit = locker.permit("exports", 5).await?;
    /// println!("worker {} of 5", permit.slot());
    /// permit.unlock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety. For another number of permits
    /// [`ConfigError::BadPermits`](crate::ConfigError::BadPermits).
    pub fn permit(&self, name: impl AsRef<str>, permits: u32) -> LockRequest<kind::Permit> {
        self.inner.permit(self.full(name.as_ref()), permits)
    }

    /// Takes one of `permits` permits of `name` if one is free; `None` if other clients, or other tasks
    /// of this one, hold them all. See [`Locker::permit`].
    ///
    /// `None` is also the answer if several clients take the last permits at once: a call asks for three
    /// slots at most, those that the nodes said are free.
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety; [`Locker::permit`] for the number.
    pub fn try_permit(&self, name: impl AsRef<str>, permits: u32) -> TryLockRequest<kind::Permit> {
        self.inner.try_permit(self.full(name.as_ref()), permits)
    }

    /// Waits until no writer holds the read-write lock `name`, and takes it for reading. Readers do not
    /// exclude each other. A writer that waits keeps new readers out.
    ///
    /// A reader is renewed, can be lost and has a token, as every holder. A resource that checks tokens
    /// refuses a reader whose token is below that of the last write (docs/FENCING.md).
    ///
    /// A name is a lock or a read-write lock, never both: while it is held as one, a request for the other
    /// fails with [`Error::Refused`]. A Redisson read-write lock is another thing.
    ///
    /// An [owner](LockRequest::owner) enters again in the same mode. In the other one it would wait for
    /// itself, which is an error: [`ConfigError::Upgrade`](crate::ConfigError::Upgrade),
    /// [`ConfigError::ReadWhileWriting`](crate::ConfigError::ReadWhileWriting). A writer becomes a reader
    /// by [`Guard::downgrade`](crate::WriteGuard::downgrade).
    ///
    /// ```no_run
    /// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
    /// let reader = locker.read("catalog").await?;
    /// reader.unlock().await?;
    /// let writer = locker.write("catalog").await?;
    /// let reader = writer.downgrade().await?; // no writer comes in between
    /// reader.unlock().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety.
    pub fn read(&self, name: impl AsRef<str>) -> LockRequest<kind::Read> {
        self.inner.read(self.full(name.as_ref()))
    }

    /// Takes the read-write lock `name` for reading; `None` if a writer holds it, or waits for it. See
    /// [`Locker::read`].
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety.
    pub fn try_read(&self, name: impl AsRef<str>) -> TryLockRequest<kind::Read> {
        self.inner.try_read(self.full(name.as_ref()))
    }

    /// Waits until nobody holds the read-write lock `name`, and takes it for writing. See
    /// [`Locker::read`].
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety.
    pub fn write(&self, name: impl AsRef<str>) -> LockRequest<kind::Write> {
        self.inner.write(self.full(name.as_ref()))
    }

    /// Takes the read-write lock `name` for writing if nobody holds it; else `None`. See
    /// [`Locker::read`].
    ///
    /// # Errors
    /// See [`TryLockRequest`], also for cancel safety.
    pub fn try_write(&self, name: impl AsRef<str>) -> TryLockRequest<kind::Write> {
        self.inner.try_write(self.full(name.as_ref()))
    }

    /// A handle of the read-write lock `name`, to keep and to pass around. Does no I/O.
    ///
    /// A bad name is an error of the handle's first call.
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.inner.clone(), &self.full(name.as_ref()))
    }

    /// A handle of the permits of `name`, to keep and to pass around. Does no I/O.
    ///
    /// A bad name or number is an error of the handle's first call.
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self.inner.clone(), &self.full(name.as_ref()), permits)
    }

    /// Takes up a lock that another process, or another locker of this one, left by
    /// [`Guard::into_ticket`](crate::Guard::into_ticket). From then on it is renewed here.
    ///
    /// The locker must lead to the same servers, with the same [`Wire`](crate::Wire). The names are those of
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

    /// A handle to lead, or to see who leads, under `name`. Does no I/O.
    ///
    /// It is the lock `name`: one candidate at a time holds it. A bad name is an error of the handle's
    /// first call.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.inner.clone(), &self.full(name.as_ref()))
    }

    /// A handle of the lock `name`, to keep and to pass around. Does no I/O.
    ///
    /// A bad name is an error of the handle's first call.
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.inner.clone(), &self.full(name.as_ref()))
    }

    /// Waits for the lock, runs `work`, releases the lock: `lock(name).run(work)`. The work is
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
    pub async fn run<T, F, Fut>(&self, name: impl AsRef<str>, work: F) -> Result<T, Error>
    where
        F: FnOnce(HoldView) -> Fut,
        Fut: Future<Output = T>,
    {
        self.lock(name).run(work).await
    }
}

impl Locker {
    pub(crate) fn answer_timeout(&self) -> Duration {
        self.inner.answer_timeout()
    }
}

/// Questions about locks.
impl Locker {
    /// Lists the locks that are held: of each kind, with the names that begin with the locker's prefix, in the
    /// layout of its [`Wire`](crate::Wire). Does no I/O before [`HeldLocks::next`](crate::HeldLocks::next).
    ///
    /// The nodes look through all their keys in small steps (`SCAN`), which takes a while where other programs
    /// keep many. A lock that is taken or released meanwhile may be missing. A name that other libraries hold
    /// is listed if its value has the form that redsync or node-redlock write.
    ///
    /// ```no_run
    /// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
    /// let mut held = locker.list();
    /// while let Some(lock) = held.next().await.transpose()? {
    ///     println!("{} is held by {:?}", lock.name, lock.holder.label);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn list(&self) -> HeldLocks {
        self.inner.list(&self.prefix)
    }

    /// The current holder of `name`, as the nodes report it; `None` if nobody holds it: no majority can.
    ///
    /// # Errors
    /// [`Error::Refused`], also for a key that is not a lock of this locker's wire;
    /// [`Error::Unreachable`], [`Error::Config`], [`Error::Closed`]. Where too few nodes tell whether the name
    /// is held, [`NoMajority::holder`](crate::NoMajority) is the holder that most of them name.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn holder(&self, name: impl AsRef<str>) -> Result<Option<Holder>, Error> {
        self.inner.holder(self.full(name.as_ref())).await
    }

    /// Whether any client holds `name`. The answer may be outdated when it returns: never base
    /// safety on it.
    ///
    /// # Errors
    /// As [`Locker::holder`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn is_locked(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        self.inner.is_locked(self.full(name.as_ref())).await
    }

    /// Whether `owner` holds `name` through this locker, as the nodes report it.
    ///
    /// # Errors
    /// As [`Locker::holder`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn is_held_by(&self, name: impl AsRef<str>, owner: &Owner) -> Result<bool, Error> {
        self.inner.is_held_by(self.full(name.as_ref()), owner).await
    }

    /// Frees `name`, regardless of its holder, and raises its fencing mark. True if the lock was
    /// held.
    ///
    /// The holder hears of the loss by message at once, if its process has held a lock for a second, and
    /// else at its next renewal. Its token is stale as soon as the
    /// resource has seen a larger one.
    ///
    /// It deletes only locks of this locker's wire. [`Wire::Redlock`](crate::Wire::Redlock) does
    /// not mark its keys as locks: there any string with an expiry counts as one.
    ///
    /// # Errors
    /// As [`Locker::holder`]. Also [`Error::Refused`] with
    /// [`NodeProblem::NotALock`](crate::NodeProblem) for a string without an expiry, and with
    /// `BadMark` if the fencing mark cannot be raised.
    ///
    /// # Cancel safety
    /// Once polled, the request may be carried out even if the future is dropped.
    pub async fn force_unlock(&self, name: impl AsRef<str>) -> Result<bool, Error> {
        self.inner.force_unlock(self.full(name.as_ref())).await
    }

    /// Frees a lock that [`Locker::list`] showed, of any kind, if the same holder still holds it, and raises its
    /// fencing mark. True if it did. So the next holder, which may be healthy, loses nothing. See
    /// [`Locker::force_unlock`].
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
    /// On a quorum it then brings nodes whose memory is not proven one step on: twice the answer
    /// timeout more at most, and nothing if all vote.
    ///
    /// A call whose future is no longer polled delays this by the answer timeout at most.
    ///
    /// # Cancel safety
    /// Cancel safe: the locker stays closed, and the releases go on.
    pub async fn close(&self) {
        self.inner.close().await;
    }

    /// The whole name. An empty name stays empty, so that it is refused.
    fn full<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match (&*self.prefix, name) {
            ("", _) | (_, "") => name.into(),
            (prefix, name) => format!("{prefix}{name}").into(),
        }
    }

    fn all_full<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Vec<String> {
        names.into_iter().map(|name| self.full(name.as_ref()).into_owned()).collect()
    }
}

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}
