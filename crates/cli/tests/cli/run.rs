//! `quorumlock run` against real servers: exit codes, environment, signals.

use std::thread::sleep;
use std::time::Duration;

use quorumlock_watchdog::Clock;

use crate::common::{
    Running, blank_servers, finish, quorumlock, run, servers, start, start_waiting,
};
use rustix::process::{Pid, Signal, kill_process};

/// One node; a quorum; quorums that have lost as many nodes as they can.
const FLEETS: [(usize, usize); 4] = [(1, 0), (3, 0), (3, 1), (5, 2)];

#[test]
fn the_exit_code_is_the_commands_own_and_the_lock_is_released() {
    for (count, dead) in FLEETS {
        let Some(servers) = servers(count) else { return };
        servers.iter().take(dead).for_each(|server| server.kill().unwrap());
        let urls = servers.urls();
        for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
            finish(run(&urls, &["--name", "job"], script)).expect(code);
            let mut status = quorumlock(&urls);
            status.args(["status", "--exit-code", "job"]);
            finish(status).expect(0);
        }
    }
}

/// One process in sixteen waits for the node, of a list whose nodes must prove their memory.
#[test]
fn a_node_that_hangs_costs_a_short_command_nothing() {
    let longest = Duration::from_secs(5);
    let options = ["--name", "job", "--answer-timeout", "5s", "--connect-timeout", "5s"];
    for (admission, runs) in [("strict", 5), ("redlock", 1)] {
        let servers = if admission == "strict" { servers(3) } else { blank_servers(3) };
        let Some(servers) = servers else { return };
        servers[1].pause().unwrap();
        let options = [&options[..], &["--admission", admission]].concat();
        let mut took = (0..runs).map(|_| {
            let (clock, command) = (Clock::system(), run(&servers.urls(), &options, "exit 0"));
            let began = clock.now();
            finish(command).expect(0);
            clock.now().since(began)
        });
        // The first one that does not wait is enough.
        assert!(took.any(|took| took < longest), "{admission}");
    }
}

#[test]
fn the_command_learns_the_name_and_a_growing_token() {
    for (count, dead) in FLEETS {
        let Some(servers) = servers(count) else { return };
        servers.iter().take(dead).for_each(|server| server.kill().unwrap());
        let token = || {
            let script = r#"test "$QUORUMLOCK_NAME" = "a b" && echo "$QUORUMLOCK_TOKEN""#;
            let done = finish(run(&servers.urls(), &["--name", "a b"], script)).expect(0);
            done.stdout.trim().parse::<u64>().unwrap()
        };
        let first = token();
        assert!(first < token());
    }
}

#[test]
fn a_lock_that_is_held_is_busy_after_the_wait() {
    for (count, dead) in FLEETS {
        let Some(servers) = servers(count) else { return };
        servers.iter().take(dead).for_each(|server| server.kill().unwrap());
        let urls = servers.urls();
        let mut holder = start(run(&urls, &["--name", "job"], "echo ready; cat"));
        for wait in ["0s", "100ms"] {
            let refused = finish(run(&urls, &["--name", "job", "--wait", wait], "echo never"));
            assert_eq!(refused.expect(75).says(&["job is held by"]).stdout, "");
        }
        finish(run(&urls, &["--name", "other", "--wait", "0s"], "exit 0")).expect(0);
        holder.close_stdin();
        holder.finish().expect(0);
    }
}

#[test]
fn a_waiter_gets_the_lock_when_it_is_released() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let mut holder = start(run(&urls, &["--name", "job"], "echo ready; cat"));
        let mut waiter = Running::spawn(run(&urls, &["--name", "job"], "echo mine"));
        waiter.await_message("waiting for the lock job: job is held by ");
        let options = ["--name", "job", "--wait", "2s", "--quiet"];
        let refused = finish(run(&urls, &options, "echo never")).expect(75);
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
        holder.close_stdin();
        assert_eq!(waiter.finish().expect(0).stdout, "mine\n");
        holder.finish().expect(0);
    }
}

