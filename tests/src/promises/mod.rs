//! What docs/SAFETY.md promises: each promise is one function of a [`Bed`](crate::Bed).
//!
//! Leases are long where only an event may explain that something happens sooner, and short where
//! their end is waited for. Bounds are safety bounds, or as generous as [`PATIENCE`](crate::PATIENCE).

use std::time::Duration;

pub mod blocking;
pub mod bump;
pub mod cancel;
pub mod exclusion;
pub mod fencing;
pub mod handover;
pub mod keeping;
pub mod loss;
pub mod reentry;
pub mod release;
pub mod runtimes;
pub mod waiting;

/// Nothing that is tested takes so long: a lease that explains nothing.
const LONG: Duration = Duration::from_secs(60);

/// A lease whose end, or whose renewal, is waited for.
const SHORT: Duration = Duration::from_millis(900);

const NAME: &str = "invoice/7";
