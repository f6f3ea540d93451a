//! What users hold: the same for every lessor.

mod acquire;
mod bump;
mod guard;
mod handover;
mod in_queues;
mod lease;
mod locker;
mod looks;
mod owners;
mod quest;
mod search;
mod turns;
mod wake;

pub use acquire::{Lock, TryLock};
pub use guard::{Guard, Watch};
pub use locker::{Locker, World};
