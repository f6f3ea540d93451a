//! The locker processes of a run.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::recorder::{Live, Scribe};
use crate::history::{Event, Op, Phase};
use crate::worker::{Config, Order};

/// How to start a worker: a program that calls [`worker::main`](crate::worker::main).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// What makes a worker of it.
    pub arguments: Vec<String>,
}

/// Releases take no longer, unless no node answers.
const END_WITHIN: Duration = Duration::from_secs(3);

/// A locker process. It dies with this value; and if our process dies, by the end of its input, or,
/// when it is stopped, by the `SIGHUP` that the kernel sends to a stopped process group without
/// an owner.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) id: String,
    child: Child,
    input: ChildStdin,
    reading: JoinHandle<()>,
    stopped: bool,
    gone: bool,
}

impl Worker {
    pub(super) async fn start(
        program: &Program,
        config: &Config,
        scribe: Scribe,
    ) -> io::Result<Self> {
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // Ctrl-C is for us: what was held is given back in order, or not, as the plan says.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are piped")
        };
        let reading = tokio::spawn(read(output, scribe));
        let id = config.client.clone();
        let mut worker = Self { id, child, input, reading, stopped: false, gone: false };
        worker.say(&serde_json::to_string(config)?).await?;
        Ok(worker)
    }

    pub(super) async fn order(&mut self, order: Order) -> io::Result<()> {
        self.say(&serde_json::to_string(&order)?).await
    }

    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.stopped = true;
        self.signal(Signal::STOP)
    }

    pub(super) fn cont(&mut self) -> io::Result<()> {
        self.stopped = false;
        self.signal(Signal::CONT)
    }

    /// Kills it, and tells for it what it cannot tell any more: nobody believes or asks after death.
    pub(super) async fn kill(
        &mut self,
        scribe: &Scribe,
        live: &tokio::sync::watch::Receiver<Live>,
    ) -> io::Result<()> {
        if std::mem::replace(&mut self.gone, true) {
            return Ok(());
        }
        self.child.kill().await?;
        let died = scribe.event(&self.id, Op::Note, Phase::Info);
        // All that it had said is with the recorder then; what is still on its way there is in order.
        let _ = (&mut self.reading).await;
        let said = Event { what: Some("killed".to_owned()), ..died.clone() };
        scribe.tell(said).await;
        let mut live = live.clone();
        let heard = |live: &Live| live.of(&self.id).killed;
        let doing = match live.wait_for(heard).await {
            Ok(live) => live.of(&self.id),
            Err(_) => return Ok(()),
        };
        let last = |op, phase, hold| Event {
            op,
            phase,
            hold: Some(hold),
            what: Some("killed".to_owned()),
            ..died.clone()
        };
        for hold in doing.asking {
            scribe.tell(last(Op::Lock, Phase::Unknown, hold)).await;
        }
        for hold in doing.holding {
            scribe.tell(last(Op::Lost, Phase::Fail, hold)).await;
        }
        Ok(())
    }

    /// Ends it: as it wishes if it can, and by force otherwise.
    pub(super) async fn end(
        &mut self,
        scribe: &Scribe,
        live: &tokio::sync::watch::Receiver<Live>,
    ) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        // It may have done all that it was to do, and be gone.
        let _ = self.order(Order::End).await;
        let waited = match self.stopped {
            true => None,
            false => tokio::time::timeout(END_WITHIN, self.child.wait()).await.ok(),
        };
        if let Some(status) = waited {
            self.gone = true;
            let _ = (&mut self.reading).await;
            let status = status?;
            let failed = || io::Error::other(format!("client {} failed: {status}", self.id));
            return if status.success() { Ok(()) } else { Err(failed()) };
        }
        self.kill(scribe, live).await
    }

    async fn say(&mut self, line: &str) -> io::Result<()> {
        self.input.write_all(format!("{line}\n").as_bytes()).await
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        // Not waited for yet, so that its id is no one else's.
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| io::Error::other(format!("client {} is dead", self.id)))?;
        Ok(kill_process(pid, signal)?)
    }
}

async fn read(output: ChildStdout, scribe: Scribe) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // Half a line is the last one of a process that was killed.
        if let Ok(event) = serde_json::from_str::<Event>(&line) {
            scribe.tell(event).await;
        }
    }
}
