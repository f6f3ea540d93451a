//! The program of the version before this one, beside this one, as in a rolling upgrade.
//! `scripts/get-previous-version` builds it; docs/STABILITY.md says what must hold.

mod faults;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use quorumlock_testbed::servers::{Server, Servers, ask};
use quorumlock_watchdog::Clock;

use crate::common::{Finished, QUORUMLOCK, blank_servers, finish, program, start, start_waiting};

/// One server, and a quorum.
const COUNTS: [usize; 2] = [1, 3];

/// Times after which a node is admitted soon, and which a loaded machine keeps.
const TERMS: [(&str, &str); 2] = [("QUORUMLOCK_MAX_LEASE", "3s"), ("QUORUMLOCK_CLOCK_BOUND", "1s")];

/// A version's program, on the nodes of a test.
#[derive(Clone, Copy)]
struct Version<'a> {
    program: &'a str,
    urls: &'a [String],
}

impl Version<'_> {
    fn command(self, arguments: &[&str]) -> Command {
        let mut command = program(self.program, self.urls);
        // A server of a machine that stands still answers late, and no test here is about that. The older
        // version does not know the variable, and waits for half a second.
        command.env("QUORUMLOCK_ANSWER_TIMEOUT", "5s").args(arguments);
        command
    }

    fn finish(self, arguments: &[&str]) -> Finished {
        finish(self.command(arguments))
    }

    /// Holds the lock while the script runs.
    fn run(self, name: &str, script: &str) -> Command {
        self.command(&["run", "--name", name, "--", "sh", "-c", script])
    }

    /// Asserts that the lock is held. A program that heard no answer (69) knows nothing, and asks again.
    #[track_caller]
    fn finds_held(self, name: &str) {
        let asked = || self.finish(&["run", "--name", name, "--wait", "0s", "--", "true"]);
        let mut told = asked();
        while told.code == Some(69) {
            told = asked();
        }
        told.expect(75);
    }

    fn holder(self, name: &str) -> String {
        let status = self.finish(&["status", name, "--json"]).expect(0).json();
        status["holder"]["id"].as_str().unwrap_or("nobody").to_owned()
    }
}

/// The path of the older program; `None`, with a message, on a machine that could not build it.
fn previous() -> Option<String> {
    let commit = include_str!("../../../../tests/previous-version").trim();
    let target = Path::new(QUORUMLOCK).parent().unwrap().parent().unwrap();
    let program = target.join("previous").join(format!("quorumlock-{commit}"));
    if program.exists() {
        return Some(program.to_str().unwrap().to_owned());
    }
    let why = format!("no program of {commit}: scripts/get-previous-version builds it");
    quorumlock_testbed::skip("QUORUMLOCK_REQUIRE_PREVIOUS", &why);
    None
}

/// Both directions: the version that comes first, which admits the nodes, and the other one.
fn each_way(test: impl Fn(&Servers, Version<'_>, Version<'_>)) {
    let Some(previous) = previous() else { return };
    for count in COUNTS {
        for [first, second] in [[&*previous, QUORUMLOCK], [QUORUMLOCK, &*previous]] {
            let Some(servers) = blank_servers(count) else { return };
            let urls = servers.urls();
            let version = |program| Version { program, urls: &urls };
            if count > 1 {
                version(first).finish(&["init"]).expect(0);
            }
            test(&servers, version(first), version(second));
        }
    }
}

