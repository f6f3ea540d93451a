//! `quorumlock run` when the lock is lost: the command is dead before another client gets the lock.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::common::{QUORUMLOCK, Running, finish, program, quorumlock, run, servers, start};
use quorumlock_testbed::proxy::Proxy;
use quorumlock_testbed::servers::{Servers, Shift, ask};
use quorumlock_watchdog::Clock;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::tempdir;

/// Short, to keep the tests short; long enough for a renewal on a loaded machine.
const LEASE: [&str; 4] = ["--lease", "3s", "--grace", "500ms"];

/// The worst case: the command and its child ignore every signal and keep writing, a line every few
/// milliseconds; SIGTERM leaves a mark.
fn stubborn(dir: &Path) -> String {
    format!(
        "cd '{}'; trap 'echo told > told' TERM
        (trap '' TERM; while :; do echo child >> beats; sleep 0.01; done) &
        echo ready; while :; do echo beat >> beats; sleep 0.01; done",
        dir.display()
    )
}

fn job<'a>(options: &[&'a str]) -> Vec<&'a str> {
    [&["--name", "job"], options].concat()
}

/// A way to each server, with its URL. The URL has the server's label: a quorum knows servers by it.
fn ways(servers: &Servers) -> (Vec<Proxy>, Vec<String>) {
    let open = |address| {
        let way = Proxy::to(address);
        let url = format!("{}?label={address}/0", way.url());
        (way, url)
    };
    servers.iter().map(|server| open(server.addr().unwrap())).unzip()
}

#[test]
fn a_command_that_heeds_nothing_is_dead_before_the_next_holder_starts() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let (ways, urls) = ways(&servers);
        let dir = tempdir().unwrap();
        let holder = start(run(&urls, &job(&LEASE), &stubborn(dir.path())));
        ways.iter().for_each(Proxy::cut);

        // The next holder reaches the servers, which keep the old lock until its lease ends.
        let snapshot = format!("cd '{}'; cat told; cp beats seen", dir.path().display());
        let next = finish(run(&servers.urls(), &job(&["--lease", "3s"]), &snapshot)).expect(0);
        assert_eq!(next.stdout, "told\n", "SIGTERM came first");
        holder.finish().expect(79).says(&["job"]);
        let lines = |file, what: &str| {
            let text = fs::read_to_string(dir.path().join(file)).unwrap();
            text.lines().filter(|line| *line == what).count()
        };
        for what in ["beat", "child"] {
            assert!(lines("seen", what) > 0);
            assert_eq!(lines("seen", what), lines("beats", what), "written under the next holder");
        }
    }
}

#[test]
fn a_command_that_heeds_sigterm_has_time_to_end() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let script =
            "trap 'echo ended well; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
        // The warning comes when half of the lease is left, and the end with the grace time before it.
        let options = ["--lease", "6s", "--grace", "500ms"];
        let holder = start(run(&servers.urls(), &job(&options), script));
        servers.iter().for_each(|server| server.pause().unwrap());
        let told = ["job", "stopping", "WARN the lock is at risk", "nodes=\"redis://127.0.0.1:"];
        let ended = holder.finish().expect(79).says(&told);
        assert_eq!(ended.stdout, "ended well\n");
    }
}

#[test]
fn descendants_that_outlive_the_command_are_killed_too() {
    let Some(servers) = servers(1) else { return };
    // The grandchild keeps the pipe open: `finish` returns only when it is dead.
    let script = "(trap '' TERM; while :; do sleep 0.01; done) & echo ready; cat";
    let holder = start(run(&servers.urls(), &job(&LEASE), script));
    servers[0].pause().unwrap();
    holder.finish().expect(79);
}

/// In sessions and process groups of their own, with and without a parent.
#[cfg(target_os = "linux")]
const OUTSIDE_THE_GROUP: [&str; 4] = [
    "setsid sh work &",
    "(setsid sh work &);",
    "timeout 1000 sh work &",
    "setsid sh -c '(setsid sh work &); while test -e begun; do sleep 0.01; done' &",
];

/// A command that starts `work` in each of these ways, and is ready when all work, until the directory
/// is gone.
#[cfg(target_os = "linux")]
fn scattered(dir: &Path, work: &str) -> String {
    let beat = "while test -e begun; do echo >> beats; sleep 0.01; done";
    fs::write(dir.join("work"), format!("{work}; echo >> begun; {beat}")).unwrap();
    format!(
        "cd '{}'; touch begun; {{ {} }} > log 2>&1
        while test $(wc -l < begun) != {}; do sleep 0.01; done; echo ready; cat",
        dir.display(),
        OUTSIDE_THE_GROUP.join(" "),
        OUTSIDE_THE_GROUP.len(),
    )
}

#[test]
#[cfg(target_os = "linux")]
fn descendants_outside_the_group_are_dead_before_the_next_holder_starts() {
    let Some(servers) = servers(1) else { return };
    let (ways, urls) = ways(&servers);
    let dir = tempdir().unwrap();
    let holder = start(run(&urls, &job(&LEASE), &scattered(dir.path(), "trap '' TERM")));
    ways.iter().for_each(Proxy::cut);
    let same = format!("cd '{}'; cp beats seen; sleep 0.2; cmp beats seen", dir.path().display());
    finish(run(&servers.urls(), &job(&["--lease", "3s"]), &same)).expect(0);
    holder.finish().expect(79);
}

