//! Faults of real nodes that the lab does not stage, and what clients are told. The lab's scenarios
//! (crates/lab/tests/lab/scenarios.rs) stage the others.

mod full_memory;
mod partitions;
mod restarts;
mod resynchronisation;
mod setup;
