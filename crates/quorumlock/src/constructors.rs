//! The constructors of [`Locker`], each by a [`Builder`]. A builder makes lockers, so a locker knows
//! no builder.

use crate::{Admission, Builder, Error, Locker};

/// Constructors.
impl Locker {
    /// Locks on the single server at `url`, in Redisson's format. Does no I/O. A URL of sentinels
    /// (`redis-sentinel://`) makes a locker as [`Locker::sentinel`] does.
    ///
    /// At most one guard is valid at a time while that server keeps its data and its clock; a
    /// failover to a replica may break that. Use [`Locker::quorum`], or check the fencing token. A
    /// replica grants no locks, and the error says so; [`Locker::replicated`] finds the master.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL.
    pub fn single(url: impl AsRef<str>) -> Result<Self, Error> {
        Self::builder().single(url)
    }

    /// As [`Locker::single`], on a server that must prove its memory: after a restart, a flush or the
    /// promotion of another server behind its address it grants no lock for the longest lease and twice
    /// the clock bound, so that no lock has two holders. Does no I/O.
    ///
    /// A new server votes once it is admitted (`quorumlock init`, or
    /// [`admit_nodes`](Locker::admit_nodes)), or after the same time: see
    /// [`Admission::Strict`](crate::Admission::Strict). [`Builder::max_lease`] bounds the time without
    /// locks after a restart: 10 to 15 s is a good value. All clients of the server's locks must prove it:
    /// those of [`Locker::single`] and of other libraries do not see that it has lost its memory.
    ///
    /// A master with replicas is proven by [`Builder::admission`] and [`Builder::replicated`] or
    /// [`Builder::sentinel`].
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL.
    pub fn proven(url: impl AsRef<str>) -> Result<Self, Error> {
        Self::builder().admission(Admission::Strict).single(url)
    }

    /// Locks on the master among the servers at `urls`, in Redisson's format. Does no I/O.
    ///
    /// The locker asks all servers for their role while it has no connection to a master: at first,
    /// after a connection broke, when a master has become a replica (`READONLY`), and when too few
    /// replicas acknowledge ([`Builder::replicas`]). All waiting requests share one such search. If
    /// several servers say that they are the master, the locker passes by a server that another one
    /// was promoted over (`master_replid2`). Of the servers left it takes the previous master, else
    /// the first in the list, and logs a warning (`tracing`). The locker promotes no server: that
    /// is the task of Sentinel, an orchestrator or an operator.
    ///
    /// **Best effort.** Replication is asynchronous: after a failover two guards of one lock may be
    /// valid at once, and a token may be issued twice, with [`Builder::replicas`] too
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

    /// Locks on the master that the sentinels at `urls` monitor under the name `master`, in Redisson's
    /// format. Does no I/O.
    ///
    /// The sentinels tell where the master and its replicas are; the locker asks all of them, and then
    /// does what [`Locker::replicated`] does with these addresses. It believes the role of a server
    /// from that server alone. When a sentinel tells of a failover (`+switch-master`), the locker looks
    /// for the new master at once, so that it leaves an old one that it still reaches. The port of a
    /// sentinel is 26379 unless its URL has another one.
    ///
    /// A URL of a sentinel has the sentinel's own user, password and TLS. Those of the servers are in
    /// `master`, which is the name, or a URL with the name in place of the host:
    ///
    /// ```no_run
    /// # fn doc() -> Result<(), quorumlock::Error> {
    /// # use quorumlock::Locker;
    /// let sentinels = ["redis://s1", "redis://s2", "redis://s3"];
    /// let locker = Locker::sentinel(sentinels, "mymaster")?;
    /// let locker = Locker::sentinel(sentinels, "rediss://app:secret@mymaster/2")?;
    /// // The same as one URL, which `from_env` takes, too:
    /// let locker = Locker::single("redis-sentinel://s1,s2,s3/mymaster")?;
    /// # Ok(()) }
    /// ```
    ///
    /// **Best effort**, as [`Locker::replicated`].
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, one sentinel listed twice, or a bad name.
    pub fn sentinel<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
        master: impl AsRef<str>,
    ) -> Result<Self, Error> {
        Self::builder().sentinel(urls, master)
    }

    /// Locks on the Redis Cluster of which the servers at `urls` are members, in Redisson's format. Does
    /// no I/O. One member that answers is enough to begin: the members tell which of them serves which
    /// names.
    ///
    /// The master that serves the slot of a name has the vote on it, as a single server has. The locker
    /// follows slots that move (`MOVED`, `ASK`) and masters that fail over. While the slot of a free name
    /// is on its way to another member, the members grant the name to nobody (`TRYAGAIN`), and a caller
    /// waits; a lock that is held goes on. A name with a brace needs a hash tag, as `{user}:x`
    /// ([`ConfigError::NameInCluster`](crate::ConfigError::NameInCluster)).
    ///
    /// **Best effort**, as [`Locker::replicated`], for each master with its replicas.
    ///
    /// ```no_run
    /// # fn doc() -> Result<(), quorumlock::Error> {
    /// # use quorumlock::Locker;
    /// let locker = Locker::cluster(["redis://a:7000", "redis://b:7000"])?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, one address listed twice, or a database number.
    pub fn cluster<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, Error> {
        Self::builder().cluster(urls)
    }

    /// Locks on a majority of the independent servers at `urls`, in the Redlock format. Does no
    /// I/O.
    ///
    /// Give all clients the same list of 3 or 5 servers that fail independently and have no
    /// replicas. A new server votes once it is admitted (`quorumlock init`, or
    /// [`admit_nodes`](Locker::admit_nodes)), or after the longest lease and twice the clock bound:
    /// see [`Admission`](crate::Admission).
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, or one server listed twice.
    pub fn quorum<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, Error> {
        Self::builder().quorum(urls)
    }

    /// A builder, for settings other than the defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }
}
