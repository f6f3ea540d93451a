//! Distributed locks on Redis (and Valkey), on one node or on a quorum of independent nodes.
//!
//! ```no_run
//! # async fn doc() -> Result<(), quorumlock::Error> {
//! use quorumlock::Locker;
//!
//! let locker = Locker::single("redis://127.0.0.1")?; // no I/O yet
//! let guard = locker.lock("invoice/7").await?; // waits; renewed until released
//! println!("send token {} with every write", guard.token());
//! guard.unlock().await?;
//! # Ok(()) }
//! ```
//!
//! For a quorum, only the constructor changes. Admit new servers once with `quorumlock init`;
//! otherwise they vote after the longest lease and twice the clock bound (72 s by default).
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
//! **fencing token** ([`Guard::token`]), on a quorum too: send it with every write.
//!
//! # Where to read on
//! - [GUIDE][]: how to use it, chapter by chapter. [RECIPES][]: whole jobs, from a web service to cron.
//! - [Examples][], each a program.
//! - [FROM_REDISSON][]: what stands for each object of Redisson.
//! - [SAFETY][]: what it promises, and on what that rests. [OPERATIONS][]: servers. [COMMANDS][]: the command.
//!
//! [GUIDE]: https://github.com/quorumlock/quorumlock/blob/main/docs/GUIDE.md
//! [RECIPES]: https://github.com/quorumlock/quorumlock/blob/main/docs/RECIPES.md
//! [Examples]: https://github.com/quorumlock/quorumlock/tree/main/crates/quorumlock/examples
//! [FROM_REDISSON]: https://github.com/quorumlock/quorumlock/blob/main/docs/FROM_REDISSON.md
//! [SAFETY]: https://github.com/quorumlock/quorumlock/blob/main/docs/SAFETY.md
//! [OPERATIONS]: https://github.com/quorumlock/quorumlock/blob/main/docs/OPERATIONS.md
//! [COMMANDS]: https://github.com/quorumlock/quorumlock/blob/main/docs/COMMANDS.md

#![cfg_attr(docsrs, feature(doc_cfg))]

mod build;
mod builder;
mod constructors;
mod election;
mod from_env;
mod locker;
mod mutex;
mod names;
mod rw_lock;
mod secrets;
mod semaphore;
mod servers;

pub mod admission;
#[cfg(feature = "blocking")]
pub mod blocking;
pub mod env;
pub mod fencing;
#[doc(hidden)]
pub mod options;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;

pub use builder::{Admission, Builder, Replicas};
pub use election::{Election, Leadership, Observer};
pub use locker::Locker;
pub use mutex::Mutex;
pub use names::Names;
pub use quorumlock_core::kind;
pub use quorumlock_core::{Guard, HeldLock, HeldLocks, HoldView, LockRequest, TryLockRequest};
pub use quorumlock_protocol::{
    Busy, ConfigError, Credentials, Error, FencingToken, Holder, Incarnation, Layout, LossReason,
    Lost, Mismatch, Name, NoMajority, NodeProblem, NodeReport, Nonce, Owner, Pem, Ticket,
    TlsProblem,
};

pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use servers::Servers;

/// A held permit, which has a [slot](Guard::slot); see [`Semaphore`].
pub type PermitGuard = Guard<kind::Permit>;

/// A read-write lock that is held for reading; see [`RwLock`].
pub type ReadGuard = Guard<kind::Read>;

/// A read-write lock that is held for writing; see [`RwLock`].
pub type WriteGuard = Guard<kind::Write>;

/// The example of this page compiles. Those of the repository's pages are in its package of tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Page;
