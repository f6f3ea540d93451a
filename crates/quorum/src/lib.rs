//! Distributed locks on a quorum of independent Redis nodes, by the Redlock algorithm with
//! admission and fencing tokens.
//!
//! A [`Quorum`] is a [`Lessor`](quorumlock_core::Lessor) made of
//! [`Node`](quorumlock_protocol::Node)s. The decisions are made in [`quorumlock_protocol::round`],
//! which is pure; this crate carries them out.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod admission_calls;
mod admission_task;
mod drained;
mod gather;
mod home;
mod lease_table;
mod member_change;
mod member_pass;
mod proven;
mod quorum;
mod top_up;

pub use member_change::{ChangeProgress, MemberChange};
pub use proven::proven;
pub use quorum::Quorum;