#[test]
fn several_names_are_held_together() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let both = ["--name", "b", "--name", "a"];
        let script = r#"echo ready; cat; echo "$QUORUMLOCK_NAME""#;
        let mut holder = start(run(&urls, &both, script));
        for name in ["a", "b"] {
            let busy = finish(run(&urls, &["--name", name, "--wait", "0s"], "echo never"));
            assert_eq!(busy.expect(75).says(&[name]).stdout, "");
        }
        let overlapping = ["--name", "c", "--name", "b", "--wait", "0s"];
        finish(run(&urls, &overlapping, "echo never")).expect(75).says(&["b, c"]);
        finish(run(&urls, &["--name", "c", "--wait", "0s"], "exit 0")).expect(0);
        holder.close_stdin();
        assert_eq!(holder.finish().expect(0).stdout, "a\nb\n");
        finish(run(&urls, &both, "exit 0")).expect(0);
    }
}

#[test]
fn a_name_is_an_argument_or_an_option() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let names = |arguments: &[&str]| {
        let script = r#"echo "$QUORUMLOCK_NAME""#;
        finish(run(&urls, arguments, script)).expect(0).stdout
    };
    for one in [&["a"][..], &["-n", "a"], &["--name", "a"], &["-na"], &["a", "-n", "a"]] {
        assert_eq!(names(one), "a\n", "{one:?}");
    }
    for both in [&["b", "a"][..], &["-n", "a", "-n", "b"], &["b", "--wait", "1s", "--name", "a"]] {
        assert_eq!(names(both), "a\nb\n", "{both:?}");
    }
    assert_eq!(names(&["a", "--permits", "2"]), "a\n");
    for url in [&["http://a"][..], &["-n", "redis://a"]] {
        assert_eq!(names(url), format!("{}\n", url[url.len() - 1]));
    }
    let mut holder = start(run(&urls, &["job"], "echo ready; cat"));
    finish(run(&urls, &["-n", "job", "--wait", "0s"], "echo never")).expect(75).says(&["job"]);
    holder.close_stdin();
    holder.finish().expect(0);
}

/// What a number without a unit means shows in the messages about times that do not fit.
#[test]
fn a_number_without_a_unit_is_seconds() {
    let run = |options: &[&str]| finish(run(&["redis://127.0.0.1:1".into()], options, "true"));
    for (lease, grace) in [("9", "8"), ("9s", "8s"), ("0.15m", "8000ms")] {
        let options = ["x", "--lease", lease, "--grace", grace];
        run(&options).expect(64).says(&["--grace 8s", "--lease 9s"]);
    }
    run(&["x", "--hold-at-most", "2", "--grace", "1.5"]).expect(64).says(&["--hold-at-most 2s"]);
    run(&["x", "--max-lease", "20", "--lease", "30"]).expect(64).says(&["30s", "20s"]);
    // The lease is no longer than the longest.
    run(&["x", "--max-lease", "20", "--wait", "0.3"]).expect(69);
    run(&["x", "--wait", "0.3"]).expect(69);
}

#[test]
fn without_a_majority_nothing_runs() {
    for (count, dead) in [(1, 1), (3, 2), (5, 3)] {
        let Some(servers) = servers(count) else { return };
        servers.iter().take(dead).for_each(|server| server.kill().unwrap());
        let urls = servers.urls();
        let refused =
            finish(run(&urls, &["--name", "job", "--wait", "1s"], "echo never")).expect(69);
        let address = servers[0].addr().unwrap().to_string();
        assert_eq!(refused.says(&[&address]).stdout, "");
    }
}

#[test]
fn a_command_that_cannot_be_executed_releases_the_lock() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    for (command, code) in [("/no/such/command", 127), ("/", 126)] {
        let mut command_line = quorumlock(&urls);
        command_line.args(["run", "--name", "job", "--", command]);
        finish(command_line).expect(code).says(&[command]);
        finish(run(&urls, &["--name", "job", "--wait", "0s"], "exit 0")).expect(0);
    }
}

#[test]
fn a_url_where_a_name_belongs_is_refused() {
    let url = "redis://u:pw@r1/2";
    let leads = ["lead", url, "--", "true"];
    for command in [&["status", url][..], &["unlock", "--force", url], &["top", url], &leads] {
        let mut misplaced = quorumlock(&["redis://127.0.0.1:1".to_owned()]);
        misplaced.args(command);
        let says = "redis://***@r1/2 is the URL of a node: put --node before it";
        finish(misplaced).expect(64).says(&[says]);
    }
}

