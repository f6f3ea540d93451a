//! The first process of a command under a lock. It is this program, run again: it arranges what only a
//! child can arrange for itself, and then becomes the command, with the same process id.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use quorumlock_command::{Failure, Outcome, exit};

use crate::run::terminal;

/// Becomes the command under the lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The process whose end ends the command.
    #[arg(long)]
    parent: u32,

    /// Make the process group the foreground of the terminal.
    #[arg(long)]
    foreground: bool,

    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// The arguments by which [`exec`] runs `command`.
    pub(super) fn of(command: &[OsString], foreground: bool) -> Vec<OsString> {
        let mut args: Vec<OsString> =
            vec!["exec".into(), "--parent".into(), std::process::id().to_string().into()];
        args.extend(foreground.then(|| "--foreground".into()));
        args.push("--".into());
        args.extend_from_slice(command);
        args
    }
}

/// Returns only if the command cannot be executed.
pub(crate) fn exec(args: &Args) -> Outcome {
    let failed =
        |error: io::Error| Failure::new(exit::SOFTWARE, format!("cannot prepare: {error}"));
    die_with_parent(args.parent).map_err(failed)?;
    if args.foreground {
        terminal::take().map_err(failed)?;
    }
    let Some((command, words)) = args.command.split_first() else {
        return Err(Failure::usage("no command is given"));
    };
    Err(cannot_execute(command, &Command::new(command).args(words).exec()))
}

pub(super) fn cannot_execute(command: &OsString, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::CANNOT_EXECUTE,
    };
    Failure::new(code, format!("cannot execute {}: {error}", command.display()))
}

/// The system kills this process when its parent ends, SIGKILL included. The thread that started this
/// process counts as the parent: it is the main thread.
#[cfg(target_os = "linux")]
fn die_with_parent(parent: u32) -> io::Result<()> {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before that.
    let parent = i32::try_from(parent).ok().and_then(Pid::from_raw);
    match getppid() == parent {
        true => Ok(()),
        false => Err(io::Error::other("quorumlock has ended")),
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: u32) -> io::Result<()> {
    Ok(())
}
