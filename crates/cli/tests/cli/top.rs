//! `quorumlock top` against real servers: its JSON, its text, and its table in a terminal.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::session::Session;
use crate::common::{
    Finished, await_on_all, blank_servers, finish, quorumlock, run, servers, start, start_waiting,
};

fn top(urls: &[String], arguments: &[&str]) -> Finished {
    let mut command = quorumlock(urls);
    command.arg("top").args(arguments);
    finish(command)
}

/// The label of a locker in the process with this number.
fn label(process: u32) -> String {
    let mut uname = Command::new("uname");
    uname.arg("-n");
    format!("{}:{process}", finish(uname).expect(0).stdout.trim())
}

#[test]
fn one_server_is_shown_with_its_locks_their_holders_and_waiters() {
    for layout in ["redisson", "redlock"] {
        let Some(servers) = servers(1) else { return };
        let urls = servers.urls();
        let mut holder =
            start(run(&urls, &["--name", "job", "--layout", layout], "echo ready; cat"));
        let waiting = || start_waiting(run(&urls, &["--name", "job", "--layout", layout], "true"));
        let waiters = [waiting(), waiting()];
        // A waiter is queued before it reports that it waits.
        let shown = top(&urls, &["job", "idle", "--layout", layout, "--json"]).expect(0).json();
        let node = &shown["nodes"][0];
        assert_eq!(node["node"], servers[0].addr().unwrap().to_string());
        assert_eq!((&node["reachable"], &node["admitted"]), (&json!(true), &Value::Null));
        assert_eq!((&node["role"], &node["clock_ahead_us"]), (&json!("master"), &json!(0)));
        assert!(node["connections"].as_u64().unwrap() >= 4, "{node}");
        assert_eq!((&node["marks"], &node["waiters"]), (&json!(1), &json!(2)), "{node}");
        assert_eq!((&shown["reachable"], &shown["votes"]), (&json!(1), &Value::Null));
        let job = &shown["locks"][0];
        assert_eq!((&job["name"], &job["held"]), (&json!("job"), &json!(true)));
        assert_eq!(job["holder"]["label"], label(holder.id()));
        assert!((1..=30_000).contains(&job["holder"]["remaining_ms"].as_u64().unwrap()), "{job}");
        assert_eq!((&job["waiters"], &job["problem"]), (&json!(2), &Value::Null));
        let idle = &shown["locks"][1];
        assert_eq!((&idle["held"], &idle["waiters"]), (&json!(false), &json!(0)));
        holder.close_stdin();
        holder.finish().expect(0);
        for waiter in waiters {
            waiter.finish().expect(0);
        }
    }
}

#[test]
fn a_quorum_without_one_of_its_servers_is_shown_with_the_reason_and_its_locks() {
    let Some(servers) = servers(3) else { return };
    let urls = servers.urls();
    let mut holder = start(run(&urls, &["--name", "job"], "echo ready; cat"));
    await_on_all(&servers, &["job"]);
    servers[1].kill().unwrap();
    let shown = top(&urls, &["job", "--json"]).expect(0).json();
    let nodes = shown["nodes"].as_array().unwrap();
    let of_nodes = |field| nodes.iter().map(|node| &node[field]).collect::<Vec<_>>();
    assert_eq!(of_nodes("reachable"), [true, false, true]);
    assert_eq!(of_nodes("admitted"), [true, false, true]);
    let reason = nodes[1]["problem"].as_str().unwrap();
    assert!(reason.contains("refused"), "{reason}");
    assert_eq!((&shown["reachable"], &shown["votes"]), (&json!(2), &json!(2)));
    assert_eq!(shown["locks"][0]["holder"]["label"], label(holder.id()));
    let text = top(&urls, &["job"]).expect(0).stdout;
    assert!(text.starts_with("2 of 3 nodes answer, 2 vote; a lock needs 2\n"), "{text}");
    holder.close_stdin();
    holder.finish().expect(0);

    servers[0].kill().unwrap();
    let shown = top(&urls, &["job", "--json"]).expect(69).json();
    assert_eq!((&shown["reachable"], &shown["locks"][0]["held"]), (&json!(1), &Value::Null));
    let reason = shown["locks"][0]["problem"].as_str().unwrap();
    assert!(reason.contains("too few nodes answered"), "{reason}");
}

#[test]
fn nodes_that_are_not_admitted_do_not_vote() {
    let Some(servers) = blank_servers(3) else { return };
    let shown = top(&servers.urls(), &["--json"]).expect(78).json();
    assert_eq!((&shown["reachable"], &shown["votes"]), (&json!(3), &json!(0)));
    let node = &shown["nodes"][0];
    assert_eq!((&node["reachable"], &node["admitted"]), (&json!(true), &json!(false)));
    assert!(!node["problem"].as_str().unwrap().is_empty(), "{node}");
}

