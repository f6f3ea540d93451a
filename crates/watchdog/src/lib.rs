//! Which lease is renewed when, and when it is lost.
//!
//! The watchdog of [quorumlock](https://docs.rs/quorumlock). It knows no Redis: what is renewed is
//! anything that implements [`Leased`], and whoever renews it implements [`Renewer`].
//!
//! Three parts, from the bottom up:
//! - [`clock`]: a clock that counts the time in which the machine slept, as a value.
//! - [`Standing`]: does one lease still stand? Loss is final and can be awaited.
//! - [`schedule`]: pure: which lease is due at what instant; [`Keeper`] is the thread that acts.

pub mod clock;
mod keeper;
pub mod schedule;
#[cfg(any(target_os = "linux", target_os = "android", test))]
mod skips;
mod standing;
mod window;

pub use clock::{Clock, Instant};
pub use keeper::{Keeper, Leased, Renewal, Renewer};
pub use standing::{Loss, Standing};
pub use window::{Window, expiry, quorum_of};
