//! The locker, its requests and its guards: the same for every lessor.

mod acquire_loop;
mod acquisition;
mod guard;
mod inbox;
mod lease;
mod local_handoff;
mod local_queue;
mod locker;
mod owner_table;
mod queue_ticket;
mod request;

pub use guard::{Guard, Watch};
pub use locker::{Environment, Locker};
pub use request::{LockRequest, TryLockRequest};
