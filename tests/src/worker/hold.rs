use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;

use quorumlock::Error;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::Target;
use crate::within;

pub(super) const TASK: &str = "hold";

/// A process that holds a lock. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Holder {
    process: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// Starts the process and waits until it holds the lock.
    pub(crate) async fn start(worker: &Path, target: &Target) -> Self {
        let mut process = Command::new(worker)
            .arg(TASK)
            .args(target.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("started");
        let orders = process.stdin.take().expect("piped");
        let answers = BufReader::new(process.stdout.take().expect("piped")).lines();
        let mut holder = Self { process, orders, answers };
        assert_eq!(holder.answer().await, HOLDS);
        holder
    }

    /// Whether the holder believes that it holds the lock.
    pub async fn believes(&mut self) -> bool {
        self.order(CHECK).await;
        self.answer().await == HOLDS
    }

    /// Makes the process unlock and end, and waits until it has sent all its requests to the nodes.
    /// Returns whether it still held the lock.
    pub async fn unlock(&mut self) -> bool {
        self.order(UNLOCK).await;
        self.answer().await == UNLOCKED
    }

    /// Stops the whole process (`SIGSTOP`): its threads, timers and renewals.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the process (`SIGCONT`).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process (`SIGKILL`): it releases nothing.
    pub async fn kill(mut self) {
        self.process.kill().await.expect("killed");
    }

    async fn order(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.expect("it listens");
    }

    async fn answer(&mut self) -> String {
        let line = within("an answer of the holder", self.answers.next_line()).await;
        line.expect("read").expect("the holder lives")
    }

    fn signal(&self, signal: Signal) {
        let id = self.process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        kill_process(id.expect("not waited for"), signal).expect("ours");
    }
}

const CHECK: &str = "check";
const UNLOCK: &str = "unlock";
const HOLDS: &str = "holds";
const LOST: &str = "lost";
const UNLOCKED: &str = "unlocked";

pub(super) async fn work(arguments: &[String]) {
    let (target, _) = Target::parse(arguments);
    let locker = target.locker();
    let guard = locker.lock(&target.name).lease(target.lease).await.expect("locked");
    answer(HOLDS);
    // Blocks this thread only; the runtime has others. The pipe closes when the test ends.
    for order in io::stdin().lines() {
        match order.expect("read").as_str() {
            CHECK => answer(if guard.check().is_ok() { HOLDS } else { LOST }),
            UNLOCK => {
                let unlocked = match guard.unlock().await {
                    Ok(()) => UNLOCKED,
                    Err(Error::Lost(_)) => LOST,
                    Err(error) => panic!("{error}"),
                };
                locker.close().await;
                return answer(unlocked);
            }
            order => panic!("no such order: {order}"),
        }
    }
}

fn answer(word: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).expect("the test listens");
}