#[test]
fn bad_usage_is_told_apart() {
    let nowhere = ["redis://127.0.0.1:1".to_owned()];
    let bad = |arguments: &[&str], part: &str| {
        let mut command = quorumlock(&nowhere);
        command.args(arguments);
        finish(command).expect(64).says(&[part]);
    };
    bad(&[], "Usage");
    bad(&["fly"], "fly");
    bad(&["run", "--name", "x"], "COMMAND");
    // The second word is a name without `--`.
    bad(&["run", "x", "true"], "COMMAND");
    for form in ["<NAME|", "--name <NAME>"] {
        bad(&["run", "--", "true"], form);
    }
    bad(&["run", "x", "redis://r1", "--", "true"], "redis://r1 is the URL of a node: put --node");
    bad(&["run", "a", "-n", "b", "--permits", "2", "--", "true"], "--permits takes one name");
    bad(&["run", "--name", "", "--", "true"], "name");
    bad(&["run", "--name", "x", "--lease", "soon", "--", "true"], "soon");
    bad(&["run", "--name", "x", "--lease", "0s", "--", "true"], "lease");
    for option in ["--wait", "--lease", "--hold-at-most", "--grace", "--max-lease"] {
        let usage = ["run", "x", option, "1m30", "--", "true"];
        for part in [option, "\"1m30\" is no duration", "seconds, as 30"] {
            bad(&usage, part);
        }
        let usage = ["run", "x", option, "90", "--permits", "0", "--", "true"];
        bad(&usage, "'--permits <K>'"); // and not the option
    }
    bad(&["doctor", "--timeout", "5x"], "\"5x\" is no duration");
    bad(&["run", "--name", "x", "--lease", "2s", "--grace", "2s", "--", "true"], "--grace 2s");
    bad(&["run", "--name", "x", "--lease", "10ms", "--", "true"], "Use 100ms at least");
    bad(
        &["run", "--name", "x", "--tls-ca", "/no/such/file", "--", "true"],
        "servers without rediss://",
    );
    bad(&["run", "--name", "x", "--node", "http://x", "--", "true"], "http");
    bad(&["unlock", "x"], "--force");

    // A comma too many must not turn a quorum into a single node, which would be another lock.
    for (nodes, which) in [("a,", "node 2 of 2"), ("a,,b", "node 2 of 3"), (",a", "node 1 of 2")] {
        for command in [vec!["status", "x"], vec!["doctor"], vec!["init"]] {
            let mut with_a_gap = quorumlock(&[]);
            with_a_gap.env("QUORUMLOCK_NODES", nodes).args(command);
            finish(with_a_gap).expect(64).says(&[which, "is empty"]);
        }
    }

    // Options for a quorum only, on the command line or in the environment.
    for (variable, value, option) in [
        ("QUORUMLOCK_ADMISSION", "redlock", "admission"),
        ("QUORUMLOCK_CLOCK_BOUND", "2s", "clock_bound"),
    ] {
        for arguments in [&["status", "x"][..], &["doctor"], &["run", "--name", "x", "--", "true"]]
        {
            let mut single = quorumlock(&nowhere);
            single.env(variable, value).args(arguments);
            finish(single).expect(64).says(&[option, "a single server"]);
        }
    }
    bad(&["doctor", "--max-lease", "1ms"], "max_lease");

    let mut without_nodes = quorumlock(&[]);
    without_nodes.args(["run", "--name", "x", "--", "true"]);
    finish(without_nodes).expect(64);
    let mut help = quorumlock(&[]);
    help.arg("--help");
    assert!(finish(help).expect(0).stdout.contains("Usage"));
}

#[test]
fn signals_are_passed_on_to_the_command() {
    let Some(servers) = servers(1) else { return };
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        // The shell handles a signal only between two commands: the loop makes sure that there is a
        // next one.
        let script = "while :; do sleep 0.05; done";
        let script = format!("trap 'echo got {name}; exit 3' {name}; echo ready; {script}");
        let job = start(run(&servers.urls(), &["--name", "job"], &script));
        job.signal(signal);
        assert_eq!(job.finish().expect(3).stdout, format!("got {name}\n"));
    }
}

