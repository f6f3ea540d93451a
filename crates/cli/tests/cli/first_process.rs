//! `quorumlock` as the first process of a container: the system ignores a signal to such a process,
//! unless the process handles it.

use std::fs;
use std::process::Command;

use quorumlock_testbed::skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{QUORUMLOCK, Running, finish, program, quorumlock, run, servers, start};

/// `quorumlock` with these words, as process 1 of a namespace; its parent is `unshare`.
fn first_process(urls: &[String], words: &[&str]) -> Command {
    let mut unshare = program("unshare", urls);
    unshare.args(["--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child", "--"]);
    unshare.arg(QUORUMLOCK).args(words);
    unshare
}

/// Whether this machine lets the test make namespaces.
fn can_be_first() -> bool {
    match first_process(&[], &["--version"]).output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let why = format!("no namespaces: {}", String::from_utf8_lossy(&output.stderr));
            skip("QUORUMLOCK_REQUIRE_NAMESPACES", &why);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Sends the signal to the only child of `unshare`.
fn signal(unshare: &Running, signal: Signal) {
    let id = unshare.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let child = children.trim().parse().unwrap_or_else(|_| panic!("{children:?}"));
    kill_process(Pid::from_raw(child).unwrap(), signal).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn sigterm_to_process_1_reaches_the_command_and_the_lock_is_released() {
    if !can_be_first() {
        return;
    }
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let heeds = "trap 'echo told; exit 3' TERM; echo parent $PPID; read line";
    let dies = "echo parent $PPID; exec cat";
    for subcommand in ["run", "lead"] {
        for (script, told, code) in [(heeds, "told\n", 3), (dies, "", 143)] {
            let words = [subcommand, "job", "--", "sh", "-c", script];
            let mut container = Running::spawn(first_process(&urls, &words));
            container.await_line("parent 1");
            let mut status = quorumlock(&urls);
            status.args(["status", "job", "--exit-code"]);
            finish(status).expect(1);
            signal(&container, Signal::TERM);
            assert_eq!(container.finish().expect(code).stdout, told, "{subcommand}");
            finish(run(&urls, &["job", "--wait", "0"], "exit 0")).expect(0);
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn sigterm_ends_process_1_while_it_waits_or_only_keeps_the_lock() {
    if !can_be_first() {
        return;
    }
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let mut holder = start(run(&urls, &["job"], "echo ready; cat"));
    let mut waiter = Running::spawn(first_process(&urls, &["run", "job", "--", "echo", "never"]));
    waiter.await_message("waiting");
    signal(&waiter, Signal::TERM);
    assert_eq!(waiter.finish().expect(143).stdout, "");
    holder.close_stdin();
    holder.finish().expect(0);

    // TSTP is refused, with other words while the command runs.
    let words = ["run", "job", "--hold-at-least", "1h", "--", "echo", "done"];
    let mut keeps = Running::spawn(first_process(&urls, &words));
    keeps.await_line("done");
    loop {
        signal(&keeps, Signal::TSTP);
        match keeps.next_message() {
            message if message.contains("Ctrl-C gives it up") => break,
            message => assert!(message.contains("not stopped"), "{message:?}"),
        }
    }
    signal(&keeps, Signal::TERM);
    keeps.finish().expect(0);
    finish(run(&urls, &["job", "--wait", "0"], "exit 0")).expect(0);
}
