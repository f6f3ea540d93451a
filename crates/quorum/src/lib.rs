//! The distributed lock on a quorum of independent Redis nodes: Redlock, done right.
//!
//! A [`Quorum`] is a [`Lessor`](quorumlock_core::Lessor) made of [`Node`](quorumlock_core::Node)s.
//! What is decided lies in [`round`], pure; everything else only carries it out.

mod answers;
mod ballot;
mod census;
mod gate;
mod quorum;
mod roll;
pub mod round;
mod tend;
mod top_up;

pub use quorum::Quorum;
