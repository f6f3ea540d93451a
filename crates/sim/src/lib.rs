//! Whole fleets under simulated time: the real client code runs over simulated nodes and networks,
//! and one seed decides every fault, delay and choice.
//!
//! Real: locker, guards, waiting, watchdog, quorum rounds, connections, RESP, the Lua scripts.
//! Simulated: byte streams, the server around the scripts, all clocks. The same seed gives the same
//! run, to the last event.
//!
//! Each seed draws a fleet and a swarm of faults ([`Fault`]). Most seeds break no assumption of
//! docs/SAFETY.md, and every [`Invariant`] must hold. One seed in four breaks some assumptions: the
//! invariants that need them may fail. Over all seeds each of these must be seen to fail, because
//! an invariant that never fails checks nothing.
//!
//! Not modelled: threads (all tasks of a client share one), TLS, a master with several addresses,
//! and programs without a queue.
//!
//! The lab runs its scenarios in this world, so all modules are public. Their API has no stability
//! promise.

#![allow(missing_debug_implementations, reason = "the world holds the tasks of its clients")]

#[doc(hidden)]
pub mod arrival;
#[doc(hidden)]
pub mod belief;
#[doc(hidden)]
pub mod believing;
#[doc(hidden)]
pub mod bug;
#[doc(hidden)]
pub mod commands;
#[doc(hidden)]
pub mod conn;
#[doc(hidden)]
pub mod dice;
#[doc(hidden)]
pub mod dispatch;
#[doc(hidden)]
pub mod distance;
#[doc(hidden)]
pub mod event;
#[doc(hidden)]
pub mod exchange;
#[doc(hidden)]
pub mod faults;
pub mod fleet;
#[doc(hidden)]
pub mod follow;
#[doc(hidden)]
pub mod healing;
pub mod invariants;
#[doc(hidden)]
pub mod lease_command;
#[doc(hidden)]
pub mod ledger;
#[doc(hidden)]
pub mod lua;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod mid_round_faults;
#[doc(hidden)]
pub mod mutants;
#[doc(hidden)]
pub mod nemesis;
#[doc(hidden)]
pub mod network;
#[doc(hidden)]
pub mod node;
#[doc(hidden)]
pub mod owed;
#[doc(hidden)]
pub mod pause_gate;
#[doc(hidden)]
pub mod peer;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod request;
#[doc(hidden)]
pub mod resp;
#[doc(hidden)]
pub mod run;
#[doc(hidden)]
pub mod script;
#[doc(hidden)]
pub mod server;
#[doc(hidden)]
pub mod short_lives;
mod sometimes;
#[doc(hidden)]
pub mod start;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod summary;
#[doc(hidden)]
pub mod tap;
#[doc(hidden)]
pub mod time;
#[doc(hidden)]
pub mod trace;
#[doc(hidden)]
pub mod violation;
mod wanted;
#[doc(hidden)]
pub mod wire;
#[doc(hidden)]
pub mod withheld_votes;
#[doc(hidden)]
pub mod work_state;
#[doc(hidden)]
pub mod workload;
#[doc(hidden)]
pub mod world;

pub use dice::Dice;
pub use faults::{Assumption, Fault};

pub use belief::Belief;
pub use bug::Bug;
pub use node::SimNode;
pub use run::{Outcome, run, run_on};
pub use sometimes::{Seen, Sometimes};
pub use summary::{Catch, SeedSummary, fresh_start, hunt, run_all};
pub use violation::{Invariant, Violation};