#[test]
fn a_server_that_answers_nothing_is_a_row_that_says_so() {
    let Some(servers) = servers(1) else { return };
    servers[0].pause().unwrap();
    let shown = top(&servers.urls(), &["job", "--json"]);
    servers[0].resume().unwrap();
    let shown = shown.expect(69).json();
    assert_eq!(shown["nodes"][0]["problem"], "no answer within 2s");
    assert_eq!(shown["locks"][0]["held"], Value::Null);
}

#[test]
fn a_read_write_lock_is_shown_with_its_readers_or_its_writer() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let shown = || top(&urls, &["job", "--json"]).expect(0).json()["locks"][0].take();
    let hold = |how| start(run(&urls, &["--name", "job", how], "echo ready; cat"));
    let mut readers = [hold("--read"), hold("--read")];
    let lock = shown();
    assert_eq!((&lock["held"], &lock["readers"]), (&json!(true), &json!(2)), "{lock}");
    assert!(lock["readers_remaining_ms"].as_u64().is_some_and(|ms| ms > 0), "{lock}");
    readers.iter_mut().for_each(|reader| reader.close_stdin());
    for reader in readers {
        reader.finish().expect(0);
    }
    let writer = hold("--write");
    let lock = shown();
    assert_eq!(
        (&lock["holder"]["label"], &lock["readers"]),
        (&json!(label(writer.id())), &json!(0))
    );
}

/// To the alternate screen, and back from it.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const WIDE: (u16, u16) = (120, 20);

/// Runs the command, prints its exit code and whether the modes of the terminal are as before, and
/// reads a line as a terminal does that is restored.
fn script(command: &str) -> String {
    format!(
        "before=$(stty -g); {command}; echo code-$?; \
         [ \"$before\" = \"$(stty -g)\" ] && echo same-modes; read line; echo then-$line"
    )
}

fn is_restored(session: &mut Session, code: u8) {
    session.awaits(LEAVE);
    session.awaits(&format!("code-{code}"));
    session.awaits("same-modes");
    session.type_in("two\n");
    session.awaits("then-two");
}

#[test]
fn a_terminal_shows_a_lock_that_is_taken_meanwhile_and_q_restores_the_terminal() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let script = script("$Q top job --interval 100ms");
    let mut session = Session::start_with_size(&urls, &script, WIDE);
    session.awaits(ENTER);
    session.awaits("1 of 1 nodes answer; a lock needs 1");
    session.awaits("free");
    let holder = start(run(&urls, &["--name", "job"], "echo ready; cat"));
    session.awaits(&label(holder.id()));
    // The column SEEN FOR grows; a slow terminal skips some of its values.
    let grows = (0..200).any(|_| {
        session.awaits("job   ");
        session.awaits("s ").parse::<u64>().is_ok_and(|seconds| seconds > 0)
    });
    assert!(grows);
    session.type_in("q");
    is_restored(&mut session, 0);
}

#[test]
fn a_terminal_that_is_resized_is_drawn_anew_before_the_nodes_are_asked_again() {
    let Some(servers) = servers(1) else { return };
    let script = script("$Q top job --interval 1h");
    let mut session = Session::start_with_size(&servers.urls(), &script, WIDE);
    session.awaits("free");
    let rest = session.awaits("q: quit");
    assert!(!rest.contains('…'), "{rest}");
    session.resize((29, 20));
    // The line is cut.
    session.awaits("1 of 1 nodes answer; a lock …");
    let rest = session.awaits("q: quit");
    assert!(!rest.contains("CONNECTIONS") && rest.contains("free"), "{rest}");
    session.resize(WIDE);
    session.awaits("CONNECTIONS");
    session.type_in("\x03");
    is_restored(&mut session, 130);
}

#[test]
fn a_server_that_dies_and_comes_back_changes_its_row() {
    let Some(servers) = servers(1) else { return };
    let script = script("$Q top job --interval 100ms");
    let mut session = Session::start_with_size(&servers.urls(), &script, WIDE);
    session.awaits("1 of 1 nodes answer");
    servers[0].kill().unwrap();
    session.awaits("0 of 1 nodes answer");
    session.awaits("refused");
    servers[0].restart().unwrap();
    session.awaits("1 of 1 nodes answer");
    session.type_in("q");
    is_restored(&mut session, 0);
}

#[test]
fn a_signal_that_ends_it_restores_the_terminal() {
    let Some(servers) = servers(1) else { return };
    let script = script("sh -c 'echo pid-$$-; exec $Q top job'");
    let mut session = Session::start_with_size(&servers.urls(), &script, WIDE);
    session.awaits("pid-");
    let pid = session.awaits("-").parse().unwrap();
    session.awaits("free");
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    is_restored(&mut session, 143);
}
