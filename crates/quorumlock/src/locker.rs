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
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL.
    pub fn single(url: impl AsRef<str>) -> Result<Self, Error> {
        Self::builder().single(url)
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
