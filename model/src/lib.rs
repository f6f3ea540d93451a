//! Exhaustive searches of the lock's protocol, over the decision functions that the library runs.
//!
//! The decisions are the library's own code, not a description of it: every acquisition is a
//! [`Round`](quorumlock_protocol::round::Round), every lease a
//! [`Window`](quorumlock_protocol::Window) with the ends that
//! [`expiry`](quorumlock_protocol::expiry) computes. The models add what is outside the library:
//! nodes, a network, and every order of events.
//!
//! - [`token`]: fencing tokens are unique and in real-time order, without any clock; where windows
//!   are right, tokens are in the order of holds.
//! - [`lease`]: at most one client believes that it holds the lock, with exact clocks and lost
//!   data.
//! - [`claim`]: what an acquisition asks for in [`token`] and [`lease`]: names, slots, shared or not.
//! - [`rings`]: sets of names that are taken one by one.
//! - [`release`]: an unlock that repeats its release reports the truth.
//! - [`admission`]: which answers of a node count after it has lost its data.
//! - [`handshake`]: the scripts of an incarnation vote on no other memory.
//! - [`handoff`]: a name that is handed off to a waiter which polls.
//! - [`promotion`]: leases across the promotion of a replica.
//! - [`members`]: who belongs to a cluster, how servers come back, how the list changes.
//! - [`memory`]: a memory that goes back within one run of a server.
//! - [`plan`]: all searches, right rules and planted bugs; [`search`] runs one.
//!
//! A search is complete within its bounds: few nodes, few acquisitions, few ticks. It can refute a
//! rule, but it gives only modest support for the general claim, which the arguments in
//! docs/SAFETY.md carry.

pub mod admission;
mod case;
pub mod claim;
mod debug_hashed;
pub mod handoff;
pub mod handshake;
pub mod lease;
pub mod members;
pub mod memory;
pub mod plan;
pub mod promotion;
pub mod release;
pub mod rings;
pub mod search;
pub mod token;
