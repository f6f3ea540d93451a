//! Every promise on every topology, with both layouts. The promises are in `src/promises/`.
//!
//! `make test` tests each promise on one server and on a quorum, in both layouts, and a third of them on each
//! other bed. `make test-all` tests all of them on each bed.

#![recursion_limit = "256"]

use quorumlock::Layout;
use quorumlock_tests::{Testbed, Topology};

fn bed(topology: Topology, layout: Layout) -> Option<Testbed> {
    Testbed::start(topology, layout, env!("CARGO_BIN_EXE_quorumlock-tests-worker"))
}

/// One list for all testbeds. `$parts` are three lists of attributes: of the first, the second and the third of
/// each three promises.
macro_rules! all_promises {
    ($topology:ident, $layout:ident, $($parts:tt)*) => {
        promises! { $topology, $layout, $($parts)*; asynchronous:
            cancel::a_dropped_wait_for_loss_leaves_the_guard_alone,
            cancel::a_lock_future_dropped_anywhere_leaves_nothing_behind,
            cancel::a_re_entry_dropped_anywhere_leaves_the_outer_hold,
            cancel::a_run_future_dropped_anywhere_releases,
            cancel::a_waiter_dropped_anywhere_leaves_nothing_behind,
            cancel::an_unlock_future_dropped_anywhere_still_releases,
            election::a_leader_that_lost_campaigns_again,
            election::an_observer_follows_the_leaders,
            election::an_observer_says_when_it_does_not_know,
            election::candidates_lead_one_after_the_other,
            exclusion::a_number_counted_by_four_processes_is_exact,
            exclusion::run_locks_works_and_releases,
            exclusion::two_locks_exclude_each_other,
            fencing::tokens_rise_over_a_thousand_handovers,
            fencing::tokens_rise_whatever_ends_a_hold,
            forced::a_forged_message_ends_no_lock,
            forced::a_holder_hears_of_a_forced_unlock_at_once,
            handles::a_cancellation_token_ends_with_the_hold,
            handles::a_mutex_is_the_lock_of_its_name,
            handles::a_ping_tells_whether_a_majority_answers,
            handles::a_prefix_is_a_part_of_every_name,
            handles::a_watch_resolves_with_the_loss,
            handles::one_mutex_serves_many_tasks,
            handles::work_runs_under_a_request_with_its_options,
            handover::a_hold_limit_holds_after_a_handover_too,
            handover::a_lease_of_another_length_is_not_taken_over,
            handover::a_lost_lock_is_not_handed_over,
            handover::a_waiter_that_gives_up_with_the_lock_in_its_hands_passes_it_on,
            handover::tasks_of_one_process_take_over_in_order_with_tokens_of_their_own,
            handover::whoever_takes_over_goes_on_before_whoever_unlocked,
            heard::a_waiter_in_strict_order_hears_of_a_release,
            heard::a_waiter_of_each_kind_hears_of_a_release,
            heard::all_waiters_of_each_kind_hear_in_turn,
            keeping::a_blocked_runtime_loses_no_lock,
            keeping::a_hold_limit_ends_the_lease_without_renewal,
            keeping::a_hold_lasts_for_at_least_its_time,
            keeping::a_locker_may_limit_all_its_holds,
            keeping::a_hold_of_each_kind_lasts_for_at_least_its_time,
            keeping::a_lost_hold_is_kept_no_longer,
            keeping::a_long_hold_is_renewed_up_to_its_limit,
            labels::a_hold_has_a_label_of_its_own,
            labels::a_hold_of_each_kind_has_a_label_of_its_own,
            labels::a_holder_has_the_label_of_its_locker,
            labels::a_lost_label_is_written_again,
            labels::nonces_of_one_locker_end_alike,
            labels::the_default_label_is_the_machine_and_the_process,
            labels::the_next_task_has_its_own_label,
            loss::a_deleted_key_is_missed_at_the_next_renewal,
            loss::a_holder_is_told_before_another_may_win,
            loss::a_paused_holder_is_told_when_it_wakes,
            loss::work_is_dropped_by_the_end_of_the_window,
            loss::work_that_ends_in_time_gives_its_result,
            permits::a_permit_dropped_anywhere_leaves_nothing_behind,
            permits::a_permit_is_lost_with_its_slot_alone,
            permits::a_permit_takes_the_options_of_a_lock,
            permits::a_waiter_that_gives_up_passes_the_slot_on,
            permits::each_permit_has_a_slot_of_its_own,
            permits::each_release_wakes_a_waiter,
            permits::no_more_tasks_are_in_than_there_are_permits,
            permits::permits_are_renewed,
            permits::the_number_of_permits_may_change,
            permits::waiters_of_one_process_share_its_place_in_the_queue,
            permits::wrong_permits_are_refused_and_nothing_is_taken,
            read_write::a_downgraded_writer_keeps_its_owner,
            read_write::a_downgraded_writer_reads_on,
            read_write::a_name_is_a_lock_or_a_read_write_lock,
            read_write::a_read_write_lock_takes_the_options_of_a_lock,
            read_write::a_read_inside_a_read_passes_a_waiting_writer,
            read_write::a_reader_or_writer_dropped_anywhere_leaves_nothing_behind,
            read_write::a_stream_of_readers_keeps_no_writer_out,
            read_write::a_writer_is_alone_among_many,
            read_write::a_writer_lets_all_readers_in_and_the_last_reader_a_writer,
            read_write::an_owner_enters_in_one_mode,
            read_write::readers_and_writers_are_renewed,
            read_write::readers_share_what_a_writer_has_alone,
            reentry::a_dropped_inner_guard_leaves_the_outer_one_its_lock,
            reentry::an_owner_enters_again_and_its_last_guard_releases,
            reentry::an_owner_never_waits_for_its_own_names,
            reentry::an_owner_who_enters_again_cannot_ask_for_another_hold,
            reentry::an_owner_whose_lock_was_lost_is_told_so_and_enters_no_new_one,
            reentry::tasks_of_one_owner_share_its_lease,
            reentry::without_its_owner_nobody_enters_again,
            release::a_process_that_ends_early_leaves_no_lock,
            release::a_dropped_guard_is_released,
            release::a_forced_unlock_frees_the_holders_own_process_when_it_gives_back,
            release::a_forced_unlock_frees_and_its_holder_learns_of_it,
            release::a_guard_dropped_with_its_locker_is_released,
            release::a_watch_of_a_released_lock_tells_nobody_to_stop,
            release::close_waits_for_posted_releases,
            release::only_the_holder_releases,
            release::questions_are_answered,
            renewing::a_lost_lock_is_not_renewed,
            renewing::a_renewal_moves_the_end_of_the_lease,
            renewing::an_unanswered_renewal_is_told_and_loses_nothing,
            renewing::failing_renewals_are_told_before_the_loss,
            several_names::a_handle_of_a_set_asks_about_all_names_and_frees_them,
            several_names::a_set_dropped_anywhere_leaves_nothing_behind,
            several_names::a_set_excludes_each_of_its_names,
            several_names::a_set_has_one_token_above_those_of_its_names,
            several_names::a_set_is_lost_with_one_of_its_names,
            several_names::a_set_is_renewed,
            several_names::a_set_takes_the_options_of_a_lock,
            several_names::a_set_that_cannot_use_a_free_name_lets_others_have_it,
            several_names::a_waiter_for_a_set_is_woken_and_holds_nothing,
            several_names::sets_come_beside_streams_of_single_locks,
            several_names::sets_in_a_ring_all_go_on,
            several_names::wrong_sets_are_refused_and_nothing_is_taken,
            takeover::a_holder_counts_on_its_lease_alone,
            takeover::a_lock_that_ends_cleanly_is_free_at_once,
            takeover::a_lost_lock_is_not_taken_within_the_delay,
            telemetry::a_call_that_gets_no_lock_is_told_with_its_reason,
            telemetry::a_handler_that_panics_ends_no_renewal,
            telemetry::a_handoff_inside_the_process_is_told,
            telemetry::a_loss_is_told_once_with_its_reason,
            telemetry::each_kind_of_lock_is_told_from_call_to_release,
            tickets::a_hold_moves_to_another_process,
            tickets::a_limit_moves_and_a_shared_hold_does_not,
            tickets::a_set_moves_as_a_whole,
            tickets::a_ticket_ends_with_its_lease,
            tickets::a_ticket_names_its_layout,
            tickets::a_waiter_of_the_first_process_waits_on,
            tickets::no_ticket_is_taken_up_once_a_locker_is_closed,
            waiting::a_free_lock_that_many_try_is_given_to_one,
            waiting::a_release_wakes_a_waiter_of_another_process,
            waiting::a_release_wakes_a_waiter_of_the_same_process,
            waiting::a_wait_ends_at_its_bound_and_not_before,
            waiting::a_wait_of_nothing_still_takes_a_free_lock,
            waiting::a_waiter_gets_in_when_the_holder_dies,
            waiting::every_waiter_gets_its_turn,
            waiting::nothing_is_granted_once_a_locker_is_closed,
            waiting::the_end_of_a_locker_ends_all_who_wait,
        }
        promises! { $topology, $layout, $($parts)*; threads:
            blocking::a_blocking_hold_is_renewed_between_calls,
            blocking::a_blocking_lock_excludes_an_async_one,
            blocking::a_blocking_mutex_runs_work_renews_and_tells_of_its_loss,
            blocking::a_blocking_owner_enters_again_and_a_limit_ends_its_hold,
            blocking::a_blocking_wait_ends_at_its_bound_or_by_a_release,
            blocking::blocking_calls_work_inside_a_runtime,
            blocking::blocking_locks_exclude_each_other,
            forced::a_blocking_holder_hears_of_a_forced_unlock,
            permits::blocking_permits_have_slots_of_their_own,
            read_write::blocking_readers_share_and_writers_do_not,
            runtimes::a_guard_outlives_its_runtime,
            runtimes::a_locker_outlives_its_runtime,
            runtimes::an_unlock_before_the_end_of_the_runtime_reaches_every_node,
            runtimes::no_call_fails_because_the_runtime_of_another_caller_ends,
            several_names::a_blocking_set_excludes_each_of_its_names,
        }
    };
}

