//! `quorumlock run` in a terminal, and at its own sudden end.

use std::env::current_exe;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::common::session::Session;
use crate::common::{finish, quorumlock, servers};

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";

#[test]
fn a_command_in_the_foreground_reads_from_the_terminal_which_its_caller_has_again_afterwards() {
    let Some(servers) = servers(1) else { return };
    let script = "$Q run --name job -- sh -c 'read a; echo got-$a; exit 3'; echo code-$?; read b; echo then-$b";
    let mut session = Session::start(&servers.urls(), script);
    session.type_in("one\n");
    session.awaits("got-one");
    session.awaits("code-3");
    session.type_in("two\n");
    session.awaits("then-two");
}

/// `set -m`: the shell gives each job a process group of its own.
#[test]
fn a_job_in_the_background_leaves_the_terminal_to_the_foreground() {
    let Some(servers) = servers(1) else { return };
    let script = "set -m; $Q run --name job -- sh -c 'echo ready; sleep 1000' & echo started; \
                  read a; echo got-$a; read b; echo then-$b; kill $!; wait $!; echo code-$?";
    let mut session = Session::start(&servers.urls(), script);
    session.awaits("ready");
    session.type_in("one\n");
    session.awaits("got-one");
    session.type_in("two\n");
    session.awaits("then-two");
    session.awaits("code-143");
}

#[test]
fn ctrl_c_reaches_the_command() {
    let Some(servers) = servers(1) else { return };
    let script = "trap : INT; $Q run --name job -- sh -c 'trap \"echo int; exit 5\" INT; echo ready; read a'; \
                  echo code-$?; read b; echo then-$b";
    let mut session = Session::start(&servers.urls(), script);
    session.awaits("ready");
    session.type_in(CTRL_C);
    session.awaits("int");
    session.awaits("code-5");
    session.type_in("two\n");
    session.awaits("then-two");
}

/// As where a script starts the tests in the background: its shell has them ignore these signals.
#[test]
fn ctrl_c_reaches_the_command_of_a_test_that_was_started_to_ignore_it() {
    let mut tests = Command::new("sh");
    tests.args(["-c", "trap '' INT QUIT; exec \"$@\"", "sh"]).arg(current_exe().unwrap());
    tests.args(["--exact", "terminal::ctrl_c_reaches_the_command"]);
    let ended = finish(tests).expect(0);
    assert!(ended.stdout.contains("1 passed"), "{ended:?}");
}

#[test]
fn ctrl_z_stops_the_command_which_keeps_its_lock_until_it_goes_on_or_ends() {
    let Some(servers) = servers(1) else { return };
    let script = "trap : INT; $Q run --name job --lease 1s -- sh -c 'echo ready; read a; echo got-$a; read b'; echo code-$?";
    let mut session = Session::start(&servers.urls(), script);
    session.awaits("ready");
    session.type_in(CTRL_Z);
    session.awaits("Ctrl-Z lets it go on");
    // Longer than the lease: quorumlock itself runs on.
    thread::sleep(Duration::from_millis(1_500));
    let mut status = quorumlock(&servers.urls());
    assert_eq!(
        status.args(["status", "job", "--exit-code"]).output().unwrap().status.code(),
        Some(1)
    );
    session.type_in(CTRL_Z);
    session.type_in("one\n");
    session.awaits("got-one");
    session.type_in(CTRL_Z);
    session.awaits("Ctrl-C ends it");
    session.type_in(CTRL_C);
    session.awaits("code-130");
}

#[test]
fn ctrl_c_ends_a_lock_that_is_kept_after_its_command() {
    let Some(servers) = servers(1) else { return };
    let script = "trap : INT; $Q run job --hold-at-least 1h -- sh -c 'echo ready; read a; exit 5'; \
                  echo code-$?";
    let mut session = Session::start(&servers.urls(), script);
    session.awaits("ready");
    session.type_in("one\n");
    session.await_foreground();
    session.type_in(CTRL_Z);
    session.awaits("Ctrl-C gives it up");
    session.type_in(CTRL_C);
    session.awaits("code-5");
}

#[test]
fn a_loss_ends_the_command_in_the_foreground_and_its_descendants() {
    let Some(servers) = servers(1) else { return };
    let script = "trap : INT; $Q run --name job --lease 1s -- sh -c 'sleep 1000 & echo pid-$!-; read a'; echo code-$?; \
                  read b; echo then-$b";
    let mut session = Session::start(&servers.urls(), script);
    session.awaits("pid-");
    session.awaits("-");
    let mut force = quorumlock(&servers.urls());
    assert!(force.args(["unlock", "--force", "job"]).output().unwrap().status.success());
    session.awaits("code-79");
    session.type_in("two\n");
    session.awaits("then-two");
}

#[test]
fn a_command_that_cannot_be_executed_gives_the_terminal_back() {
    let Some(servers) = servers(1) else { return };
    let script = "$Q run --name job -- /no/such/program; echo code-$?; read b; echo then-$b";
    let mut session = Session::start(&servers.urls(), script);
    session.awaits("cannot execute /no/such/program");
    session.awaits("code-127");
    session.type_in("two\n");
    session.awaits("then-two");
}

#[test]
#[cfg(target_os = "linux")]
fn the_command_dies_with_a_quorumlock_that_is_killed() {
    let Some(servers) = servers(1) else { return };
    let mut run = quorumlock(&servers.urls());
    run.args(["run", "--name", "job", "--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let mut run = run.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(run.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let command = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    test_kill_process(command).unwrap();
    kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
    run.wait().unwrap();
    // The pipe ends with the last process that has it.
    assert_eq!(output.read_line(&mut line).unwrap(), 0);
}
