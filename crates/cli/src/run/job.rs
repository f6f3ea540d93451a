use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorumlock::Guard;
use quorumlock::kind::Kind;
use quorumlock_command::{exit, say};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, test_kill_process_group,
    waitid,
};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind};
use tokio::time::sleep;

use super::descendants::{Descendants, Process};
use super::exec;
use super::outer_holds::OuterHolds;
use super::terminal::{self, Terminal};

/// Between two looks at the descendants.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// The command under the lock, and its descendants. The command leads a process group.
#[derive(Debug)]
pub(super) struct Job {
    child: Child,
    group: Pid,
    descendants: Descendants,
    /// Set if the command stands in the foreground of the terminal.
    terminal: Option<Terminal>,
    /// Whether the user has stopped the command in the foreground.
    stopped: Arc<AtomicBool>,
}

impl Job {
    /// `slot`: the number of the slot, if a permit is held.
    pub(super) fn start<K: Kind>(
        command: &[OsString],
        guard: &Guard<K>,
        slot: Option<u16>,
        outer: &OuterHolds,
    ) -> io::Result<Self> {
        let changes = unix::signal(SignalKind::child())?;
        let terminal = Terminal::ours();
        let mut first = first_process(command, terminal.is_some());
        first
            .env("QUORUMLOCK_NAME", guard.names().collect::<Vec<_>>().join("\n"))
            .env("QUORUMLOCK_TOKEN", guard.token().to_string())
            .env(OuterHolds::VARIABLE, outer.with(guard.nonce()))
            .process_group(0)
            .kill_on_drop(true);
        match slot {
            Some(slot) => first.env("QUORUMLOCK_SLOT", slot.to_string()),
            // A `run` around this one may have set it: that slot is not of this name.
            None => first.env_remove("QUORUMLOCK_SLOT"),
        };
        let mut descendants = Descendants::adopt()?;
        let child = first.spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let group = pid.ok_or_else(|| io::Error::other("the command has no process id"))?;
        let stopped = Arc::<AtomicBool>::default();
        tokio::spawn(report_stops(group, changes, terminal.is_some().then(|| stopped.clone())));
        descendants.reap_all_but(group)?;
        Ok(Self { child, group, descendants, terminal, stopped })
    }

    /// Waits until the command itself has ended.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Waits until the command and all its descendants have ended.
    pub(super) async fn all_ended(&mut self) -> io::Result<()> {
        self.ended().await?;
        // The system reports only the end of our own children.
        while self.is_alive() {
            sleep(POLL_EVERY).await;
        }
        Ok(())
    }

    fn is_alive(&self) -> bool {
        match self.descendants.alive() {
            Some(alive) => !alive.is_empty(),
            None => test_kill_process_group(self.group) != Err(Errno::SRCH),
        }
    }

    /// What is left of the job, after the command has ended. Gives the terminal back.
    pub(super) fn into_descendants(self) -> Descendants {
        self.descendants
    }

    /// Asks the command and all its descendants to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
        let mut elsewhere = self.descendants.alive().unwrap_or_default();
        elsewhere.retain(|process| process.group != self.group.as_raw_nonzero().get());
        for process in &elsewhere {
            // One that has ended, or has other privileges, is met again by `kill`.
            let _ = kill_process(process.id, Signal::TERM);
            let _ = kill_process(process.id, Signal::CONT);
        }
    }

    /// Kills the command and all its descendants, and waits until they have ended. Those that the
    /// system does not let this process kill are told of.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.signal(Signal::KILL);
        let mut spared = Vec::<Process>::new();
        // One that is not killed yet may start others meanwhile.
        while let Some(mut alive) = self.descendants.alive() {
            alive.retain(|process| !spared.iter().any(|spared| spared.is(process)));
            if alive.is_empty() {
                break;
            }
            for process in alive {
                match kill_process(process.id, Signal::KILL) {
                    Ok(()) | Err(Errno::SRCH) => {}
                    Err(error) => {
                        say(format_args!("{process} goes on without the lock: {error}"));
                        spared.push(process);
                    }
                }
            }
            sleep(POLL_EVERY).await;
        }
        self.ended().await?;
        Ok(())
    }

    /// Passes a signal on. The user stops and resumes a command in the foreground by Ctrl-Z.
    pub(super) fn signal(&self, signal: Signal) {
        if signal == Signal::TSTP && !self.stopped.load(Ordering::SeqCst) {
            return say("not stopped: a lock must be renewed. Ctrl-C ends the command");
        }
        if let (Some(terminal), true) = (&self.terminal, self.stopped.swap(false, Ordering::SeqCst))
        {
            terminal.give(self.group);
        }
        let signal = if signal == Signal::TSTP { Signal::CONT } else { signal };
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

/// On Linux the command dies with this process; elsewhere the command is started at once.
fn first_process(command: &[OsString], foreground: bool) -> Command {
    if cfg!(target_os = "linux") || foreground {
        // It leads to this program even if its file has been replaced.
        let program = if cfg!(target_os = "linux") {
            "/proc/self/exe".into()
        } else {
            std::env::current_exe().unwrap_or_else(|_| "quorumlock".into())
        };
        let mut first = Command::new(program);
        first.arg0("quorumlock").args(exec::Args::of(command, foreground));
        return first;
    }
    let mut direct = Command::new(&command[0]);
    direct.args(&command[1..]);
    direct
}

/// Reports a command that was stopped, by Ctrl-Z or because it reads from the terminal; it would look
/// like one that works. `foreground`: set for a command in the foreground of the terminal.
async fn report_stops(
    command: Pid,
    mut changes: unix::Signal,
    foreground: Option<Arc<AtomicBool>>,
) {
    while changes.recv().await.is_some() {
        match waitid(WaitId::Pid(command), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG) {
            Ok(None) => {}
            Ok(Some(_)) => match &foreground {
                Some(stopped) => {
                    stopped.store(true, Ordering::SeqCst);
                    let _ = terminal::take();
                    say("the command is stopped and keeps its lock. Ctrl-Z lets it go on, Ctrl-C \
                         ends it");
                }
                None => say(
                    "the command was stopped and keeps its lock. It cannot read from the terminal: \
                     if it tried to, end it and give it its input by < or by a pipe",
                ),
            },
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
