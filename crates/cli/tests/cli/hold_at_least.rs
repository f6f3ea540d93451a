//! `quorumlock run --hold-at-least`: the lock is kept after a command that ends sooner.

use std::time::Duration;

use quorumlock_watchdog::Clock;
use rustix::process::Signal;

use crate::common::{Running, await_end, finish, quorumlock, run, servers, start, start_waiting};

/// Tells its process id, and ends with the exit code 7.
const SHORT: &str = "echo $$; exit 7";

/// Starts a job, and waits until its command has ended.
fn start_short(urls: &[String], options: &[&str]) -> Running {
    let mut job = Running::spawn(run(urls, &[&["job"], options].concat(), SHORT));
    await_end(&job.next_line());
    job
}

fn unlock_by_force(urls: &[String]) {
    let mut unlock = quorumlock(urls);
    unlock.args(["unlock", "--force", "job"]);
    finish(unlock).expect(0);
}

/// The second host's clock is late: its job finds the lock held, though that of the first has ended.
#[test]
fn another_host_finds_the_lock_held_until_a_signal_or_the_time_ends_it() {
    for (count, kind) in [(1, &[][..]), (1, &["--permits", "1"]), (1, &["--write"]), (3, &[])] {
        for signal in [Signal::TERM, Signal::INT, Signal::USR1] {
            let Some(servers) = servers(count) else { return };
            let urls = servers.urls();
            let late =
                |script| finish(run(&urls, &[&["job", "--wait", "0"], kind].concat(), script));
            let job = start_short(&urls, &[&["--hold-at-least", "1h"], kind].concat());
            assert_eq!(late("echo never").expect(75).stdout, "");
            job.signal(signal);
            let done = job.finish().expect(7);
            assert_eq!(done.stderr, "", "{done:?}");
            assert_eq!(late("echo mine").expect(0).stdout, "mine\n");
        }
    }
}

#[test]
fn the_time_counts_from_the_grant() {
    let Some(servers) = servers(1) else { return };
    let clock = Clock::system();
    let begun = clock.now();
    let job = start_short(&servers.urls(), &["--hold-at-least", "3", "--lease", "1"]);
    let waiter = start_waiting(run(&servers.urls(), &["job"], "echo mine"));
    assert_eq!(waiter.finish().expect(0).stdout, "mine\n");
    assert!(clock.now().since(begun) >= Duration::from_secs(3), "it was kept, and renewed");
    assert_eq!(job.finish().expect(7).stderr, "");
}

#[test]
fn after_a_signal_to_the_command_the_lock_is_not_kept() {
    let Some(servers) = servers(1) else { return };
    let script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let job = start(run(&servers.urls(), &["job", "--hold-at-least", "1h"], script));
    job.signal(Signal::TERM);
    job.finish().expect(3);
    finish(run(&servers.urls(), &["job", "--wait", "0"], "exit 0")).expect(0);
}

#[test]
fn a_loss_meanwhile_is_told_and_the_commands_code_stands() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let options = ["--hold-at-least", "1h", "--lease", "1s"];
        let job = start_short(&servers.urls(), &options);
        unlock_by_force(&servers.urls());
        // By a message, or by the next renewal.
        job.finish().expect(7).says(&["job: the lock was lost", "had ended"]);

        let job = start_short(&servers.urls(), &options);
        servers.iter().for_each(|server| server.pause().unwrap());
        job.finish().expect(7).says(&["the lock was lost", "no renewal was confirmed"]);
    }
}

#[test]
fn a_loss_before_the_command_ends_is_a_loss() {
    let Some(servers) = servers(1) else { return };
    let options = ["job", "--hold-at-least", "1h", "--lease", "1s"];
    let job = start(run(&servers.urls(), &options, "echo ready; exec cat"));
    unlock_by_force(&servers.urls());
    job.finish().expect(79);
}

/// The command is stopped 1.8 s after the grant.
#[test]
fn a_command_that_is_stopped_before_its_limit_keeps_the_lock_until_then() {
    let Some(servers) = servers(1) else { return };
    let limits = ["--hold-at-most", "4", "--grace", "2"];
    let least = ["--hold-at-least", "4"];
    let clock = Clock::system();
    let begun = clock.now();
    let done =
        finish(run(&servers.urls(), &[&["job"], &limits[..], &least].concat(), "exec sleep 60"));
    done.expect(79).says(&["--hold-at-most 4s is over soon"]);
    assert!(clock.now().since(begun) >= Duration::from_millis(3_500), "it was released before");
}

#[test]
fn it_is_no_longer_than_the_longest_hold() {
    let Some(servers) = servers(1) else { return };
    let limits = |least| ["job", "--hold-at-most", "2", "--hold-at-least", least];
    finish(run(&servers.urls(), &limits("2.5"), "echo never"))
        .expect(64)
        .says(&["--hold-at-least 2s 500ms", "--hold-at-most 2s"]);
    // The limit ends the hold as it was asked for: that is no loss.
    let job = start_short(&servers.urls(), &limits("2")[1..]);
    assert_eq!(job.finish().expect(7).stderr, "");
}
