use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorumlock_tests::{missed, within};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

/// A process that locks on command: it speaks the protocol of tests/interop. It is killed when this
/// value is dropped.
pub(crate) struct Client {
    process: Child,
    orders: tokio::sync::Mutex<ChildStdin>,
    next: AtomicU64,
    open: Arc<Mutex<Open>>,
}

type Open = HashMap<u64, oneshot::Sender<Answer>>;

/// What a client answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The duration, as the client measured it.
    pub(crate) took: Duration,
    pub(crate) reply: Reply,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Success, and the value that came with it.
    Ok(String),
    No(String),
    Error(String),
}

/// The program of a client, by its name in the directory that `scripts/get-interop` prepares;
/// `None` if there is no such directory, which is printed on stderr.
///
/// # Panics
/// If the directory exists and lacks the program.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let Some(dir) = std::env::var_os("QUORUMLOCK_INTEROP").filter(|dir| !dir.is_empty()) else {
        missed("no clients of other languages here: `make test-interop` fetches them");
        return None;
    };
    let program = PathBuf::from(dir).join(name);
    assert!(program.is_file(), "there is no {}", program.display());
    Some(program)
}

impl Client {
    /// Starts quorumlock's client. `layout` is one of those in worker/line.rs.
    pub(crate) async fn ours(layout: &str, servers: &str, lease: Duration) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorumlock-tests-worker"));
        command.args([quorumlock_tests::worker::line::TASK, layout]);
        Self::start(command, servers, lease).await
    }

    /// Starts a client of another language.
    pub(crate) async fn other(program: &PathBuf, servers: &str, lease: Duration) -> Self {
        Self::start(Command::new(program), servers, lease).await
    }

    async fn start(mut command: Command, servers: &str, lease: Duration) -> Self {
        command.arg(servers).arg(lease.as_millis().to_string());
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("started");
        let orders = process.stdin.take().expect("piped");
        let mut answers = BufReader::new(process.stdout.take().expect("piped")).lines();
        let ready = within("a client that is ready", answers.next_line()).await;
        assert_eq!(ready.expect("read").as_deref(), Some("ready"));
        let open = Arc::<Mutex<Open>>::default();
        tokio::spawn(dispatch(answers, open.clone()));
        let (orders, next) = (tokio::sync::Mutex::new(orders), AtomicU64::new(0));
        Self { process, orders, next, open }
    }

    /// A caller in this process, with the identity `who`, for the lock `name`.
    pub(crate) fn caller<'a>(&'a self, who: &'a str, name: &'a str) -> Caller<'a> {
        Caller { client: self, who, name }
    }

    /// Kills the process (`SIGKILL`).
    pub(crate) async fn kill(&mut self) {
        self.process.kill().await.expect("killed");
    }

    async fn ask(&self, order: &str) -> Answer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, answer) = oneshot::channel();
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id, tell);
        let line = format!("{id} {order}\n");
        self.orders.lock().await.write_all(line.as_bytes()).await.expect("the client listens");
        answer.await.expect("the client lives")
    }
}

async fn dispatch(mut answers: Lines<BufReader<ChildStdout>>, open: Arc<Mutex<Open>>) {
    while let Ok(Some(line)) = answers.next_line().await {
        let mut parts = line.splitn(4, ' ');
        let mut part = || parts.next().unwrap_or_default();
        let (id, millis, what, value) = (part(), part(), part(), part().to_owned());
        let said = match what {
            "ok" => Reply::Ok(value),
            "no" => Reply::No(value),
            _ => Reply::Error(value),
        };
        let took = Duration::from_millis(millis.parse().unwrap_or_default());
        let id = id.parse().expect("an id");
        let asked = open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(asked) = asked {
            // The receiver is gone if the test has ended.
            drop(asked.send(Answer { took, reply: said }));
        }
    }
}

/// A thread, task or handle of a client, and a lock.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    client: &'a Client,
    who: &'a str,
    name: &'a str,
}

impl<'a> Caller<'a> {
    pub(crate) fn who(self) -> &'a str {
        self.who
    }

    /// Waits for the lock. The answer contains what came with the grant, such as a token.
    pub(crate) async fn lock(self) -> Answer {
        self.order("lock", "").await
    }

    /// Waits for the lock for at most `wait`.
    pub(crate) async fn try_lock(self, wait: Duration) -> Answer {
        self.order("try", &wait.as_millis().to_string()).await
    }

    /// The same as `try_lock`, with a hold of at most `lease`, without renewal.
    pub(crate) async fn try_lock_for(self, wait: Duration, lease: Duration) -> Answer {
        self.order("try", &format!("{} {}", wait.as_millis(), lease.as_millis())).await
    }

    pub(crate) async fn unlock(self) -> Answer {
        self.order("unlock", "").await
    }

    pub(crate) async fn extend(self) -> Answer {
        self.order("extend", "").await
    }

    /// Whether the caller still holds the lock, as the client sees it.
    pub(crate) async fn holds(self) -> bool {
        matches!(self.order("held", "").await.reply, Reply::Ok(_))
    }

    /// Takes the lock away from its holder.
    pub(crate) async fn force(self) -> Answer {
        self.order("force", "").await
    }

    /// Sends any command for the lock.
    pub(crate) async fn order(self, command: &str, more: &str) -> Answer {
        let Self { client, who, name } = self;
        client.ask(format!("{who} {command} {name} {more}").trim_end()).await
    }
}

impl Answer {
    /// The value of an "ok".
    ///
    /// # Panics
    /// If the answer is not an "ok".
    #[track_caller]
    pub(crate) fn granted(&self) -> &str {
        match &self.reply {
            Reply::Ok(value) => value,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// # Panics
    /// If the answer is not a refusal.
    #[track_caller]
    pub(crate) fn refused(&self) {
        assert!(matches!(self.reply, Reply::No(_)), "not refused: {:?}", self.reply);
    }
}
