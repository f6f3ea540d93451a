//! Scenarios on real servers, in a weaker mode and in one that promises more. Where theory expects a
//! violation, the run must show one. What a seed draws is the fault: L21 flushes, or swaps databases;
//! L48 sets a clock ahead, or behind.

use std::time::Duration;

use quorumlock_lab::mode::Mode;
use quorumlock_lab::runner::{Driver, TrialError};
use quorumlock_testbed::skip;

use super::drivers::{carry_out, trial};

/// One test for each mode of each scenario; each with seed 1, unless it names another.
macro_rules! scenarios {
    ($($name:ident: $id:literal $(with seed $seed:literal)? in $($mode:ident)+;)+) => {
        $(mod $name {
            const SEED: u64 = [$($seed,)? 1][0];

            $(#[tokio::test(flavor = "multi_thread")]
            #[allow(non_snake_case, reason = "the mode's letters")]
            async fn $mode() {
                super::is_as_expected($id, super::Mode::$mode, SEED).await;
            })+
        })+
    };
}

scenarios! {
    // A negative control on one server.
    f1_who_comes_first: "F1" in S R Q5 QQ;
    f1s_who_comes_first_in_strict_order: "F1S" in S R W;
    // SAFETY.md H9
    l10_a_node_restarts_empty: "L10" in S S1 Q5 QQ;
    // SAFETY.md H10
    l12_a_power_loss_takes_the_end_of_a_file: "L12" in Q5 QQ;
    l14_a_majority_restarts_empty: "L14" in S1 Q5 QQ;
    l15_a_rolling_restart: "L15" in Q5 QQ;
    // SAFETY.md H11, H12
    l16_a_replica_that_lags_is_promoted: "L16" in R W RR WW RS WS RC WC;
    l17_another_replica_is_promoted: "L17" in RR WW RS WS RC WC;
    l18_a_replica_with_the_old_expiry_is_promoted: "L18" in R W RR WW RS WS RC WC;
    l19_two_masters: "L19" in R W RR WW RS WS RC WC;
    l20_a_replica_takes_a_nodes_address: "L20" in Q5 QQ;
    // SAFETY.md H13
    l21_the_data_of_a_living_node_is_gone: "L21" in Q5 QQ;
    l21_the_databases_of_a_living_node_are_exchanged: "L21" with seed 2 in Q5 QQ;
    l28_a_client_is_cut_off: "L28" in Q5 QQ;
    // PROTOCOL.md W7, W8
    l29_clients_have_two_home_nodes: "L29" in Q5 QQ;
    l30_a_client_dies_with_the_home_node: "L30" in Q5 QQ;
    // SAFETY.md G7, H16, H17
    l31_a_gray_node_carries_out_late_requests: "L31" in Q5 QQ;
    // A negative control, with a broken lock.
    l31_a_late_release_by_owner_frees_another_hold: "L31O" in Q5;
    // SAFETY.md H14, H15
    l33_the_locks_key_is_evicted: "L33" in Q5 QQ;
    l34_memory_is_full: "L34" in Q5 QQ;
    // SAFETY.md A4, H19; PROTOCOL.md MEM2
    l44_a_client_has_another_list: "L44" in Q5 QQ;
    l45_a_client_has_another_database: "L45" in Q5 QQ;
    // PROTOCOL.md MEM6
    l46_servers_are_exchanged: "L46" in QQ;
    // A negative control; PROTOCOL.md MEM1, MEM2
    l46s_a_server_is_exchanged_in_one_step: "L46S" in Q5 QQ;
    // PROTOCOL.md ADM2, MEM3 to MEM5
    l47_the_power_fails_under_short_lived_processes: "L47" in Q5 QQ;
    l47r_servers_restart_under_short_lived_processes: "L47R" in QQ;
    // PROTOCOL.md MEM3
    l48_a_node_boots_an_hour_behind: "L48" in Q5 QQ;
    l48_a_node_boots_an_hour_ahead: "L48" with seed 2 in Q5 QQ;
    // SAFETY.md G3, A7; PROTOCOL.md MARK1, MEM5
    // PROTOCOL.md ADM7
    l50_a_master_is_a_replica_meanwhile: "L50" in R RR;
    l49_a_majority_loses_its_marks: "L49" in S Q5 QQ;
    n1_rings_of_sets: "N1" in S R Q5 QQ;
    // A negative control.
    n1c_names_one_by_one: "N1C" in S Q5;
    p1_two_permits: "P1" in S Q5 QQ;
    // A negative control; one server counts right.
    p1c_permits_that_each_node_counts: "P1C" in S Q5;
    p2_a_node_restarts_empty_under_a_slot: "P2" in S Q5 QQ;
    rw1_readers_and_writers: "RW1" in S R Q5 QQ;
    rw2_a_node_restarts_empty_under_a_reader: "RW2" in S Q5 QQ;
    rw3_a_writer_among_readers: "RW3" in S Q5 QQ;
    // SAFETY.md A8
    rw4_a_reader_pauses: "RW4" in S QQ QF;
    rw4w_a_writer_pauses: "RW4W" in S QQ QF;
    // A negative control.
    rw3c_readers_go_first: "RW3C" in S;
}

/// A run takes seconds.
const MAX_RUN: Duration = Duration::from_secs(120);

/// Carries the scenario out; skipped if there is no server program.
async fn is_as_expected(id: &str, mode: Mode, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let trial = trial(id, mode, seed);
    let run = carry_out(&trial, Driver::Process, dir.path());
    match tokio::time::timeout(MAX_RUN, run).await.expect("it ends") {
        Err(TrialError::NoServer(why)) => skip("QUORUMLOCK_REQUIRE_SERVER", &why.to_string()),
        Err(TrialError::Missing(why)) => skip("QUORUMLOCK_REQUIRE_FAKETIME", &why),
        run => {
            let run = run.expect("carried out");
            assert!(run.as_expected, "{}: {run:#?}", run.why.as_deref().unwrap_or_default());
        }
    }
}
