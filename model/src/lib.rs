//! Exhaustive searches of the lock's protocol, over the decision functions that the library runs.
//!
//! What decides here is not a description of the library but the library: every acquisition is a
//! [`Round`](quorumlock_quorum::round::Round), every lease a [`Window`](quorumlock_core::Window)
//! with the ends that [`expiry`](quorumlock_watchdog::expiry) reckons. The models add what the
//! library cannot have: nodes, a network, and every order in which things can happen.
//!
//! - [`token`]: fencing tokens are unique and in real-time order, with no clock at all; where windows
//!   are right, they are in the order of holds.
//! - [`lease`]: at most one client believes that it holds, with exact clocks and lost data.
//! - [`release`]: an unlock whose release is asked again tells the truth.
//! - [`admission`]: what counts after a node has lost its data, in one place.
//! - [`plan`]: all searches, right rules and planted bugs; [`search`] runs one.
//!
//! A search is complete within its bounds: few nodes, few acquisitions, few ticks. It refutes well
//! and supports modestly; the arguments in docs/SAFETY.md carry the general claim.

pub mod admission;
mod kept;
pub mod lease;
pub mod plan;
pub mod release;
pub mod search;
pub mod token;
