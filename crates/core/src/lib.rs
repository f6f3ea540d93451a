//! Locks, guards and waiting, over one node or a quorum.
//!
//! Users add the crate [quorumlock](https://docs.rs/quorumlock) instead, which re-exports what they
//! need. From the bottom up:
//! - [`Lessor`]: grants leases. [`Single`] makes one of one node; the crate `quorumlock-quorum`
//!   makes one of a quorum.
//! - [`Locker`], [`Guard`], [`HoldView`]: the user's handles. The same for every lessor.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
mod attempt;
mod deadline;
mod entropy;
mod lessor;
mod list_step;
mod lock;
mod renewal_problems;
mod single;
mod votes;

pub use admission::Admission;
pub use deadline::answer_deadline;
pub use entropy::Entropy;
pub use lessor::Lessor;
pub use list_step::list_step;
pub use lock::kind;
pub use lock::{
    Environment, Guard, HeldLock, HeldLocks, HoldView, LockRequest, Locker, TryLockRequest,
};
pub use renewal_problems::RenewalProblems;
pub use single::Single;
pub use votes::Votes;
