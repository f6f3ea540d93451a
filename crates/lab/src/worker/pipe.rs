//! A worker process, as the program that started it sees it: orders in, lines out.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

use super::protocol::{Greeting, Hello, Line, PROTOCOL, Request, Topology};

/// The process and its input. It is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct Pipe {
    child: Child,
    /// `None` after [`close`](Self::close).
    input: Mutex<Option<ChildStdin>>,
    /// Whether the process leads a group of its own, which ends with it.
    leads: bool,
}

/// The lines of a worker.
#[derive(Debug)]
pub(super) struct Output(Lines<BufReader<ChildStdout>>);

/// What a worker printed.
#[derive(Debug)]
pub(super) enum Said {
    Line(Box<Line>),
    /// A text that is not a line of the protocol, and what is wrong with it.
    Noise(String),
}

/// In which process group a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// In that of its parent: a signal to that group reaches it, too.
    OfParent,
    /// In one of its own.
    Own,
}

impl Pipe {
    /// Starts the command by a shell.
    pub(super) fn start(command: &str, group: Group) -> io::Result<(Self, Output)> {
        let leads = group == Group::Own;
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped());
        if leads {
            shell.process_group(0);
        }
        let mut child = shell.stderr(Stdio::inherit()).kill_on_drop(true).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are piped")
        };
        let input = Mutex::new(Some(input));
        Ok((Self { child, input, leads }, Output(BufReader::new(output).lines())))
    }

    pub(super) async fn send(&self, request: &Request) -> io::Result<()> {
        let line = serde_json::to_string(request)? + "\n";
        match &mut *self.input.lock().await {
            Some(input) => input.write_all(line.as_bytes()).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Closes the input, which ends the worker.
    pub(super) async fn close(&self) {
        self.input.lock().await.take();
    }

    /// Waits until the process has ended.
    pub(super) async fn ended(&mut self) -> io::Result<()> {
        self.child.wait().await.map(drop)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // The shell's children, too. `id` is `None` once the process has been waited for.
        let leader = self.child.id().filter(|_| self.leads);
        if let Some(group) = leader.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Output {
    /// What comes next; `None` once the worker has ended.
    pub(super) async fn next(&mut self) -> Option<Said> {
        let text = self.0.next_line().await.ok()??;
        Some(match serde_json::from_str(&text) {
            Ok(line) => Said::Line(Box::new(line)),
            Err(error) => Said::Noise(format!("{error} in {text}")),
        })
    }
}

/// Why a worker cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoWorker {
    /// The library is not on this machine.
    #[error("{0}")]
    Absent(String),
    /// It does not speak the protocol.
    #[error("{0}; `quorumlock-lab worker-check` says what is missing")]
    Foreign(String),
    /// It cannot be started.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A worker that needs a runtime (a virtual machine, an interpreter) starts within this time.
const GREETS_WITHIN: Duration = Duration::from_secs(30);

/// Asks a worker who it is.
///
/// # Errors
/// [`NoWorker`] if the worker cannot be used.
pub async fn greet(command: &str) -> Result<Hello, NoWorker> {
    let (pipe, mut output) = Pipe::start(command, Group::Own)?;
    let greeting = Greeting {
        protocol: PROTOCOL,
        client: "lab".to_owned(),
        topology: Topology::One,
        servers: Vec::new(),
        master: None,
        lease_ms: 10_000,
    };
    // A worker that cannot be started may have ended before it reads.
    let _ = pipe.send(&Request::Hello(greeting)).await;
    let answer = tokio::time::timeout(GREETS_WITHIN, output.next()).await;
    let foreign = |why: String| Err(NoWorker::Foreign(why));
    match answer {
        Err(_) => foreign(format!("it does not answer `hello` within {GREETS_WITHIN:?}")),
        Ok(None) => foreign("it ends without an answer to `hello`".to_owned()),
        Ok(Some(Said::Noise(why))) => foreign(format!("its first line is no `hello`: {why}")),
        Ok(Some(Said::Line(line))) => match *line {
            Line::Hello(hello) if hello.protocol == PROTOCOL => Ok(hello),
            Line::Hello(hello) => {
                foreign(format!("it speaks protocol {}, not {PROTOCOL}", hello.protocol))
            }
            Line::Absent { why } => Err(NoWorker::Absent(why)),
            other => foreign(format!("its first line is no `hello`: {other:?}")),
        },
    }
}
