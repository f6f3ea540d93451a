//! A linearizability checker that is not ours, stateright's, judges the histories of the lab and of
//! the simulation. It must agree with our judges and invariants, and must find planted bugs.

#![allow(clippy::unwrap_used, reason = "a test may, and so may its helpers")]

mod fleets;
mod lock;
mod operations;
mod runs;
mod scenarios;
