//! The distributed lock on a single Redis node, and the seam on which the quorum is built.
//!
//! Users add the crate [quorumlock](https://docs.rs/quorumlock) instead, which re-exports what they
//! need. From the bottom up:
//! - [`Node`]: one voter; [`RedisNode`] is a real server.
//! - [`Lessor`]: whoever grants leases; [`Single`] makes one of one node.
//! - [`Locker`], [`Guard`], [`Watch`]: what users hold. The same for every lessor.

pub mod admission;
mod attempt;
mod chance;
mod error;
mod ids;
mod lessor;
mod lock;
mod name;
mod node;
mod patience;
mod problem;
mod proposals;
mod reply;
mod runtime;
mod settings;
mod single;
mod unconfirmed;
mod wire;

pub use attempt::{MOST_RAISES, might_be_granted};
pub use chance::Chance;
pub use error::{Busy, ConfigError, Error, Lost, NoMajority};
pub use ids::{Fence, Holder, Nonce, Owner, Stamp, fingerprint};
pub use lessor::{
    Acceptance, Acquired, Answer, Approach, Asked, Denial, Freed, Grant, Handed, InLine, Lane,
    Lessor, Listening, MOST_PER_CALL, News, Node, Offer, Proposal, Silence, Spot, Term, Vote, Woke,
};
pub use lock::{Guard, Lock, Locker, TryLock, Watch, World};
pub use name::Name;
pub use node::{RedisNode, redis_master, redis_nodes};
pub use patience::answer_within;
pub use problem::{Mismatch, NodeProblem, NodeReport, TlsProblem};
pub use proposals::Proposals;
pub use quorumlock_watchdog::{Clock, Instant, Loss, Renewal, Window, quorum_of};
pub use reply::{Collect, MaybeMissing, ReplyTo, Slot};
pub use settings::{ClientCertificate, Settings};
pub use single::Single;
pub use unconfirmed::{Greeting, Held, Lives, Unconfirmed};
pub use wire::Wire;