macro_rules! promises {
    ($topology:ident, $layout:ident, [$($mark:tt)*] $second:tt $third:tt;
        asynchronous: $room:ident::$promise:ident, $($others:tt)*) => {
        $($mark)*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $promise() {
            if let Some(bed) = super::bed(Topology::$topology, Layout::$layout) {
                quorumlock_tests::promises::$room::$promise(&bed).await;
            }
        }

        promises! { $topology, $layout, $second $third [$($mark)*]; asynchronous: $($others)* }
    };
    ($topology:ident, $layout:ident, [$($mark:tt)*] $second:tt $third:tt;
        threads: $room:ident::$promise:ident, $($others:tt)*) => {
        $($mark)*
        #[test]
        fn $promise() {
            if let Some(bed) = super::bed(Topology::$topology, Layout::$layout) {
                quorumlock_tests::promises::$room::$promise(&bed);
            }
        }

        promises! { $topology, $layout, $second $third [$($mark)*]; threads: $($others)* }
    };
    ($topology:ident, $layout:ident, $first:tt $second:tt $third:tt; $how:ident:) => {};
}

macro_rules! part {
    ($topology:ident, $layout:ident, all) => {
        all_promises! { $topology, $layout, [] [] [] }
    };
    ($topology:ident, $layout:ident, first) => {
        all_promises! { $topology, $layout, [] [#[ignore = "make test-all"]] [#[ignore = "make test-all"]] }
    };
    ($topology:ident, $layout:ident, second) => {
        all_promises! { $topology, $layout, [#[ignore = "make test-all"]] [] [#[ignore = "make test-all"]] }
    };
    ($topology:ident, $layout:ident, third) => {
        all_promises! { $topology, $layout, [#[ignore = "make test-all"]] [#[ignore = "make test-all"]] [] }
    };
}

macro_rules! beds {
    ($($bed:ident: $topology:ident, $layout:ident, $part:ident;)*) => { $(
        mod $bed {
            use quorumlock::Layout;
            use quorumlock_tests::Topology;

            part!($topology, $layout, $part);
        }
    )* };
}

beds! {
    single_redisson: Single, Redisson, all;
    single_redlock: Single, Redlock, all;
    proven_redisson: Proven, Redisson, first;
    proven_redlock: Proven, Redlock, second;
    proven_master: ProvenMaster, Redisson, third;
    cluster_redisson: Cluster, Redisson, first;
    cluster_redlock: Cluster, Redlock, second;
    quorum_of_3_redisson: QuorumOf3, Redisson, all;
    quorum_of_3_redlock: QuorumOf3, Redlock, all;
    quorum_of_5_redisson: QuorumOf5, Redisson, third;
    quorum_of_5_redlock: QuorumOf5, Redlock, first;
    quorum_of_5_two_down_redisson: QuorumOf5TwoDown, Redisson, second;
    quorum_of_5_two_down_redlock: QuorumOf5TwoDown, Redlock, third;
    strict_quorum_of_3_redisson: StrictQuorumOf3, Redisson, all;
    strict_quorum_of_3_redlock: StrictQuorumOf3, Redlock, first;
}
