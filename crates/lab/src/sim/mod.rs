//! Whole fleets under simulated time: the real client code over simulated nodes and networks, with
//! every fault, delay and choice decided by one seed.
//!
//! What is real: locker, guards, waiting, watchdog, quorum rounds. What is simulated: the nodes (a
//! model of the Lua, held against the real one by a test), the connections, all clocks. Same seed,
//! same run, to the last event.
//!
//! Each seed draws a fleet and a swarm of faults ([`Fault`]). Most seeds break no assumption of
//! docs/SAFETY.md: every [`Invariant`] must hold. One in four breaks some: what needs them may
//! fall, and over all seeds it must be seen to fall, or the lab is blind.
//!
//! Not modelled: a client's timers go on while it is stopped (what they set off waits until it goes
//! on), threads (all tasks of a client share one), bytes (TLS, RESP, half-written requests), and
//! programs that know of no queue: nobody listens on the channels of names.

mod ambush;
mod arrive;
mod ask;
mod calm;
mod dial;
mod distance;
mod faults;
pub mod invariants;
mod ledger;
mod link;
mod memory;
mod mutants;
mod nemesis;
mod node;
mod note;
mod page;
mod plain;
mod plan;
mod process;
mod queue;
mod release;
mod run;
mod server;
mod sometimes;
pub(crate) mod stage;
mod store;
mod tally;
mod time;
mod trace;
mod work;
mod world;

pub use faults::{Assumption, Fault};
pub use invariants::{Invariant, Violation};
pub use mutants::Bug;
pub use node::SimNode;
pub use run::{Outcome, nodes, run};
pub use sometimes::{Seen, Sometimes};
pub use tally::{Catch, Tally, fresh_start, hunt, run_all};
