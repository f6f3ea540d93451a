//! As the program `linearizable`, on real servers: this one waits where that one computes, and beside it
//! a violation that must be seen would be missed.

#![allow(clippy::unwrap_used, reason = "a test may, and so may its helpers")]

#[path = "linearizable/lock.rs"]
mod lock;
#[path = "linearizable/operations.rs"]
mod operations;
#[path = "linearizable/runs.rs"]
mod runs;

use quorumlock_lab::mode::Mode;
use quorumlock_lab::runner::{Driver, Trial, TrialError};
use quorumlock_lab::scenario::find;
use quorumlock_testbed::skip;

use self::operations::Verdict;
use self::runs::{agree, carry_out};

/// A scenario on real servers.
async fn on_servers(id: &str, mode: Mode) -> Option<Verdict> {
    let dir = tempfile::tempdir().unwrap();
    let scenario = find(id).unwrap();
    let trial = Trial { quick: true, ..Trial::new(scenario, mode, 1) };
    match carry_out(&trial, Driver::Process, dir.path()).await {
        Err(TrialError::NoServer(why)) => {
            skip("QUORUMLOCK_REQUIRE_SERVER", &why.to_string());
            None
        }
        run => {
            let run = run.unwrap();
            assert!(run.as_expected, "{run:#?}");
            Some(agree(&run, dir.path()))
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_finds_where_exclusion_falls() {
    // A broken lock, a node that forgets, permits that each node counts.
    for (id, mode) in [("L31O", Mode::Q5), ("L10", Mode::Q5), ("P1C", Mode::Q5)] {
        let Some(found) = on_servers(id, mode).await else { return };
        assert!(!found.excludes, "{id}");
    }
    for (id, mode) in [("L10", Mode::QQ), ("P1", Mode::QQ), ("RW1", Mode::S), ("N1", Mode::S)] {
        let Some(found) = on_servers(id, mode).await else { return };
        assert!(found.excludes && found.fences, "{id}: {found:?}");
    }
}
