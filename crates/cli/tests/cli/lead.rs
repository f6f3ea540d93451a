//! `quorumlock lead` against real servers: one leads, the next takes over, and a loss is no end.

use std::process::Command;
use std::time::Duration;

use crate::common::{
    Running, blank_servers, finish, quorumlock, run, servers, start, start_waiting,
};
use quorumlock_testbed::servers::{Server, ask};
use quorumlock_watchdog::Clock;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process};

/// Short, to keep the tests short; long enough for a renewal on a loaded machine.
const LEASE: [&str; 4] = ["--lease", "3s", "--grace", "500ms"];

/// The whole time for which a dead leader may keep the others waiting.
const LONGEST: [&str; 2] = ["--lease", "60s"];

/// Tells of its term, and ends with its input.
const UNTIL_EOF: &str = r#"echo "$$ $QUORUMLOCK_NAME $QUORUMLOCK_TOKEN"; exec cat"#;

/// As [`UNTIL_EOF`], but ends with a line, with the exit code 7.
const UNTIL_LINE: &str = r#"echo "$$ $QUORUMLOCK_NAME $QUORUMLOCK_TOKEN"; read line; exit 7"#;

/// As [`UNTIL_EOF`], but ends at SIGTERM, and says so.
const UNTIL_TERM: &str = r#"trap 'echo told; exit 0' TERM
    echo "$$ $QUORUMLOCK_NAME $QUORUMLOCK_TOKEN"; while ! read line; do :; done"#;

fn lead(urls: &[String], options: &[&str], script: &str) -> Command {
    let mut command = quorumlock(urls);
    command.args(["lead", "job"]).args(options).args(["--", "sh", "-c", script]);
    command
}

/// What the command of a leader tells.
struct Term {
    command: Pid,
    fence: u64,
}

/// Waits until the process leads.
#[track_caller]
fn term(leader: &mut Running) -> Term {
    let line = leader.next_line();
    let words = line.split(' ').collect::<Vec<_>>();
    let [command, "job", fence] = words[..] else { panic!("{line:?}") };
    let command = Pid::from_raw(command.parse().unwrap()).unwrap();
    Term { command, fence: fence.parse().unwrap() }
}

fn unlock_by_force(urls: &[String]) {
    let mut unlock = quorumlock(urls);
    unlock.args(["unlock", "--force", "job"]);
    finish(unlock).expect(0);
}

/// Who holds the lock.
fn holder(urls: &[String]) -> String {
    let mut status = quorumlock(urls);
    status.args(["status", "job", "--json"]);
    finish(status).expect(0).json()["holder"]["id"].as_str().unwrap_or("nobody").to_owned()
}

/// Whether somebody waits for the lock.
fn has_waiters(server: &Server) -> bool {
    ask(server.addr().unwrap(), &["EXISTS", "quorumlock:waiters:{job}"]).unwrap() == "1"
}

#[test]
fn the_next_leads_when_the_lease_of_a_killed_leader_has_ended() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let mut first = Running::spawn(lead(&urls, &LEASE, UNTIL_EOF));
        let before = term(&mut first);
        let mut second = start_waiting(lead(&urls, &LEASE, UNTIL_EOF));
        let leader = holder(&urls);
        first.signal(Signal::KILL);
        assert_eq!(holder(&urls), leader, "the lease goes on");

        assert!(term(&mut second).fence > before.fence);
        assert_ne!(holder(&urls), leader);
        second.close_stdin();
        second.finish().expect(0);
    }
}

#[test]
fn a_command_that_ends_gives_its_code_and_the_next_leads_at_once() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let mut first = Running::spawn(lead(&urls, &LONGEST, UNTIL_LINE));
        let before = term(&mut first);
        let mut second = start_waiting(lead(&urls, &LONGEST, UNTIL_EOF));
        let clock = Clock::system();
        let begun = clock.now();
        first.say("enough");
        first.finish().expect(7);
        assert!(term(&mut second).fence > before.fence);
        assert!(
            clock.now().since(begun) < Duration::from_secs(30),
            "it waited for the lease to end"
        );
        second.close_stdin();
        second.finish().expect(0);
        assert_eq!(holder(&urls), "nobody");
    }
}

