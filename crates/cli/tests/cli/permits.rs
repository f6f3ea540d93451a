//! `quorumlock run --permits`, `status --permits` and `unlock --slot` against real servers.

use crate::common::{Finished, Running, finish, quorumlock, run, servers, start, start_waiting};
use serde_json::{Value, json};

const TWO: [&str; 4] = ["--name", "jobs", "--permits", "2"];

fn ask(urls: &[String], arguments: &[&str]) -> Finished {
    let mut command = quorumlock(urls);
    command.args(arguments);
    finish(command)
}

/// Ends the command, and so `run`.
#[track_caller]
fn end(mut holder: Running) {
    holder.close_stdin();
    holder.finish().expect(0);
}

/// Two commands under the two permits, started at the same time; the one with slot 0 comes first.
/// `options`: more options of `run`.
fn both(urls: &[String], options: &[&str]) -> [Running; 2] {
    let script = r#"echo "$QUORUMLOCK_SLOT"; cat"#;
    let options = [&TWO, options].concat();
    let mut holders = [(); 2].map(|()| Running::spawn(run(urls, &options, script)));
    let slots = holders.each_mut().map(|holder| holder.next_line());
    match slots.each_ref().map(String::as_str) {
        ["0", "1"] => {}
        ["1", "0"] => holders.reverse(),
        _ => panic!("slots {slots:?}"),
    }
    holders
}

#[test]
fn each_command_has_a_slot_and_there_are_no_more_than_permits() {
    for (count, dead) in [(1, 0), (3, 0), (3, 1)] {
        let Some(servers) = servers(count) else { return };
        servers.iter().take(dead).for_each(|server| server.kill().unwrap());
        let urls = servers.urls();
        let [zero, one] = both(&urls, &[]);
        for wait in ["0s", "100ms"] {
            let third = finish(run(&urls, &[&TWO[..], &["--wait", wait]].concat(), "echo never"));
            assert_eq!(third.expect(75).says(&["jobs"]).stdout, "");
        }
        // Neither the lock of the name nor another name's permits are taken.
        finish(run(&urls, &["--name", "jobs", "--wait", "0s"], "exit 0")).expect(0);
        let other = ["--name", "other", "--permits", "2", "--wait", "0s"];
        finish(run(&urls, &other, "exit 0")).expect(0);

        end(one);
        let script = r#"echo "$QUORUMLOCK_NAME $QUORUMLOCK_SLOT""#;
        let next = finish(run(&urls, &[&TWO[..], &["--wait", "0s"]].concat(), script));
        assert_eq!(next.expect(0).stdout, "jobs 1\n", "the free slot");
        end(zero);
    }
}

#[test]
fn a_waiter_gets_the_permit_that_is_released() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let options = ["--name", "jobs", "--permits", "1"];
        let holder = start(run(&urls, &options, "echo ready; cat"));
        let waiter = start_waiting(run(&urls, &options, r#"echo "mine: $QUORUMLOCK_SLOT""#));
        end(holder);
        assert_eq!(waiter.finish().expect(0).stdout, "mine: 0\n");
    }
}

