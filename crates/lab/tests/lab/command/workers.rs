//! Workers of other libraries: which lines they lack, and their locks under the lab's faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use quorumlock_lab::history::{Event, Op, Phase, Reader};
use quorumlock_lab::record::{Attempt, read_attempts};
use quorumlock_testbed::skip;
use serde_json::Value;

use crate::command::process::{Finished, command, finish, servers};

/// The worker that needs nothing but Python.
const SET_NX_PX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workers/set-nx-px.py");

/// Whether there are Python and a server program.
fn equipped() -> bool {
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    if !python.is_ok_and(|status| status.success()) {
        skip("QUORUMLOCK_REQUIRE_PYTHON", "there is no python3");
        return false;
    }
    servers(1).is_some()
}

fn set_nx_px() -> String {
    format!("exec python3 {SET_NX_PX}")
}

/// The worker with one mistake.
fn with_mistake(dir: &Path, right: &str, mistake: &str) -> String {
    let text = fs::read_to_string(SET_NX_PX).unwrap();
    assert!(text.contains(right), "{right:?} is not in the worker");
    let file = dir.join("mistaken.py");
    fs::write(&file, text.replace(right, mistake)).unwrap();
    format!("exec python3 {}", file.display())
}

/// The lab's own worker.
fn ours() -> String {
    format!("exec {} worker", env!("CARGO_BIN_EXE_quorumlock-lab"))
}

/// The command, which prints something else in place of a line: the check need not wait.
fn without(line: &str, command: &str) -> String {
    let command = command.trim_start_matches("exec ");
    format!("{command} | sed -u -E 's/.*\"line\": ?\"{line}\".*/{line} it is/'")
}

/// The command, whose output lacks a line.
fn silent_on(line: &str, command: &str) -> String {
    let command = command.trim_start_matches("exec ");
    format!("{command} | sed -u -E '/\"line\": ?\"{line}\"/d'")
}

/// The lines that are not `ok`.
fn findings(worker: &str, patience_ms: u64, code: i32) -> BTreeMap<String, String> {
    let patience = patience_ms.to_string();
    let checked = finish(command("worker-check", &[worker, "--json", "--patience", &patience]));
    let checked = checked.expect(code).json();
    assert_eq!(checked["sound"], code == 0, "{checked}");
    let lines = checked["lines"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let lines = lines.iter().map(|found| (text(&found["line"]), text(&found["state"])));
    lines.filter(|(_, state)| state != "ok").collect()
}

/// For a line on a busy machine.
const PATIENCE_MS: u64 = 12_000;

/// Checks each worker, all at the same time: a missing line takes the patience.
fn all_found(patience_ms: u64, cases: &[(String, &[(&str, &str)])]) {
    std::thread::scope(|threads| {
        for (worker, expected) in cases {
            threads.spawn(move || {
                let fine = expected.iter().all(|(_, state)| *state == "not-declared");
                let found = findings(worker, patience_ms, i32::from(!fine));
                let expected = expected.iter().map(|(line, state)| (*line, *state));
                let found = found.iter().map(|(line, state)| (line.as_str(), state.as_str()));
                assert_eq!(
                    found.collect::<BTreeMap<_, _>>(),
                    expected.collect::<BTreeMap<_, _>>(),
                    "{worker}"
                );
            });
        }
    });
}

#[test]
fn a_check_says_which_line_is_missing() {
    if !equipped() {
        return;
    }
    const NONE: [(&str, &str); 2] = [("renewed", "not-declared"), ("lost", "not-declared")];
    let lacks = |line| without(line, &set_nx_px());
    let and_none = |line, state| Box::leak(Box::new([NONE[0], NONE[1], (line, state)])) as &[_];
    let rest = |first: &'static str, others: &[&'static str]| {
        let others = others.iter().map(|line| (*line, "not-tried"));
        Box::leak([(first, "missing")].into_iter().chain(others).collect::<Box<[_]>>()) as &[_]
    };
    let after_granted = ["refused", "checked", "renewed", "released", "lost"];
    let after_hello =
        ["granted", "refused", "checked", "renewed", "released", "lost", "clocks", "end"];
    all_found(
        PATIENCE_MS,
        &[
            (set_nx_px(), &NONE),
            (ours(), &[]),
            (lacks("hello"), rest("hello", &after_hello)),
            (lacks("granted"), rest("granted", &[&after_granted[..], &["clocks"]].concat())),
            (lacks("refused"), and_none("refused", "missing")),
            (lacks("checked"), and_none("checked", "missing")),
            (lacks("released"), and_none("released", "missing")),
            (silent_on("released", &set_nx_px()), and_none("released", "missing")),
            (without("renewed", &ours()), &[("renewed", "missing")]),
            (without("lost", &ours()), &[("lost", "missing")]),
        ],
    );
}

