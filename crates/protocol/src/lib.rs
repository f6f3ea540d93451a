//! The rules of the lock as pure functions and types: no I/O, no clock, no runtime.
//!
//! Users add the crate [quorumlock](https://docs.rs/quorumlock) instead, which re-exports what they
//! need. From the bottom up:
//! - [`Instant`], [`Window`]: until when a lease is valid.
//! - [`Node`]: one voter, and the requests of its clients; [`Answer`], [`Denial`], [`NoAnswer`].
//! - [`WaitQueue`]: who is told that a name is free; [`Hints`]: how a node is asked. Advice.
//! - [`round`]: one acquisition on a quorum, as a state machine.
//! - [`waiting`]: one call on its way to the lock, as a state machine.
//! - [`admission`]: which nodes may vote.
//! - [`telemetry`]: what a program hears of its locks.
//! - [`Error`], [`NodeProblem`]: what can go wrong, and who must act.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admission;
pub mod answers;
pub mod bounds;
mod claim;
mod clock_monitor;
mod config_error;
mod credentials;
mod error;
mod free_slots;
mod grant;
mod hints;
mod ids;
mod instant;
mod layout;
mod lease_timing;
mod listing;
mod loss;
mod name;
mod node;
mod pem;
mod problem;
mod proposals;
mod redact;
mod reply;
pub mod round;
mod settings;
pub mod telemetry;
#[cfg(test)]
mod test_clock;
mod ticket;
mod tls_problem;
mod unconfirmed;
mod wait_queue;
pub mod waiting;
mod window;

pub use claim::Claim;
pub use clock_monitor::{ClockAnomaly, ClockMonitor};
pub use config_error::ConfigError;
pub use credentials::{Credentials, CredentialsProvider};
pub use error::{Busy, Error, Lost, NoMajority};
pub use free_slots::{FreeSlots, pick};
pub use grant::{Acquired, Grant, LeaseRequest};
pub use hints::Hints;
pub use ids::{FencingToken, Holder, Incarnation, Nonce, Owner, fnv1a, next_id};
pub use instant::Instant;
pub use layout::{Layout, PROTOCOL};
pub use lease_timing::LeaseTiming;
pub use listing::{ListPosition, ListStep};
pub use loss::LossReason;
pub use name::Name;
pub use node::{
    Acceptance, Answer, BoxFuture, Denial, Lane, MAX_RAISES, NoAnswer, Node, ReleaseOutcome, Vote,
    might_be_granted,
};
pub use pem::Pem;
pub use problem::{Mismatch, NodeProblem, NodeReport, write_groups};
pub use proposals::Proposals;
pub use redact::without_password;
pub use reply::{OnDropped, ReplyFuture, ReplySink, Responder};
pub use settings::Settings;
pub use ticket::Ticket;
pub use tls_problem::TlsProblem;
pub use unconfirmed::{Greeting, HeldInterval, RunIds, Unconfirmed};
pub use wait_queue::{
    EnqueueRequest, HandoffOffer, Notified, Precedence, QueueAction, QueuedAt, RemoteGrant,
    Subscription, WaitEvent, WaitQueue,
};
pub use window::{Window, expiry, quorum_of};
