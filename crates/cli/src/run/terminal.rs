//! Which process group a terminal listens to.

use std::io::{self, stdin};

use nix::sys::signal::{SigSet, Signal};
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

/// The terminal of stdin, while this process group is its foreground. The command's group becomes the
/// foreground; when this is dropped, ours is again.
#[derive(Debug)]
pub(super) struct Terminal(());

impl Terminal {
    /// The terminal, if stdin is one and this process group is its foreground.
    pub(super) fn ours() -> Option<Self> {
        let stdin = stdin();
        let ours = isatty(&stdin) && tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
        // Not `then_some`: to drop a terminal takes the foreground.
        ours.then(|| Self(()))
    }

    /// Makes the command's group the foreground again, after [`take`].
    pub(super) fn give(&self, group: rustix::process::Pid) {
        // The terminal may be gone: then the command's reads say so.
        let _ = unstopped(|| tcsetpgrp(stdin(), group));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = take();
    }
}

/// Makes this process group the foreground of the terminal of stdin.
pub(super) fn take() -> io::Result<()> {
    unstopped(|| tcsetpgrp(stdin(), getpgrp()))
}

/// Only the foreground may change the foreground: the system stops others by SIGTTOU, unless the thread
/// blocks that signal.
fn unstopped(change: impl FnOnce() -> rustix::io::Result<()>) -> io::Result<()> {
    let signals = SigSet::from(Signal::SIGTTOU);
    signals.thread_block()?;
    let changed = change();
    signals.thread_unblock()?;
    Ok(changed?)
}
