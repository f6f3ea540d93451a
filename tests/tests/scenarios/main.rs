//! Faults of real nodes: what each client is told, and what the fault costs. Whether two clients hold
//! is judged by the lab's scenarios (crates/lab/tests/lab/scenarios.rs).

mod full_memory;
mod partitions;
mod restarts;
mod resynchronisation;
mod setup;
