use std::ops::Deref;

use crate::{Builder, Error};

/// Takes locks, on one node or on a quorum: see the methods of [`quorumlock_core::Locker`], to
/// which this dereferences.
///
/// Cheap to clone; clones share connections and the watchdog's thread. May live in a `static`.
#[derive(Clone, Debug)]
pub struct Locker(quorumlock_core::Locker);

impl Locker {
    /// Locks on the single server at `url`, in Redisson's format. No I/O yet.
    ///
    /// At most one guard is valid at a time while that server keeps its data and its clock; a
    /// failover to a replica may break that. Use [`Locker::quorum`], or check the fencing token.
    /// A replica takes no locks, and says so; [`Locker::replicated`] finds its master.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL.
    pub fn single(url: impl AsRef<str>) -> Result<Self, Error> {
        Self::builder().single(url)
    }

    /// Locks on whichever of the servers at `urls` is the master of the others, in Redisson's format.
    /// No I/O yet.
    ///
    /// All are asked for their role, whenever there is no connection to a master: at first, after a
    /// connection broke, when a master has become a replica (`READONLY`), and when too few replicas
    /// acknowledge ([`Builder::replicas`]). Requests wait for one such search. If several say that
    /// they are the master, one that another was promoted over is passed by (`master_replid2`);
    /// of those left the one that was the master before is taken, else the first in the list; and
    /// there is a warning (`tracing`). Nobody is promoted: that is for Sentinel, an orchestrator or
    /// a person.
    ///
    /// **Best effort.** Replication is asynchronous: after a failover two guards of one lock may be
    /// valid at once, and a token may be given twice, with [`Builder::replicas`] too
    /// (docs/SAFETY.md, Replicated master). Use [`Locker::quorum`] where that must not happen.
    ///
    /// ```no_run
    /// # fn doc() -> Result<(), quorumlock::Error> {
    /// # use quorumlock::Locker;
    /// let locker = Locker::builder().replicas(1).replicated(["redis://a", "redis://b"])?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, or one address listed twice.
    pub fn replicated<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, Error> {
        Self::builder().replicated(urls)
    }

    /// Locks on a majority of the independent servers at `urls`, in the Redlock format. No I/O yet.
    ///
    /// Give all clients the same list; 3 or 5 servers that fail independently, without replicas.
    /// New servers vote once somebody has vouched for them (`quorumlock init`, or
    /// [`provision`](quorumlock_core::Locker::provision)), or once a locker has watched them
    /// for the longest lease: see [`Admission`](crate::Admission).
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, or one server listed twice.
    pub fn quorum<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, Error> {
        Self::builder().quorum(urls)
    }

    /// For everything that is not as usual.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(inner: quorumlock_core::Locker) -> Self {
        Self(inner)
    }
}

impl Deref for Locker {
    type Target = quorumlock_core::Locker;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