/// Waits until so many waiters of the lock are in the queue of the server.
fn await_waiters(server: &Server, count: &str) {
    // No event tells.
    while ask(server.addr().unwrap(), &["ZCARD", "quorumlock:waiters:{x}"]).unwrap() != count {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_version_waits_for_the_other_and_gets_its_lock_with_a_larger_token() {
    each_way(|servers, first, second| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("order");
        let tell = |who| {
            format!("echo ${{QUORUMLOCK_TOKEN:-$QUORUMLOCK_FENCE}} {who} >> '{}'", file.display())
        };
        let mut holder =
            start(first.run("x", &format!("{}; echo ready; exec cat", tell("holder"))));
        second.finds_held("x");
        assert_eq!(first.holder("x"), second.holder("x"));
        // One server hands the lock on in the order of its queue.
        let in_order = servers.len() == 1;
        let (clock, mut waiters) = (Clock::system(), Vec::new());
        let begun = clock.now();
        for (version, who, place) in [(second, "second", "1"), (first, "first", "2")] {
            waiters.push(start_waiting(version.run("x", &tell(who))));
            if in_order {
                await_waiters(&servers[0], place);
            }
        }
        holder.close_stdin();
        holder.finish().expect(0);
        for waiter in waiters {
            waiter.finish().expect(0);
        }
        // On a machine that stood still for a second, a waiter may be passed over (PROTOCOL.md W5).
        let in_order = in_order && clock.now().since(begun) < Duration::from_secs(3);
        let told = fs::read_to_string(file).unwrap();
        let told: Vec<_> = told.lines().map(|line| line.split_once(' ').unwrap()).collect();
        let tokens: Vec<u64> = told.iter().map(|(token, _)| token.parse().unwrap()).collect();
        assert!(tokens.len() == 3 && tokens.is_sorted_by(|a, b| a < b), "{told:?}");
        assert!(!in_order || told[1].1 == "second", "its waiter was not told: {told:?}");
    });
}

#[test]
fn a_version_takes_a_lock_away_from_the_other() {
    each_way(|_, first, second| {
        let mut holder = start(first.command(&[
            "run",
            "--name",
            "x",
            "--lease",
            "3s",
            "--",
            "sh",
            "-c",
            "echo ready; exec cat",
        ]));
        second.finish(&["unlock", "--force", "x"]).expect(0);
        assert_eq!(holder.next_line(), "");
        holder.finish().expect(79);
        second.finish(&["run", "--name", "x", "--wait", "0s", "--", "true"]).expect(0);
    });
}

#[test]
fn a_node_that_restarts_is_admitted_by_one_version_for_both() {
    let Some(previous) = previous() else { return };
    for [first, second] in [[&*previous, QUORUMLOCK], [QUORUMLOCK, &*previous]] {
        let Some(servers) = blank_servers(3) else { return };
        let urls = servers.urls();
        let on_terms = |program, arguments: &[&str]| {
            let mut command = Version { program, urls: &urls }.command(arguments);
            command.envs(TERMS);
            finish(command)
        };
        let locks = |program| {
            on_terms(program, &["run", "--name", "x", "--lease", "3s", "--", "true"]).expect(0);
        };
        on_terms(first, &["init"]).expect(0);
        servers[0].restart_empty().unwrap();
        // The note of the one is the other's, too; short processes get on with it.
        let votes = || {
            let members = on_terms(first, &["members", "--json"]).json();
            members["votes"].as_u64().unwrap()
        };
        assert_eq!(votes(), 2);
        while votes() < 3 {
            locks(second);
            locks(first);
        }
        servers[1].kill().unwrap();
        for program in [first, second] {
            locks(program);
        }
    }
}

/// Workers of the older version are replaced one by one, while a lock is held from before the upgrade
/// until after it. Each job reads a number and writes the next one: two at a time would lose one.
#[test]
fn a_rolling_upgrade_loses_no_lock_and_no_job() {
    const WORKERS: u32 = 3;
    const JOBS: u32 = 8;
    each_way(|_, first, second| {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        fs::write(file("count"), "0").unwrap();
        let job = format!(
            "cd '{}' && n=$(cat count) && echo ${{QUORUMLOCK_TOKEN:-$QUORUMLOCK_FENCE}} >> tokens && echo $((n + 1)) > count",
            dir.path().display()
        );
        // Renewed many times meanwhile.
        let mut held = start(first.command(&[
            "run",
            "--name",
            "held",
            "--lease",
            "3s",
            "--",
            "sh",
            "-c",
            "echo ready; exec cat",
        ]));
        thread::scope(|scope| {
            for worker in 0..WORKERS {
                let job = &job;
                scope.spawn(move || {
                    for done in 0..JOBS {
                        let version = if done < 2 * (worker + 1) { first } else { second };
                        finish(version.run("jobs", job)).expect(0);
                    }
                });
            }
        });
        second.finds_held("held");
        held.close_stdin();
        held.finish().expect(0);

        let count = fs::read_to_string(file("count")).unwrap();
        assert_eq!(count.trim(), (WORKERS * JOBS).to_string());
        let tokens = fs::read_to_string(file("tokens")).unwrap();
        let tokens: Vec<u64> = tokens.lines().map(|token| token.parse().unwrap()).collect();
        assert!(tokens.is_sorted_by(|before, after| before < after), "{tokens:?}");
    });
}

/// So that the message of a skipped test tells the truth.
#[test]
fn the_script_names_the_program_as_the_tests_do() {
    let script = include_str!("../../../../scripts/get-previous-version");
    for part in ["tests/previous-version", "/previous\n", "program=$goal/quorumlock-$commit"] {
        assert!(script.contains(part), "{part:?}");
    }
}
