//! Runs the command as a process, with servers for it.
#![allow(dead_code, reason = "each test program uses a part of this")]

pub(crate) mod session;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use quorumlock_testbed::command::command;
pub(crate) use quorumlock_testbed::command::{Finished, finish};
use quorumlock_testbed::servers::{Server, ServerOptions, Servers, ask, for_test};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Servers of the test's own, or `None` on a machine without a server program. Those of a quorum
/// are admitted.
pub(crate) fn servers(count: usize) -> Option<Servers> {
    let servers = blank_servers(count)?;
    if count > 1 {
        let mut init = quorumlock(&servers.urls());
        init.arg("init");
        finish(init).expect(0);
    }
    Some(servers)
}

/// As [`servers`], but not admitted.
pub(crate) fn blank_servers(count: usize) -> Option<Servers> {
    for_test(count, &ServerOptions::default())
}

/// The servers' labels in lists of nodes, in order of the lists.
pub(crate) fn labels(servers: &Servers) -> Vec<String> {
    let label = |server: &Server| format!("{}/0", server.addr().unwrap());
    let mut labels = servers.iter().map(label).collect::<Vec<_>>();
    labels.sort();
    labels
}

pub(crate) const QUORUMLOCK: &str = env!("CARGO_BIN_EXE_quorumlock");

/// The nodes, with what they are to each other: `replicated:` or `cluster:`.
pub(crate) fn of(kind: &str, urls: &[String]) -> Vec<String> {
    let mut urls = urls.to_vec();
    urls[0].insert_str(0, kind);
    urls
}

/// `quorumlock` on these nodes.
pub(crate) fn quorumlock(urls: &[String]) -> Command {
    program(QUORUMLOCK, urls)
}

/// A program that runs `quorumlock` on these nodes, without environment variables that would change
/// its options.
pub(crate) fn program(program: &str, urls: &[String]) -> Command {
    let mut command = command(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUORUMLOCK_")) {
        command.env_remove(name);
    }
    command.env("QUORUMLOCK_NODES", urls.join(","));
    command
}

/// `quorumlock run` with these options, and a command for the shell.
pub(crate) fn run(urls: &[String], options: &[&str], script: &str) -> Command {
    let mut command = quorumlock(urls);
    command.arg("run").args(options).args(["--", "sh", "-c", script]);
    command
}

/// Waits until each server has one of these keys: a call returns once a majority has granted.
pub(crate) fn await_on_all(servers: &Servers, keys: &[&str]) {
    let exists = [&["EXISTS"], keys].concat();
    for server in servers.iter() {
        while ask(server.addr().unwrap(), &exists).unwrap() == "0" {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Waits until a command with this process id has ended, and quorumlock has seen that.
pub(crate) fn await_end(id: &str) {
    let command = Pid::from_raw(id.trim().parse().unwrap()).unwrap();
    // No event tells what quorumlock has seen.
    while test_kill_process(command) != Err(Errno::SRCH) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// A running process, which is ended if the test fails.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

/// Starts the process and waits until the command under the lock prints `ready`.
pub(crate) fn start(command: Command) -> Running {
    let mut running = Running::spawn(command);
    running.await_line("ready");
    running
}

/// Starts the process and waits until it reports that it waits for the lock.
pub(crate) fn start_waiting(command: Command) -> Running {
    let mut running = Running::spawn(command);
    running.await_message("waiting");
    running
}

impl Running {
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    #[track_caller]
    pub(crate) fn await_line(&mut self, line: &str) {
        let found = self.next_line();
        if found != line {
            let mut said = String::new();
            self.stderr.read_to_string(&mut said).unwrap();
            panic!("{found:?} instead of {line:?}; {said}");
        }
    }

    /// The next line that the process prints; empty at the end.
    pub(crate) fn next_line(&mut self) -> String {
        let mut found = String::new();
        self.stdout.read_line(&mut found).unwrap();
        found.trim_end().to_owned()
    }

    /// Asserts that the next message for people has this part.
    #[track_caller]
    pub(crate) fn await_message(&mut self, part: &str) {
        let found = self.next_message();
        assert!(found.contains(part), "{found:?}");
    }

    /// The next message for people, but for the library's warnings; empty at the end.
    pub(crate) fn next_message(&mut self) -> String {
        loop {
            let mut found = String::new();
            self.stderr.read_line(&mut found).unwrap();
            if !found.contains(" WARN ") {
                return found;
            }
        }
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Writes a line to the process's standard input.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Closes the process's standard input.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn finish(mut self) -> Finished {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        Finished { code: self.child.wait().unwrap().code(), stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Not SIGKILL: the command under the lock must end, too.
            self.close_stdin();
            self.signal(Signal::TERM);
        }
    }
}