#[test]
#[cfg(target_os = "linux")]
fn descendants_outside_the_group_have_time_to_end() {
    let Some(servers) = servers(1) else { return };
    let dir = tempdir().unwrap();
    let script = scattered(dir.path(), "trap \"trap '' TERM; echo told >> told; exit\" TERM");
    let options = job(&["--hold-at-most", "10s", "--grace", "5s"]);
    start(run(&servers.urls(), &options, &script)).finish().expect(79);
    let told = fs::read_to_string(dir.path().join("told")).unwrap();
    assert_eq!(told, "told\n".repeat(OUTSIDE_THE_GROUP.len()));
}

/// `sleep 1000 & exec quorumlock ...`: a shell's background job is then a child of quorumlock.
#[test]
#[cfg(target_os = "linux")]
fn what_the_caller_has_started_outlives_a_loss() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let mut shell = program("sh", &urls);
    let script = "sleep 1000 > /dev/null 2>&1 & echo $!
        exec \"$0\" run job -- sh -c 'echo ready; cat'";
    shell.args(["-c", script, QUORUMLOCK]);
    let mut holder = Running::spawn(shell);
    let outside = Pid::from_raw(holder.next_line().parse().unwrap()).unwrap();
    holder.await_line("ready");
    let mut unlock = quorumlock(&urls);
    unlock.args(["unlock", "--force", "job"]);
    finish(unlock).expect(0);
    holder.finish().expect(79);
    kill_process(outside, Signal::KILL).expect("it lives");
}

#[test]
fn a_lock_that_is_taken_away_kills_at_once() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let dir = tempdir().unwrap();
        let holder = start(run(&urls, &job(&LEASE), &stubborn(dir.path())));
        let mut unlock = quorumlock(&urls);
        unlock.args(["unlock", "--force", "job"]);
        finish(unlock).expect(0);
        holder.finish().expect(79).says(&["job"]);
    }
}

/// The next renewal is ten seconds away.
#[test]
fn a_command_whose_lock_is_unlocked_by_force_ends_long_before_the_next_renewal() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let options = job(&["--lease", "30s", "--grace", "500ms"]);
        let holder = start(run(&urls, &options, "echo ready; while :; do sleep 0.05; done"));
        for server in servers.iter() {
            let script = "return #redis.call('pubsub', 'channels', 'quorumlock:forced:*')";
            while ask(server.addr().unwrap(), &["EVAL", script, "0"]).unwrap() != "1" {
                sleep(Duration::from_millis(20));
            }
        }
        let (clock, mut unlock) = (Clock::system(), quorumlock(&urls));
        let begun = clock.now();
        unlock.args(["unlock", "--force", "job"]);
        finish(unlock).expect(0);
        holder.finish().expect(79).says(&["job", "by force"]);
        let took = clock.now().since(begun);
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
}

#[test]
fn a_hold_ends_at_its_limit() {
    let Some(servers) = servers(1) else { return };
    for kind in [&[][..], &["--permits", "2"]] {
        let options = [&job(&["--lease", "1s", "--hold-at-most", "2s"]), kind].concat();
        let script = "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
        let holder = start(run(&servers.urls(), &options, script));
        let ended = holder.finish().expect(79).says(&["--hold-at-most 2s is over soon"]);
        assert!(!ended.stderr.contains("renewed"), "{ended:?}");
        assert_eq!(ended.stdout, "told\n");
    }
}

#[test]
fn a_hold_that_could_not_be_renewed_does_not_blame_its_limit() {
    let Some(servers) = servers(1) else { return };
    let options = job(&["--lease", "1s", "--hold-at-most", "1h"]);
    let holder = start(run(&servers.urls(), &options, "echo ready; cat"));
    servers[0].pause().unwrap();
    let ended = holder.finish().expect(79).says(&["could not be renewed"]);
    assert!(!ended.stderr.contains("--hold-at-most"), "{ended:?}");
}

#[test]
fn the_lock_is_kept_for_many_leases_while_a_majority_answers() {
    for (count, stopped) in [(1, 0), (3, 1), (5, 2)] {
        let Some(servers) = servers(count) else { return };
        let options = job(&["--lease", "1s", "--grace", "100ms"]);
        let holder = start(run(&servers.urls(), &options, "echo ready; sleep 3; echo done"));
        servers.iter().take(stopped).for_each(|server| server.pause().unwrap());
        assert_eq!(holder.finish().expect(0).stdout, "done\n");
    }
}

/// The process was not paused, and no node had trouble.
#[test]
fn a_loss_by_a_clock_that_was_set_says_so() {
    let Some((faketime, _)) = crate::members::faketime() else { return };
    let Some(servers) = servers(1) else { return };
    let dir = tempdir().unwrap();
    let clock = dir.path().join("clock");
    fs::write(&clock, "+0").unwrap();
    let mut settings = faketime.settings(Shift::ByMs(0));
    let mut file = OsString::from("FAKETIME_TIMESTAMP_FILE=");
    file.push(&clock);
    *settings.last_mut().unwrap() = file;
    let mut command = program("env", &servers.urls());
    command.args(settings).arg(QUORUMLOCK).arg("run").args(job(&["--lease", "20s"]));
    command.args(["--", "sh", "-c", "echo ready; exec cat"]);
    let holder = start(command);
    fs::write(dir.path().join("next"), "+60").unwrap();
    fs::rename(dir.path().join("next"), &clock).unwrap();
    let said = ["the lock is lost", "clock_ahead=60", "this machine's clock was set forward"];
    holder.finish().expect(79).says(&said);
}
