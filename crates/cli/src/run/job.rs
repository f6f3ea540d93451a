use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use quorumlock::Guard;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};

use crate::exit;
use crate::output::say;

/// The command under the lock, and its descendants: one process group.
#[derive(Debug)]
pub(super) struct Job {
    child: Child,
    group: Pid,
}

impl Job {
    pub(super) fn start(command: &[OsString], guard: &Guard) -> io::Result<Self> {
        let changes = unix::signal(SignalKind::child())?;
        let child = Command::new(&command[0])
            .args(&command[1..])
            .env("QUORUMLOCK_NAME", guard.name())
            .env("QUORUMLOCK_FENCE", guard.fence().to_string())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let group = pid.ok_or_else(|| io::Error::other("the command has no process id"))?;
        tokio::spawn(report_stops(group, changes));
        Ok(Self { child, group })
    }

    /// Waits until the command itself has ended.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Waits until the command and all its descendants have ended.
    pub(super) async fn all_ended(&mut self) -> io::Result<()> {
        /// The system reports only the end of our own child, so the group is polled.
        const POLL_EVERY: Duration = Duration::from_millis(10);

        self.ended().await?;
        while test_kill_process_group(self.group) != Err(Errno::SRCH) {
            tokio::time::sleep(POLL_EVERY).await;
        }
        Ok(())
    }

    pub(super) fn signal(&self, signal: Signal) {
        // A stopped process handles a signal only after SIGCONT.
        for signal in [signal, Signal::CONT] {
            match kill_process_group(self.group, signal) {
                // The command ended meanwhile: `ended` and `all_ended` report that.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => {
                    say(format_args!("{signal:?} could not be sent to the command: {error}"));
                }
            }
        }
    }
}

/// Reports a command that was stopped because it reads from the terminal; it would look like one
/// that works.
async fn report_stops(command: Pid, mut changes: unix::Signal) {
    while changes.recv().await.is_some() {
        match waitid(WaitId::Pid(command), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG) {
            Ok(None) => {}
            Ok(Some(_)) => say(
                "the command was stopped and keeps its lock. It cannot read from the terminal: if \
                 it tried to, end it and give it its input by < or by a pipe",
            ),
            Err(_) => return, // it has ended
        }
    }
}

/// The exit code that reports how the command ended, as shells do it.
pub(super) fn code_of(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => code_of_signal(signal),
        (None, None) => exit::SOFTWARE,
    }
}

pub(super) fn code_of_signal(signal: i32) -> u8 {
    exit::SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX))
}