#[test]
fn a_check_says_which_line_is_wrong() {
    if !equipped() {
        return;
    }
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [clock, exclusion, ends] = dirs.each_ref().map(|dir| dir.path());
    all_found(
        PATIENCE_MS,
        &[
            (
                with_mistake(clock, "CLOCK_BOOTTIME", "CLOCK_REALTIME"),
                &[("clocks", "wrong"), ("renewed", "not-declared"), ("lost", "not-declared")],
            ),
            (
                with_mistake(exclusion, "\"NX\", ", ""),
                &[
                    ("refused", "wrong"),
                    // The second client's nonce is in the key.
                    ("released", "wrong"),
                    ("renewed", "not-declared"),
                    ("lost", "not-declared"),
                ],
            ),
            (
                with_mistake(ends, "os._exit(0)", "time.sleep(600)"),
                &[("end", "wrong"), ("renewed", "not-declared"), ("lost", "not-declared")],
            ),
        ],
    );
}

#[test]
fn workers_of_other_libraries_are_sound() {
    let Some(interop) = std::env::var_os("QUORUMLOCK_INTEROP").map(PathBuf::from) else {
        // `make test-interop` sets it, and fails without the libraries where they are required.
        return eprintln!("SKIPPED: QUORUMLOCK_INTEROP is not set");
    };
    if servers(1).is_none() {
        return;
    }
    let worker = |name: &str| interop.join(format!("worker-{name}")).display().to_string();
    const TELLS_NOTHING: [(&str, &str); 2] =
        [("renewed", "not-declared"), ("lost", "not-declared")];
    // A virtual machine takes seconds to start.
    all_found(
        15_000,
        &[
            (worker("redis-py"), &TELLS_NOTHING),
            (worker("redisson"), &TELLS_NOTHING),
            (worker("redisson") + " fenced", &TELLS_NOTHING),
            (worker("node-redlock"), &TELLS_NOTHING),
            (worker("redsync"), &TELLS_NOTHING),
        ],
    );
}

fn path(dir: &Path) -> &str {
    dir.to_str().unwrap()
}

fn run(arguments: &[&str]) -> Finished {
    finish(command("run", arguments))
}

#[test]
fn a_worker_that_cannot_be_used_is_told() {
    let named = |worker: &str| run(&["L10", "--modes", "S", "--worker", worker]);
    named("x").expect(64).says(&["NAME=COMMAND"]);
    named("a/b=true").expect(64).says(&["letters"]);
    named("x=true").expect(64).says(&["worker x", "without an answer to `hello`", "worker-check"]);
    named("x=echo '{\"line\":\"hello\"}'").expect(64).says(&["no `hello`", "protocol"]);
    let absent = "x=echo '{\"line\":\"absent\",\"why\":\"no jar\"}'";
    named(absent).expect(69).says(&["worker x: skipped: no jar", "no worker has its library"]);
}

