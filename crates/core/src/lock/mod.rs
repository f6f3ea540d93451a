//! The locker, its requests and its guards: the same for every lessor.

mod acquire_loop;
mod acquisition;
mod environment;
mod guard;
mod held_locks;
mod inbox;
mod inner;
pub mod kind;
mod lease;
mod lease_renewer;
mod local_handoff;
mod local_queue;
mod lock_spec;
mod locker;
mod long_holds;
mod owner_table;
mod queue_ticket;
mod request;
mod resume;
mod slot_choice;
mod spans;
mod telemetry;

pub use environment::Environment;
pub use guard::{Guard, HoldView};
pub use held_locks::{HeldLock, HeldLocks};
pub use locker::Locker;
pub use request::{LockRequest, TryLockRequest};
