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
//! For a quorum only one line differs:
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
//! A lock here is a **lease**: granted until an instant on our own clock, renewed by a watchdog,
//! and it can be lost, which is a normal outcome with its own signal ([`Guard::lost`],
//! [`Guard::run`]). A lease alone cannot protect data from a paused holder, so every lock carries a
//! **fencing token** ([`Guard::fence`]), on a quorum too: send it with every write.

mod builder;
mod locker;

#[cfg(feature = "blocking")]
pub mod blocking;
pub mod fencing;

pub use builder::{Admission, Builder};
/// Which nodes may vote: [`Locker::examine`](quorumlock_core::Locker::examine).
pub mod admission {
    pub use quorumlock_core::admission::{Examined, Standing};
}
pub use locker::Locker;
pub use quorumlock_core::{
    Busy, ConfigError, Error, Fence, Guard, Holder, Lock, Loss, Lost, Mismatch, NoMajority,
    NodeProblem, NodeReport, Nonce, Owner, TlsProblem, TryLock, Watch, Wire,
};