#[test]
fn another_librarys_locks_are_taken_under_the_labs_faults() {
    if !equipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (plan, out) = (dir.path().join("plan.toml"), dir.path().join("out"));
    fs::write(&plan, include_str!("workers.toml")).unwrap();
    // A file of its own, so that its processes can be told from others.
    let worker = format!("nx={}", with_mistake(dir.path(), "#!/usr/bin", "#!/usr/bin"));
    let words = ["L10", "L03", "--modes", "S", "--quick", "--seed", "3", "--worker", &worker];
    let more = ["--plan", path(&plan), "--json", "--out", path(&out)];
    let done = run(&[&words[..], &more[..]].concat()).expect(0);
    let done = done.says(&["L03-S-nx-process-s3-0: skipped: nx: it renews no lease"]);
    let report = done.json();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{report}");
    assert_eq!((&runs[0]["mode"], &runs[0]["expected"]), (&"S:nx".into(), &"any".into()));
    assert!(runs[0]["observed"]["V"].as_u64() > Some(0), "an empty server: {report}");
    assert_eq!(runs[1]["observed"]["V"], 0, "{report}");

    let record = out.join("runs/L10-S-nx-process-s3-0/run.json");
    let record: Value = serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
    assert_eq!(record["library"]["library"], "SET NX PX");
    assert_eq!(record["plan"]["locking"]["lease_ms"], record["lease_ms"]);

    the_library_is_stopped_cut_off_and_killed(&out.join("runs/STRUCK-S-nx-process-s3-0"));
    let cmdlines = fs::read_dir("/proc").unwrap().flatten();
    let cmdlines = cmdlines.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let left = cmdlines.filter(|line| String::from_utf8_lossy(line).contains(path(dir.path())));
    assert_eq!(left.count(), 0, "no process of a worker outlives the run");
}

/// What `workers.toml` does to a client and to the worker that it started.
fn the_library_is_stopped_cut_off_and_killed(run: &Path) {
    let events = Reader::open(run.join("history.jsonl")).unwrap().map(Result::unwrap);
    let events = events.collect::<Vec<_>>();
    let stopped = |event: &&Event| {
        event.phase == Phase::Invoke && event.what.as_deref() == Some("client b stopped")
    };
    let stopped = events.iter().find(stopped).expect("it is stopped").mono_ns;
    let attempts = read_attempts(&run.join("attempts.csv")).unwrap();
    let first = |client: &str| {
        let mut of = attempts.iter().filter(|attempt| attempt.client == client);
        of.find_map(|attempt| attempt.granted_ns).unwrap_or_else(|| panic!("{client} had nothing"))
    };
    // While "b" is stopped, for 300 ms and more, the lock is free, and the process that polls for it is
    // stopped, too.
    assert!(first("b") >= stopped + 300_000_000, "{attempts:#?}");
    // "c" asks while it is cut off, and again later.
    let mut of_c = attempts.iter().filter(|attempt| attempt.client == "c");
    let refused = of_c.find(|attempt| attempt.granted_ns.is_none()).expect("it is refused");
    assert!(first("c") >= refused.ended_ns, "{attempts:#?}");
    // "d" is killed with the lock: nobody gives it back, and "e" waits for the end of the lease.
    let held = attempts.iter().find(|attempt| attempt.client == "d").unwrap();
    let lease_ns = 2_000_000_000;
    assert!(first("e") >= held.asked_ns + lease_ns, "{attempts:#?}");
    // A wait begins with the client's first request, however often its library gives up.
    let begins = |event: &&Event| (event.op, event.phase) == (Op::Lock, Phase::Invoke);
    let begun = events.iter().filter(begins).map(|event| event.mono_ns).collect::<BTreeSet<_>>();
    assert!(attempts.iter().all(|attempt| begun.contains(&attempt.asked_ns)), "{attempts:#?}");
    let in_order = |attempt: &Attempt| attempt.granted_ns.is_none_or(|at| attempt.asked_ns <= at);
    assert!(attempts.iter().all(in_order), "{attempts:#?}");
}