#[test]
fn a_lock_inside_a_permit_has_no_slot() {
    let Some(servers) = servers(1) else { return };
    let binary = env!("CARGO_BIN_EXE_quorumlock");
    let lock = format!(r#"'{binary}' run --name x -- sh -c 'echo "${{QUORUMLOCK_SLOT-none}}"'"#);
    let script = format!(r#"echo "$QUORUMLOCK_SLOT"; {lock}"#);
    let told = finish(run(&servers.urls(), &["--name", "jobs", "--permits", "1"], &script));
    assert_eq!(told.expect(0).stdout, "0\nnone\n");
}

#[test]
fn status_tells_of_each_slot() {
    for (count, layout) in [(1, "redisson"), (1, "redlock"), (3, "redisson"), (3, "redlock")] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let status = |permits, more: &[&str]| {
            let basic = ["status", "jobs", "--layout", layout, "--permits", permits];
            ask(&urls, &[&basic[..], more].concat())
        };
        let free = |slot: u32| json!({ "slot": slot, "held": false, "holder": null });
        let slots = [free(0), free(1)];
        let none = json!({
            "name": "jobs", "permits": 2, "held": 0, "slots": slots, "beyond": [], "waiters": null,
        });
        assert_eq!(status("2", &["--json", "--exit-code"]).expect(0).json(), none);

        let [zero, one] = both(&urls, &["--lease", "5s", "--layout", layout]);
        let told = status("3", &["--json", "--exit-code"]).expect(0).json();
        let of = json!([told["name"], told["permits"], told["held"], told["slots"][2]]);
        assert_eq!(of, json!(["jobs", 3, 2, free(2)]));
        let slots = told["slots"].as_array().unwrap();
        assert_eq!(slots.len(), 3);
        for (number, slot) in slots[..2].iter().enumerate() {
            assert_eq!((&slot["slot"], &slot["held"]), (&json!(number), &json!(true)));
            assert_eq!(slot["holder"]["holds"], 1);
            assert!((1..=5_000).contains(&slot["holder"]["remaining_ms"].as_u64().unwrap()));
        }
        assert_ne!(slots[0]["holder"]["id"], slots[1]["holder"]["id"]);
        // Who asks for fewer is told that others use more.
        let told = status("1", &["--json"]).expect(0).json();
        assert_eq!((&told["permits"], &told["held"]), (&json!(1), &json!(1)));
        assert_eq!(told["beyond"].as_array().unwrap().len(), 1);
        assert_eq!(told["beyond"][0]["holder"]["id"], slots[1]["holder"]["id"]);
        let text = status("1", &[]).expect(0).stdout;
        assert!(text.contains("another program uses more than 1 permits"), "{text}");

        status("2", &["--exit-code"]).expect(1);
        let text = status("3", &[]).expect(0).stdout;
        let lines = text.lines().collect::<Vec<_>>();
        assert_eq!((lines[0], lines[3]), ("jobs: 2 of 3 permits held", "  slot 2: free"));
        let [id, label] = ["id", "label"].map(|what| slots[1]["holder"][what].as_str().unwrap());
        let start = format!("  slot 1: held by {label} ({id}), for another ");
        assert!(lines[2].starts_with(&start), "{text}");
        assert_eq!(lines.len(), 4, "{text}");
        let lock = ask(&urls, &["status", "jobs", "--layout", layout, "--exit-code"]).expect(0);
        assert_eq!(lock.stdout, "jobs: free\n", "permits are not the lock");
        [zero, one].into_iter().for_each(end);
    }
}

#[test]
fn unlock_takes_the_permit_of_one_slot_away() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let [zero, one] = both(&urls, &["--lease", "2s"]);
        ask(&urls, &["unlock", "jobs", "--slot", "1"]).expect(64).says(&["--force"]);
        ask(&urls, &["status", "jobs", "--permits", "2", "--exit-code"]).expect(1);
        let unlock = |more: &[&str]| ask(&urls, &[&["unlock", "--force", "jobs"], more].concat());
        let lock: Value = unlock(&["--json"]).expect(81).json();
        assert_eq!(lock["released"], false, "permits are not the lock");

        let text = unlock(&["--slot", "1"]).expect(0).stdout;
        assert!(text.starts_with("jobs, slot 1: taken away from "), "{text}");
        let left = ask(&urls, &["status", "jobs", "--permits", "2", "--json"]).expect(0).json();
        assert_eq!((&left["slots"][0]["held"], &left["held"]), (&json!(true), &json!(1)));
        one.finish().expect(79).says(&["jobs"]);
        let gone = json!({ "name": "jobs", "slot": 1, "released": false, "holder": null });
        assert_eq!(unlock(&["--slot", "1", "--json"]).expect(81).json(), gone);
        let text = unlock(&["--slot", "1"]).expect(81).stdout;
        assert_eq!(text, "jobs, slot 1: was free\n");
        end(zero);
    }
}

#[test]
fn numbers_out_of_bounds_and_several_names_are_bad_usage() {
    let nowhere = ["redis://127.0.0.1:1".to_owned()];
    for number in ["0", "257", "5000000000"] {
        let said = format!("{number} is not in 1..=256");
        let permits = ["--permits", number];
        let run = [&["run", "--name", "x"], &permits[..], &["--", "true"]].concat();
        ask(&nowhere, &run).expect(64).says(&["--permits", &said]);
        let status = [&["status", "x"], &permits[..]].concat();
        ask(&nowhere, &status).expect(64).says(&["--permits", &said]);
    }
    for number in ["256", "70000"] {
        let said = format!("{number} is not in 0..=255");
        let unlock = ["unlock", "--force", "x", "--slot", number];
        ask(&nowhere, &unlock).expect(64).says(&["--slot", &said]);
    }
    let said = ["--permits takes one name", "2 are given"];
    finish(run(&nowhere, &[&TWO[..], &["--name", "x"]].concat(), "exit 0")).expect(64).says(&said);
    // The bounds themselves are good usage: only the server is missing.
    ask(&nowhere, &["status", "x", "--permits", "256"]).expect(69);
    ask(&nowhere, &["unlock", "--force", "x", "--slot", "255"]).expect(69);
}