#[test]
fn a_command_that_heeds_no_signal_keeps_its_lock() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let script = "trap 'echo no' INT; echo ready; while ! read line; do :; done; exit 4";
    let mut job = start(run(&urls, &["--name", "job"], script));
    for _ in 0..2 {
        job.signal(Signal::INT);
        job.await_line("no");
    }
    finish(run(&urls, &["--name", "job", "--wait", "0s"], "exit 0")).expect(75);
    job.say("enough");
    job.finish().expect(4);
}

#[test]
fn a_signal_ends_the_wait_for_the_lock() {
    let Some(servers) = servers(3) else { return };
    let urls = servers.urls();
    let mut holder = start(run(&urls, &["--name", "job"], "echo ready; cat"));
    let waiter = start_waiting(run(&urls, &["--name", "job"], "echo never"));
    waiter.signal(Signal::TERM);
    assert_eq!(waiter.finish().expect(143).stdout, "");
    holder.close_stdin();
    holder.finish().expect(0);
}

#[test]
fn any_signal_that_ends_a_program_ends_the_wait_for_the_lock() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let mut holder = start(run(&urls, &["job"], "echo ready; cat"));
    for (signal, code) in [(Signal::HUP, 129), (Signal::USR1, 138), (Signal::USR2, 140)] {
        let waiter = start_waiting(run(&urls, &["job"], "echo never"));
        waiter.signal(signal);
        assert_eq!(waiter.finish().expect(code).stdout, "");
    }
    holder.close_stdin();
    holder.finish().expect(0);
}

#[test]
fn what_the_caller_ignores_stays_ignored_and_a_stop_is_refused() {
    let Some(servers) = servers(1) else { return };
    let binary = env!("CARGO_BIN_EXE_quorumlock");
    let script = format!("trap '' HUP; exec {binary} run --name job -- sh -c 'echo ready; cat'");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).env("QUORUMLOCK_NODES", servers.urls().join(","));
    let mut job = start(command);
    job.signal(Signal::HUP);
    job.signal(Signal::TSTP);
    job.await_message("not stopped");
    job.close_stdin();
    job.finish().expect(0);
}

#[test]
#[cfg(target_os = "linux")]
fn what_the_command_leaves_in_the_background_is_told_and_goes_on() {
    let Some(servers) = servers(1) else { return };
    for background in ["sleep 1000", "setsid sleep 1000"] {
        let script = format!("{background} < /dev/null > /dev/null 2>&1 & echo $!");
        let ended = finish(run(&servers.urls(), &["job"], &script)).expect(0);
        let left = ended.stdout.trim().parse().unwrap();
        kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).expect("it lives");
        let told = "left 1 process, which runs on without the lock: ";
        ended.says(&[told, &format!("({left})")]);
    }
    let ended = finish(run(&servers.urls(), &["job"], "true & wait")).expect(0);
    assert_eq!(ended.stderr, "");
}

#[test]
#[cfg(target_os = "linux")]
fn orphans_of_the_command_leave_no_zombies() {
    let Some(servers) = servers(1) else { return };
    let script = "for i in 1 2 3 4 5; do (sleep 0.01 &); done; echo ready; cat";
    let job = start(run(&servers.urls(), &["job"], script));
    let children = format!("/proc/{id}/task/{id}/children", id = job.id());
    let count = || std::fs::read_to_string(&children).unwrap().split_whitespace().count();
    // No event tells.
    let is_one = || (count() == 1).then_some(()).ok_or_else(|| sleep(Duration::from_millis(5)));
    (0..10_000).find_map(|_| is_one().ok()).expect("one child: the command");
    job.signal(Signal::TERM);
    job.finish().expect(143);
}

#[test]
fn a_stopped_command_is_told_of_and_still_heeds_signals() {
    let Some(servers) = servers(1) else { return };
    let script = "echo ready; kill -STOP $$; echo never";
    let mut job = start(run(&servers.urls(), &["--name", "job"], script));
    job.await_message("the command was stopped");
    job.signal(Signal::TERM);
    assert_eq!(job.finish().expect(143).stdout, "");
}
