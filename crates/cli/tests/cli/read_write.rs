//! `quorumlock run --read` and `--write`, and `--read-write` of `status` and `unlock`, against real
//! servers.

use std::process::Command;

use crate::common::{Finished, Running, finish, quorumlock, run, servers, start, start_waiting};
use quorumlock_testbed::servers::{self, Servers};
use serde_json::json;

const READ: [&str; 3] = ["--name", "catalog", "--read"];
const WRITE: [&str; 3] = ["--name", "catalog", "--write"];
/// Each number of servers on each layout.
const ALL: [(usize, &str); 4] = [(1, "redisson"), (1, "redlock"), (3, "redisson"), (3, "redlock")];

fn ask(urls: &[String], arguments: &[&str]) -> Finished {
    let mut command = quorumlock(urls);
    command.args(arguments);
    finish(command)
}

/// `run` for a lock that it gets. The limit is for a test that fails.
fn granted(urls: &[String], options: &[&str], script: &str) -> Command {
    run(urls, &[options, &["--wait", "20s"]].concat(), script)
}

/// Starts a command that runs until [`end`], and waits until it runs.
fn hold(urls: &[String], options: &[&str]) -> Running {
    start(granted(urls, options, "echo ready; cat"))
}

/// Ends the command, and so `run`.
#[track_caller]
fn end(mut holder: Running) {
    holder.close_stdin();
    holder.finish().expect(0);
}

/// Two readers that run at the same time, and that each server has.
fn two_readers(servers: &Servers, options: &[&str]) -> [Running; 2] {
    let readers = [(); 2].map(|()| hold(&servers.urls(), &[&READ, options].concat()));
    // The last server of a quorum may have a grant a moment later than the majority.
    for server in servers.iter() {
        let count = || servers::ask(server.addr().unwrap(), &["ZCARD", "catalog"]).unwrap();
        assert!((0..10_000).any(|_| count() == "2"), "{} holds on {server:?}", count());
    }
    readers
}

#[test]
fn readers_run_at_the_same_time_and_a_writer_runs_alone() {
    for (count, layout) in ALL {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let at_most = |kind: [&str; 3], wait| {
            let options = [&kind[..], &["--layout", layout, "--wait", wait]].concat();
            finish(run(&urls, &options, r#"echo "$QUORUMLOCK_NAME ${QUORUMLOCK_SLOT-no slot}""#))
        };
        let readers = two_readers(&servers, &["--layout", layout]);
        for wait in ["0s", "100ms"] {
            assert_eq!(at_most(WRITE, wait).expect(75).says(&["catalog"]).stdout, "");
        }
        readers.into_iter().for_each(end);

        let writer = hold(&urls, &[&WRITE[..], &["--layout", layout]].concat());
        for kind in [READ, WRITE] {
            assert_eq!(at_most(kind, "0s").expect(75).says(&["catalog"]).stdout, "");
        }
        end(writer);
        for kind in [READ, WRITE] {
            assert_eq!(at_most(kind, "10s").expect(0).stdout, "catalog no slot\n");
        }
    }
}

#[test]
fn a_waiter_gets_the_lock_when_the_other_mode_ends() {
    for (holds, waits, told) in [(READ, WRITE, "to write"), (WRITE, READ, "to read")] {
        let Some(servers) = servers(1) else { return };
        let urls = servers.urls();
        let holder = hold(&urls, &holds);
        let mut waiter = Running::spawn(granted(&urls, &waits, "echo mine"));
        waiter.await_message(&format!("waiting for the read-write lock catalog, {told}"));
        end(holder);
        assert_eq!(waiter.finish().expect(0).stdout, "mine\n");
    }
}

#[test]
fn a_writer_that_waits_keeps_new_readers_out() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let reader = hold(&urls, &READ);
    let writer = start_waiting(granted(&urls, &WRITE, "echo mine"));
    finish(run(&urls, &[&READ[..], &["--wait", "0s"]].concat(), "echo never")).expect(75);
    end(reader);
    assert_eq!(writer.finish().expect(0).stdout, "mine\n");
}

#[test]
fn status_tells_how_many_readers_or_which_writer() {
    for (count, layout) in ALL {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let status = |more: &[&str]| {
            let basic = ["status", "catalog", "--read-write", "--layout", layout];
            ask(&urls, &[&basic[..], more].concat())
        };
        let free = json!({
            "name": "catalog", "held": false, "readers": 0, "writer": null, "remaining_ms": null,
            "last_token": null, "since": null, "waiters": null,
        });
        assert_eq!(status(&["--json", "--exit-code"]).expect(0).json(), free);
        assert_eq!(status(&[]).expect(0).stdout, "catalog: free\n");

        let options = ["--lease", "5s", "--layout", layout];
        let readers = two_readers(&servers, &options);
        let mut told = status(&["--json"]).expect(0).json();
        let left = told["remaining_ms"].take().as_u64().unwrap();
        assert!((1..=5_000).contains(&left), "{left}");
        let held = json!({
            "name": "catalog", "held": true, "readers": 2, "writer": null, "remaining_ms": null,
            "last_token": null, "since": null, "waiters": 0,
        });
        assert_eq!(told, held);
        let text = status(&["--exit-code"]).expect(1).stdout;
        assert!(text.starts_with("catalog: 2 readers, for another "), "{text}");
        readers.into_iter().for_each(end);

        let writer = hold(&urls, &[&WRITE, &options[..]].concat());
        let told = status(&["--json", "--exit-code"]).expect(1).json();
        assert_eq!((&told["held"], &told["readers"]), (&json!(true), &json!(0)));
        assert!((1..=5_000).contains(&told["remaining_ms"].as_u64().unwrap()), "{told}");
        let [id, label] = ["id", "label"].map(|what| told["writer"][what].as_str().unwrap());
        let text = status(&[]).expect(0).stdout;
        let start = format!("catalog: 1 writer {label} ({id}), for another ");
        assert!(id.ends_with(":w") && text.starts_with(&start), "{text}");
        end(writer);
        assert_eq!(status(&["--json"]).expect(0).json()["held"], false);
    }
}

#[test]
fn unlock_takes_it_away_from_the_writer_or_from_all_readers() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let unlock = |more: &[&str]| {
            let basic = ["unlock", "--force", "catalog", "--read-write"];
            ask(&urls, &[&basic[..], more].concat())
        };
        let readers = two_readers(&servers, &["--lease", "2s"]);
        ask(&urls, &["unlock", "catalog", "--read-write"]).expect(64).says(&["--force"]);
        let status = ["status", "catalog", "--read-write", "--exit-code"];
        ask(&urls, &status).expect(1);
        assert_eq!(unlock(&[]).expect(0).stdout, "catalog: taken away from its readers\n");
        ask(&urls, &status).expect(0);
        for reader in readers {
            reader.finish().expect(79).says(&["catalog"]);
        }
        assert_eq!(unlock(&[]).expect(81).stdout, "catalog: was free\n");

        let writer = hold(&urls, &[&WRITE[..], &["--lease", "2s"]].concat());
        let taken = unlock(&["--json"]).expect(0).json();
        let id = taken["holder"]["id"].as_str().unwrap();
        assert!(taken["released"] == true && id.ends_with(":w"), "{taken}");
        writer.finish().expect(79).says(&["catalog"]);
        assert_eq!(unlock(&["--json"]).expect(81).json()["released"], false);
    }
}

