use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};

use super::faketime;

/// The number of bytes of a server's log that are kept, from its end.
const LOG_BYTES: usize = 64 * 1024;

/// A server process that dies when this value is dropped, or when our process ends in any way.
///
/// `PR_SET_PDEATHSIG` would need unsafe code, depends on the spawning thread, and exists on Linux
/// only. So the server is the child of a shell that waits for the end of a pipe, which we hold: see
/// `leash.sh`. The shell reaps the dead server only on our command. Until then its process id
/// cannot belong to another process, so a signal cannot hit the wrong one.
#[derive(Debug)]
pub(super) struct ParentDeathGuard {
    pid: Pid,
    shell: Child,
    log: Arc<Mutex<VecDeque<u8>>>,
    /// Ends when the server ends.
    reader: JoinHandle<()>,
}

impl ParentDeathGuard {
    /// Starts `program`. The shell removes `dir` if our process dies.
    pub(super) fn start(dir: &Path, program: &Path, arguments: &[OsString]) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", include_str!("leash.sh"), "leash"])
            .args([dir, program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C must reach only our process, which may still use the servers before it ends
            // them.
            .process_group(0)
            .spawn()?;
        let (Some(stdout), Some(stderr)) = (shell.stdout.take(), shell.stderr.take()) else {
            unreachable!("both are piped")
        };
        let log = Arc::default();
        let reader = std::thread::spawn({
            let log = Arc::clone(&log);
            move || keep_end(stderr, &log)
        });
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other(format!("sh answered {line:?}")))?;
        Ok(Self { pid, shell, log, reader })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    pub(super) fn has_ended(&self) -> bool {
        self.reader.is_finished()
    }

    /// Sends a signal to the server itself.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(self.pid, signal)?)
    }

    /// The end of the server's log.
    pub(super) fn log(&self) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&log.iter().copied().collect::<Vec<_>>()).trim_end().to_owned()
    }
}

impl Drop for ParentDeathGuard {
    /// Kills the server and waits until it is gone.
    fn drop(&mut self) {
        let _ = self.signal(Signal::KILL);
        if let Some(mut stdin) = self.shell.stdin.take() {
            let _ = stdin.write_all(b"\n");
        }
        let _ = self.shell.wait();
        faketime::clean(self.pid.as_raw_nonzero().get());
    }
}

fn keep_end(mut from: impl Read, log: &Mutex<VecDeque<u8>>) {
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend(&chunk[..length]);
        let surplus = log.len().saturating_sub(LOG_BYTES);
        log.drain(..surplus);
    }
}