#[test]
fn a_leader_excludes_run_under_the_same_name() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let mut leader = Running::spawn(lead(&urls, &[], UNTIL_EOF));
    term(&mut leader);
    finish(run(&urls, &["--name", "job", "--wait", "0s"], "echo never")).expect(75);
    leader.close_stdin();
    leader.finish().expect(0);

    let mut holder = start(run(&urls, &["--name", "job"], "echo ready; cat"));
    let mut leader = start_waiting(lead(&urls, &[], UNTIL_EOF));
    holder.close_stdin();
    holder.finish().expect(0);
    term(&mut leader);
    leader.close_stdin();
    leader.finish().expect(0);
}

#[test]
fn a_leader_whose_lock_is_taken_away_stops_its_command_and_leads_again() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let mut leader = Running::spawn(lead(&urls, &LEASE, UNTIL_EOF));
        let mut before = term(&mut leader);
        for _ in 0..2 {
            unlock_by_force(&urls);
            leader.await_message("stopping the command");
            leader.await_message("campaigning again");
            let next = term(&mut leader);
            assert!(next.fence > before.fence);
            assert_eq!(test_kill_process(before.command), Err(Errno::SRCH), "it was stopped");
            before = next;
        }
        leader.close_stdin();
        leader.finish().expect(0);
    }
}

#[test]
fn a_leader_whose_nodes_stop_for_longer_than_a_lease_leads_again() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let mut leader = Running::spawn(lead(&servers.urls(), &LEASE, UNTIL_TERM));
        let before = term(&mut leader);
        servers.iter().for_each(|server| server.pause().unwrap());
        leader.await_message("could not be renewed");
        leader.await_line("told");
        leader.await_message("campaigning again");
        leader.await_message("waiting for the lock job");
        servers.iter().for_each(|server| server.resume().unwrap());

        assert!(term(&mut leader).fence > before.fence);
        leader.signal(Signal::TERM);
        assert_eq!(leader.finish().expect(0).stdout, "told\n");
    }
}

#[test]
fn a_signal_ends_a_campaign_and_leaves_nothing_in_the_queue() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let mut leader = Running::spawn(lead(&urls, &[], UNTIL_EOF));
    term(&mut leader);
    let campaigner = start_waiting(lead(&urls, &[], "echo never"));
    assert!(has_waiters(&servers[0]));
    campaigner.signal(Signal::TERM);
    assert_eq!(campaigner.finish().expect(143).stdout, "");
    assert!(!has_waiters(&servers[0]));
    leader.close_stdin();
    leader.finish().expect(0);
}

#[test]
fn notifications_of_a_fleet_leave_a_campaign_alone_and_reach_the_command() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let mut leader = Running::spawn(lead(&urls, &[], UNTIL_LINE));
    term(&mut leader);
    let script = r#"trap 'echo told; exit 3' HUP
        echo "$$ $QUORUMLOCK_NAME $QUORUMLOCK_TOKEN"; while ! read line; do :; done"#;
    let mut campaigner = start_waiting(lead(&urls, &[], script));
    for notification in [Signal::HUP, Signal::USR1, Signal::USR2] {
        campaigner.signal(notification);
        // Signals are handled in order: this one is refused when the one before has been handled.
        campaigner.signal(Signal::TSTP);
        campaigner.await_message("not stopped");
    }
    leader.say("enough");
    leader.finish().expect(7);
    term(&mut campaigner);
    campaigner.signal(Signal::HUP);
    assert_eq!(campaigner.finish().expect(3).stdout, "told\n");
}

#[test]
fn a_signal_while_the_command_is_stopped_ends_the_leader_too() {
    let Some(servers) = servers(1) else { return };
    let script = "trap 'echo told' TERM; echo ready; while ! read line; do :; done";
    let mut leader = start(lead(&servers.urls(), &["--lease", "3s", "--grace", "1s"], script));
    servers[0].pause().unwrap();
    leader.await_line("told");
    leader.signal(Signal::TERM);
    leader.await_line("told");
    servers[0].resume().unwrap();
    // A leader that campaigned again would be ready once more.
    assert_eq!(leader.next_line(), "");
    leader.finish().expect(143);
}