#[test]
fn the_wrong_kind_is_refused_and_the_right_option_named() {
    const ADVICE: &str = "add --read-write";
    for (count, layout) in ALL {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        for kind in [READ, WRITE] {
            let holder = hold(&urls, &[&kind[..], &["--layout", layout]].concat());
            for command in [&["unlock", "--force", "catalog"][..], &["status", "catalog"]] {
                let refused = ask(&urls, &[command, &["--layout", layout]].concat()).expect(78);
                refused.says(&["is a read-write lock, 1 ", "catalog is a read-write lock", ADVICE]);
            }
            ask(&urls, &["status", "catalog", "--read-write", "--exit-code"]).expect(1);
            let lock = granted(&urls, &["--name", "catalog", "--layout", layout], "echo never");
            finish(lock).expect(78).says(&["is a read-write lock, 1 "]);
            end(holder);
        }
        let lock = ["--name", "catalog", "--layout", layout];
        let holder = hold(&urls, &lock);
        let named = if layout == "redisson" { "Redisson" } else { "Redlock" };
        let is_lock = format!("the key \"catalog\" is a lock of {named}'s layout");
        for kind in [READ, WRITE] {
            let refused =
                finish(run(&urls, &[&kind[..], &["--layout", layout]].concat(), "echo never"));
            refused.expect(78).says(&[&is_lock]);
        }
        let status = ["status", "catalog", "--read-write", "--layout", layout];
        ask(&urls, &status).expect(78).says(&[&is_lock]);
        let unlock = ["unlock", "--force", "catalog", "--read-write", "--layout", layout];
        ask(&urls, &unlock).expect(78).says(&[&is_lock]);
        // A lock of the other layout is no read-write lock.
        let other = if layout == "redisson" { "redlock" } else { "redisson" };
        let refused = ask(&urls, &["status", "catalog", "--layout", other]).expect(78);
        assert!(!refused.says(&[&is_lock]).stderr.contains(ADVICE));
        end(holder);
    }
}

#[test]
fn options_that_exclude_each_other_are_bad_usage() {
    let nowhere = ["redis://127.0.0.1:1".to_owned()];
    let bad = |arguments: &[&str], said: &[&str]| {
        ask(&nowhere, arguments).expect(64).says(said);
    };
    let run = |options: &[&'static str]| [&["run"], options, &["--", "true"]].concat();
    for (kind, option) in [(READ, "--read"), (WRITE, "--write")] {
        bad(&run(&[&kind[..], &["--permits", "2"]].concat()), &[option, "--permits"]);
        let said = [&format!("{option} takes one name"), "2 are given"];
        bad(&run(&[&kind[..], &["--name", "x"]].concat()), &said);
        // The option alone is good usage: only the server is missing.
        ask(&nowhere, &run(&[&kind[..], &["--wait", "0s"]].concat())).expect(69);
    }
    bad(&run(&[&READ[..], &["--write"]].concat()), &["--read", "--write"]);
    bad(&["status", "x", "--read-write", "--permits", "2"], &["--read-write", "--permits"]);
    bad(&["unlock", "--force", "x", "--read-write", "--slot", "1"], &["--read-write", "--slot"]);
}
