//! `quorumlock run` when the lock is lost: the command is dead before another client gets the lock.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::common::{finish, quorumlock, run, servers, start};
use quorumlock_testbed::proxy::Proxy;
use quorumlock_testbed::servers::{Servers, ask};
use quorumlock_watchdog::Clock;
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
        let holder = start(run(&servers.urls(), &job(&LEASE), script));
        servers.iter().for_each(|server| server.pause().unwrap());
        let ended = holder.finish().expect(79).says(&["job", "stopping"]);
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
