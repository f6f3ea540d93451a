//! When each lease is renewed, and when it is lost.
//!
//! The watchdog of [quorumlock](https://docs.rs/quorumlock). It does not know Redis: it renews
//! anything that implements [`WatchedLease`], through a [`Renewer`].
//!
//! Three parts, from the bottom up:
//! - [`clock`]: a clock that counts the time in which the machine slept, as a value.
//! - [`LeaseState`]: whether one lease is valid. Loss is final and can be awaited.
//! - [`schedule`]: pure: which lease is due at what instant; [`Watchdog`] is the thread that acts.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod clock;
mod lease_state;
#[cfg(any(target_os = "linux", target_os = "android", test))]
mod missed_time;
mod process;
pub mod runtime;
pub mod schedule;
mod watchdog;

pub use clock::Clock;
pub use lease_state::LeaseState;
pub use process::Process;
pub use schedule::WatchedLease;
pub use watchdog::{Renewal, Renewer, Watchdog};