#[test]
fn a_loss_that_the_release_finds_is_told() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    // The next renewal comes after a third of the lease, and so after the release.
    let mut leader = Running::spawn(lead(&urls, &LONGEST, UNTIL_LINE));
    term(&mut leader);
    unlock_by_force(&urls);
    leader.say("enough");
    leader.finish().expect(7).says(&["the lock was lost", "somebody else may have had the lock"]);
}

#[test]
fn a_campaign_waits_for_nodes_that_may_not_vote_yet() {
    let Some(servers) = blank_servers(3) else { return };
    let urls = servers.urls();
    let mut leader = Running::spawn(lead(&urls, &[], UNTIL_EOF));
    leader.await_message("campaigning again in");
    let mut init = quorumlock(&urls);
    init.arg("init");
    finish(init).expect(0);
    term(&mut leader);
    leader.close_stdin();
    leader.finish().expect(0);
}

#[test]
fn errors_that_do_not_pass_end_a_campaign() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let mut missing = quorumlock(&urls);
    missing.args(["lead", "job", "--", "/no/such/command"]);
    finish(missing).expect(127).says(&["/no/such/command"]);
    assert_eq!(holder(&urls), "nobody");
    ask(servers[0].addr().unwrap(), &["SET", "job", "data"]).unwrap();
    finish(lead(&urls, &[], "echo never")).expect(78).says(&["is no lock but a string"]);
}

/// The limit ends the term, not the campaign.
#[test]
fn a_leader_whose_limit_is_over_campaigns_again() {
    let Some(servers) = servers(1) else { return };
    let limit = ["--lease", "3s", "--hold-at-most", "3s", "--grace", "500ms"];
    let mut leader = Running::spawn(lead(&servers.urls(), &limit, UNTIL_TERM));
    let first = term(&mut leader);
    assert_eq!(leader.next_line(), "told");
    assert!(term(&mut leader).fence > first.fence);
    leader.signal(Signal::TERM);
    leader.await_line("told");
    leader.finish().says(&["--hold-at-most 3s is over soon"]);
}

#[test]
fn bad_usage_is_told_apart() {
    let bad = |arguments: &[&str], part: &str| {
        let mut command = quorumlock(&["redis://127.0.0.1:1".to_owned()]);
        command.arg("lead").args(arguments);
        finish(command).expect(64).says(&[part]);
    };
    bad(&["job"], "COMMAND");
    bad(&["--", "true"], "NAME");
    bad(&["", "--", "true"], "name");
    bad(&["job", "--lease", "10ms", "--", "true"], "Use 100ms at least");
    bad(&["job", "--lease", "2s", "--grace", "2s", "--", "true"], "--grace 2s");
    for option in ["--wait", "--permits", "--hold-at-least", "--read"] {
        bad(&["job", option, "2", "--", "true"], option);
    }
}

/// A password in a file may change: a server that refuses it ends no campaign.
#[test]
fn a_password_that_is_rotated_ends_no_campaign() {
    let Some(servers) = blank_servers(1) else { return };
    let addr = servers[0].addr().expect("ours");
    let set_password = |password: &str| {
        let added = format!(">{password}");
        ask(addr, &["ACL", "SETUSER", "app", "reset", "on", "~*", "&*", "+@all", &added]).unwrap();
        ask(addr, &["CLIENT", "KILL", "USER", "app"]).unwrap();
    };
    set_password("old");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("password");
    std::fs::write(&file, "old\n").expect("written");
    let urls = [servers[0].url().replace("redis://", "redis://app@")];
    let mut command = lead(&urls, &LEASE, UNTIL_EOF);
    command.env("QUORUMLOCK_PASSWORD_FILE", &file);
    let mut leader = Running::spawn(command);
    let first = term(&mut leader);

    set_password("new");
    loop {
        match leader.next_message() {
            end if end.is_empty() => panic!("it ended"),
            refused if refused.contains("WRONGPASS") => break,
            _ => {}
        }
    }
    std::fs::write(&file, "new\n").expect("written");
    let second = term(&mut leader);
    assert!(second.fence > first.fence);
    leader.close_stdin();
    leader.finish().expect(0);
}
