//! Distributed locks on Redis (and Valkey), on one node or on a quorum of independent nodes.
//!
//! ```no_run
//! # async fn doc() -> Result<(), quorumlock::Error> {
//! use quorumlock::Locker;
//!
//! let locker = Locker::single("redis://127.0.0.1")?; // no I/O yet
//! let guard = locker.lock("invoice/7").await?; // waits; renewed until released
//! println!("send token {} with every write", guard.fence());
//! guard.unlock().await?;
//! # Ok(()) }
//! ```
//!
//! For a quorum, only the constructor changes. Admit new servers once with `quorumlock init`;
//! otherwise they vote after the longest lease and twice the clock bound (70 s by default).
//!
//! ```no_run
//! # fn doc() -> Result<(), quorumlock::Error> {
//! # use quorumlock::Locker;
//! let locker = Locker::quorum(["redis://a", "redis://b", "redis://c"])?;
//! # Ok(()) }
//! ```
//!
//! It needs a tokio runtime with I/O and time enabled; `quorumlock::blocking` needs none.
//!
//! A lock here is a **lease**: it is granted until an instant on our own clock, and a watchdog
//! renews it. It can be lost, which is a normal outcome with its own signal ([`Guard::lost`],
//! [`Guard::run`]). A lease alone cannot protect data from a paused holder, so every lock carries a
//! **fencing token** ([`Guard::fence`]), on a quorum too: send it with every write.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod build_locker;
mod builder;
mod constructors;
mod election;
mod from_env;
mod locker;
mod mutex;
mod rw_lock;
mod semaphore;

pub mod admission;
#[cfg(feature = "blocking")]
pub mod blocking;
pub mod env;
pub mod fencing;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;

pub use builder::{Admission, Builder};
pub use election::{Election, Leadership, Observer};
pub use locker::Locker;
pub use mutex::Mutex;
pub use quorumlock_core::kind;
pub use quorumlock_core::{Guard, LockRequest, TryLockRequest, Watch};
pub use quorumlock_protocol::{
    Busy, ConfigError, Credentials, Error, Fence, Holder, Incarnation, LossReason, Lost, Mismatch,
    Name, NoMajority, NodeProblem, NodeReport, Nonce, Owner, Ticket, TlsProblem, Wire,
};

pub use rw_lock::RwLock;
pub use semaphore::Semaphore;

/// A held permit, which has a [slot](Guard::slot); see [`Locker::permit`].
pub type Permit = Guard<kind::Permit>;

/// A read-write lock that is held for reading; see [`Locker::read`].
pub type ReadGuard = Guard<kind::Read>;

/// A read-write lock that is held for writing; see [`Locker::write`].
pub type WriteGuard = Guard<kind::Write>;

/// The example of this page compiles. Those of the repository's pages are in its package of tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Page;
