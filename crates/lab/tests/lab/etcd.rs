//! The mode E: the library's lockers on a cluster of etcd, under the same faults and judges. Skipped
//! without etcd.

use std::time::Duration;

use quorumlock_lab::mode::Mode;
use quorumlock_lab::runner::{Driver, TrialError};
use quorumlock_testbed::servers::EtcdProgram;
use quorumlock_testbed::skip;

use super::drivers::{carry_out, trial};

#[tokio::test(flavor = "multi_thread")]
async fn l02_a_holder_is_killed() {
    is_as_expected("L02").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l04_a_holder_pauses_before_its_write() {
    is_as_expected("L04").await;
}

/// A member that has lost its data is refused by the others, and its cluster goes on.
#[tokio::test(flavor = "multi_thread")]
async fn l10_a_member_restarts_empty() {
    is_as_expected("L10").await;
}

/// Of a cluster whose members have all lost their data nobody gets a lock.
#[tokio::test(flavor = "multi_thread")]
async fn l15_all_members_restart_empty() {
    is_as_expected("L15").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l31_a_member_carries_out_late_requests() {
    is_as_expected("L31").await;
}

/// A run takes seconds.
const MAX_RUN: Duration = Duration::from_secs(120);

async fn is_as_expected(id: &str) {
    let trial = trial(id, Mode::E, 1);
    if let Err(none) = EtcdProgram::discover() {
        return skip("QUORUMLOCK_REQUIRE_ETCD", &none.to_string());
    }
    let dir = tempfile::tempdir().unwrap();
    let run = carry_out(&trial, Driver::Process, dir.path());
    match tokio::time::timeout(MAX_RUN, run).await.expect("it ends") {
        Err(TrialError::Missing(why)) => panic!("{why}"),
        run => {
            let run = run.expect("carried out");
            assert!(run.as_expected, "{run:#?}");
        }
    }
}
