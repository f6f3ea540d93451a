//! The connection machine: requests and bytes in, bytes and answers out.
//!
//! It does no I/O, reads no clock, draws no random number and starts no task: `now` is an argument,
//! a timer is a deadline that [`Session::step`] returns. The same calls with the same bytes always
//! give the same bytes and answers. Two halves, so that callers never wait for an answer to be
//! decoded:
//! - [`Requests`] is shared by the callers. It outlives its connections.
//! - [`Session`] is one connection. Its driver owns it.

#[cfg(any(test, fuzzing))]
pub(crate) mod exercise;
#[cfg(any(test, fuzzing))]
mod harness;
mod in_flight;
mod read_buffer;
mod redial;
mod redirects;
mod replica_acks;
mod requests;
mod send_queue;
mod session;
mod setup_look;
#[cfg(test)]
mod tests;
mod txn_acquire;

pub(crate) use in_flight::STALL_TIMES;
pub(crate) use redial::{Pause, Redial};
pub(crate) use replica_acks::AckPolicy;
pub(crate) use requests::{ConnectionRules, Posted, Requests};
pub(crate) use session::{Disconnect, How, Session, Step};
