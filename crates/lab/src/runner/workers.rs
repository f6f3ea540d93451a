//! The locker processes of a run.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::recorder::{ClientStates, HistorySender};
use crate::history::{Event, Op, Phase};
use crate::worker::protocol::{Greeting, Line, Request};
use crate::worker::{Config, Order, PROTOCOL, Topology};
use quorumlock_testbed::servers::{Faketime, NoFaketime, Shift};

/// The command that starts a worker: a program that calls [`worker::main`](crate::worker::main).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The arguments that make the program a worker.
    pub arguments: Vec<String>,
}

impl Program {
    /// The same program, with another wall clock. Its other clocks are right.
    pub(super) fn with_clock(&self, shift: Shift) -> Result<Self, NoFaketime> {
        let setting = Faketime::discover(0)?.settings(shift);
        let text = |text: &OsStr| text.to_string_lossy().into_owned();
        let mut arguments = setting.iter().map(|setting| text(setting)).collect::<Vec<_>>();
        arguments.push(text(self.path.as_os_str()));
        arguments.extend_from_slice(&self.arguments);
        // `env` keeps the process id.
        Ok(Self { path: "env".into(), arguments })
    }
}

/// A release takes less time, unless no node answers.
pub(super) const END_WITHIN: Duration = Duration::from_secs(3);

/// A locker process, the leader of a group: the worker of another library that it starts is stopped and
/// killed with it. It is killed when this value is dropped. If our process dies, it ends because
/// its input ends; if it is stopped then, because the kernel sends `SIGHUP` to a stopped process
/// group that becomes orphaned.
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
        sender: HistorySender,
    ) -> io::Result<Self> {
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // Ctrl-C must reach only our process, which ends the workers as the plan says.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both are piped")
        };
        let reading = tokio::spawn(read(output, sender));
        let id = config.client.clone();
        let mut worker = Self { id, child, input, reading, stopped: false, gone: false };
        worker.send(&Request::Hello(greeting(config))).await?;
        worker.send(&Request::Work(Box::new(config.clone()))).await?;
        Ok(worker)
    }

    pub(super) async fn order(&mut self, order: Order) -> io::Result<()> {
        self.send(match order {
            Order::Start => &Request::Start,
            Order::End => &Request::End,
        })
        .await
    }

    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.stopped = true;
        self.signal(Signal::STOP)
    }

    pub(super) fn cont(&mut self) -> io::Result<()> {
        self.stopped = false;
        self.signal(Signal::CONT)
    }

    /// Kills the worker, and records on its behalf that its attempts and holds have ended.
    pub(super) async fn kill(
        &mut self,
        sender: &HistorySender,
        live: &tokio::sync::watch::Receiver<ClientStates>,
    ) -> io::Result<()> {
        if std::mem::replace(&mut self.gone, true) {
            return Ok(());
        }
        self.signal(Signal::KILL)?;
        self.child.wait().await?;
        let died = sender.event(&self.id, Op::Note, Phase::Info);
        let died = Event { what: Some("killed".to_owned()), ..died };
        // All events that the worker had written are with the recorder after this.
        let _ = (&mut self.reading).await;
        sender.send(died.clone()).await;
        let mut live = live.clone();
        let is_killed = |live: &ClientStates| live.of(&self.id).killed;
        let doing = match live.wait_for(is_killed).await {
            Ok(live) => live.of(&self.id),
            Err(_) => return Ok(()),
        };
        for event in doing.cut_off(&died) {
            sender.send(event).await;
        }
        Ok(())
    }

    /// Waits until the worker has ended by itself.
    pub(super) async fn ended(&mut self) -> io::Result<()> {
        let status = self.child.wait().await?;
        self.gone = true;
        let _ = (&mut self.reading).await;
        self.succeeded(status)
    }

    /// Ends the worker: by an order if it can react, by force otherwise.
    pub(super) async fn end(
        &mut self,
        sender: &HistorySender,
        live: &tokio::sync::watch::Receiver<ClientStates>,
    ) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        // The worker may have ended by itself already.
        let _ = self.order(Order::End).await;
        let waited = match self.stopped {
            true => None,
            false => tokio::time::timeout(END_WITHIN, self.child.wait()).await.ok(),
        };
        if let Some(status) = waited {
            self.gone = true;
            let _ = (&mut self.reading).await;
            return self.succeeded(status?);
        }
        self.kill(sender, live).await
    }

    fn succeeded(&self, status: ExitStatus) -> io::Result<()> {
        let failed = || io::Error::other(format!("client {} failed: {status}", self.id));
        if status.success() { Ok(()) } else { Err(failed()) }
    }

    async fn send(&mut self, request: &Request) -> io::Result<()> {
        let line = serde_json::to_string(request)? + "\n";
        self.input.write_all(line.as_bytes()).await
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        // The process has not been waited for, so its id cannot belong to another process.
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| io::Error::other(format!("client {} is dead", self.id)))?;
        Ok(kill_process_group(pid, signal)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.gone {
            // The leader may have ended already.
            let _ = self.signal(Signal::KILL);
        }
    }
}

/// The first line to a worker that carries out a workload: its servers are in the workload.
fn greeting(config: &Config) -> Greeting {
    Greeting {
        protocol: PROTOCOL,
        client: config.client.clone(),
        topology: Topology::One,
        servers: Vec::new(),
        master: None,
        lease_ms: config.locking.lease_ms,
    }
}

async fn read(output: ChildStdout, sender: HistorySender) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // A killed process may leave an incomplete last line.
        if let Ok(Line::Event(event)) = serde_json::from_str(&line) {
            sender.send(*event).await;
        }
    }
}
