use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use quorumlock::{FencingToken, Locker};
use tokio::process::Command;

use super::Target;
use crate::within;

pub(super) const TASK: &str = "count";

/// Many tasks in several processes that increment one number in a file, each under the lock. The
/// increment is not atomic: it reads, lets other tasks run, and writes.
#[derive(Debug)]
pub struct Count {
    /// The number of processes.
    pub processes: usize,
    /// Tasks in each of them.
    pub tasks: usize,
    /// Increments by each task.
    pub rounds: usize,
}

/// The result that the processes left in their directory.
#[derive(Debug)]
pub struct Counted {
    /// The number in the file.
    pub number: usize,
    /// The fencing tokens in the order in which their holders wrote them down under the lock.
    pub fences: Vec<u64>,
}

impl Count {
    /// Runs the processes until all have counted.
    ///
    /// # Panics
    /// If a worker fails. A worker fails if it meets another one inside the lock.
    pub async fn run(&self, worker: &Path, target: &Target) -> Counted {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join(NUMBER), "0").expect("written");
        let workers = (0..self.processes).map(|_| {
            let mut command = Command::new(worker);
            command.arg(TASK).args(target.arguments()).arg(dir.path());
            command.args([self.tasks.to_string(), self.rounds.to_string()]);
            command.stdin(Stdio::null()).kill_on_drop(true).spawn().expect("started")
        });
        // All processes start before the first one is awaited.
        for mut worker in workers.collect::<Vec<_>>() {
            let status = within("all counted", worker.wait()).await.expect("waited");
            assert!(status.success(), "a worker failed: {status}");
        }
        let read = |file| fs::read_to_string(dir.path().join(file)).expect("read");
        Counted {
            number: read(NUMBER).parse().expect("a number"),
            fences: read(FENCES).lines().map(|line| line.parse().expect("a token")).collect(),
        }
    }
}

const NUMBER: &str = "number";
const FENCES: &str = "fences";
const INSIDE: &str = "inside";

pub(super) async fn work(arguments: &[String]) {
    let (target, rest) = Target::parse(arguments);
    let [dir, tasks, rounds] = rest else { panic!("directory, tasks and rounds") };
    let dir = PathBuf::from(dir);
    let number = |text: &String| text.parse::<usize>().expect("a number");
    let locker = target.locker();
    let tasks = (0..number(tasks))
        .map(|_| tokio::spawn(count(locker.clone(), target.clone(), dir.clone(), number(rounds))));
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no overlap");
    }
    locker.close().await;
}

async fn count(locker: Locker, target: Target, dir: PathBuf, rounds: usize) {
    for _ in 0..rounds {
        let guard = locker.lock(&target.name).lease(target.lease).await.expect("locked");
        increment(&dir, guard.token()).await;
        guard.unlock().await.expect("unlocked in time");
    }
}

async fn increment(dir: &Path, fence: FencingToken) {
    // A task that finds the marker is not alone, even if the sum is right by chance.
    let _marker = File::create_new(dir.join(INSIDE)).expect("nobody else is inside");
    let number = fs::read_to_string(dir.join(NUMBER)).expect("read");
    let number = number.parse::<usize>().expect("a number");
    tokio::task::yield_now().await;
    fs::write(dir.join(NUMBER), (number + 1).to_string()).expect("written");
    let mut fences =
        OpenOptions::new().append(true).create(true).open(dir.join(FENCES)).expect("opened");
    writeln!(fences, "{fence}").expect("written");
    fs::remove_file(dir.join(INSIDE)).expect("still there");
}
