//! Whole fleets under simulated time: the real client code runs over simulated nodes and networks,
//! and one seed decides every fault, delay and choice.
//!
//! Real: locker, guards, waiting, watchdog, quorum rounds. Simulated: the nodes (a model of the
//! Lua, which a test compares with a real server), the connections, all clocks. The same seed gives
//! the same run, to the last event.
//!
//! Each seed draws a fleet and a swarm of faults ([`Fault`]). Most seeds break no assumption of
//! docs/SAFETY.md, and every [`Invariant`] must hold. One seed in four breaks some assumptions: the
//! invariants that need them may fail. Over all seeds each of these must be seen to fail, because
//! an invariant that never fails checks nothing.
//!
//! Not modelled: the stop of a client's timers while the client is stopped (they fire, and their
//! effects wait until the client resumes), threads (all tasks of a client share one), bytes (TLS,
//! RESP, half-written requests), and programs without a queue: nobody subscribes to the channels of
//! names.
//!
//! The lab runs its scenarios in this world, so all modules are public. Their API has no stability
//! promise.

#![allow(missing_debug_implementations, reason = "the world holds the tasks of its clients")]

#[doc(hidden)]
pub mod admission_records;
#[doc(hidden)]
pub mod arrive;
#[doc(hidden)]
pub mod bug;
#[doc(hidden)]
pub mod dial;
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
#[doc(hidden)]
pub mod healing;
pub mod invariants;
#[doc(hidden)]
pub mod ledger;
#[doc(hidden)]
pub mod link;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod mid_round_faults;
#[doc(hidden)]
pub mod mutants;
#[doc(hidden)]
pub mod nemesis;
#[doc(hidden)]
pub mod node;
#[doc(hidden)]
pub mod note;
#[doc(hidden)]
pub mod pause_gate;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod queue;
#[doc(hidden)]
pub mod release;
#[doc(hidden)]
pub mod request;
#[doc(hidden)]
pub mod run;
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
pub mod time;
#[doc(hidden)]
pub mod trace;
#[doc(hidden)]
pub mod txn_acquire;
#[doc(hidden)]
pub mod violation;
#[doc(hidden)]
pub mod wait_queues;
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

pub use bug::Bug;
pub use node::SimNode;
pub use run::{Outcome, nodes, run};
pub use sometimes::{Seen, Sometimes};
pub use summary::{Catch, SeedSummary, fresh_start, hunt, run_all};
pub use violation::{Invariant, Violation};
