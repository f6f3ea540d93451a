//! A cluster of etcd as child processes, whose members can be paused, killed and started again.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::process::Signal;
use tempfile::TempDir;

use super::faketime;
use super::parent_death::ParentDeathGuard;
use super::source::is_program;
use super::{ControlError, StartError};
use crate::port::{self, Reserved};

/// A cluster of etcd on loopback ports. Its members keep their data in files, and etcd synchronises each
/// write. All of them die when this value is dropped, or when our process ends in any way.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    _reserved: Vec<Reserved>,
}

/// An etcd program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdProgram {
    binary: PathBuf,
}

/// There is no such etcd on this machine. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoEtcd(String);

/// The members elect a leader first, which takes a second on an idle machine.
const READY_WITHIN: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const PORT_ATTEMPTS: usize = 5;
impl EtcdProgram {
    /// Looks for the program: `QUORUMLOCK_ETCD_BIN`; `etcd` on `PATH`; what `scripts/get-etcd` has put
    /// into the user's cache.
    ///
    /// # Errors
    /// [`NoEtcd`] if none of these exists, or if the variable is set to a wrong value.
    pub fn discover() -> Result<Self, NoEtcd> {
        let path = env::var_os("PATH").unwrap_or_default();
        let on_path = env::split_paths(&path).map(|dir| dir.join("etcd"));
        let cached = faketime::cache().map(|cache| cache.join("etcd/etcd"));
        let none =
            "no etcd found; run scripts/get-etcd, or set QUORUMLOCK_ETCD_BIN to an etcd program";
        let binary = find("QUORUMLOCK_ETCD_BIN", on_path.chain(cached), none)?;
        Ok(Self { binary })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.binary
    }
}

fn find(
    variable: &str,
    mut candidates: impl Iterator<Item = PathBuf>,
    none: &str,
) -> Result<PathBuf, NoEtcd> {
    if let Some(named) = env::var_os(variable).filter(|name| !name.is_empty()) {
        let named = PathBuf::from(named);
        let wrong = format!("{variable}: {} is no program", named.display());
        return Some(named).filter(|file| is_program(file)).ok_or(NoEtcd(wrong));
    }
    candidates.find(|file| is_program(file)).ok_or_else(|| NoEtcd(none.to_owned()))
}

impl Etcd {
    /// Starts a cluster of so many members with their data in `dir`, and waits until each of them answers a
    /// read of the whole cluster.
    ///
    /// # Errors
    /// If the program cannot be executed, or a member ends or does not answer. No member is left
    /// running then.
    pub fn start(program: &EtcdProgram, count: usize, dir: &Path) -> Result<Self, StartError> {
        let mut attempt = 1;
        loop {
            match Self::start_once(program, count, dir) {
                // Another process has taken a port that was free.
                Err(StartError::NotReady { log, .. })
                    if attempt < PORT_ATTEMPTS && log.contains("already in use") =>
                {
                    attempt += 1;
                }
                started => return started,
            }
        }
    }

    fn start_once(program: &EtcdProgram, count: usize, dir: &Path) -> Result<Self, StartError> {
        let error = |source| StartError::Io { binary: program.binary.clone(), source };
        let reserved = (0..2 * count).map(|_| port::reserve());
        let reserved = reserved.collect::<io::Result<Vec<_>>>().map_err(error)?;
        let ports: Vec<_> = reserved.iter().map(|reserved| reserved.port).collect();
        let name = |at: usize, peer: u16| format!("n{at}={}", url(peer));
        let all = ports.chunks(2).enumerate().map(|(at, ports)| name(at, ports[1]));
        let cluster = all.collect::<Vec<_>>().join(",");
        let members = ports.chunks(2).enumerate().map(|(at, ports)| {
            let dir = tempfile::Builder::new().prefix("quorumlock-etcd-").tempdir_in(dir)?;
            Ok(Member {
                program: program.clone(),
                name: format!("n{at}"),
                ports: [ports[0], ports[1]],
                cluster: cluster.clone(),
                guard: Mutex::new(None),
                dir,
            })
        });
        let members = members.collect::<io::Result<Vec<_>>>().map_err(error)?;
        // A member is ready when the others are there.
        members.iter().try_for_each(Member::spawn)?;
        members.iter().try_for_each(Member::await_ready)?;
        Ok(Self { members, _reserved: reserved })
    }

    /// Where a member listens to clients.
    #[must_use]
    pub fn addr(&self, member: usize) -> SocketAddr {
        self.members[member].addr()
    }

    /// The number of members.
    #[must_use]
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// The process of a member; `None` while it does not run.
    #[must_use]
    pub fn pid(&self, member: usize) -> Option<u32> {
        let guard = self.members[member].guard();
        let running = guard.as_ref().filter(|guard| !guard.has_ended())?;
        u32::try_from(running.pid().as_raw_nonzero().get()).ok()
    }

    /// What a member says at this path, without the heads; `None` if it does not answer.
    #[must_use]
    pub fn page(&self, member: usize, path: &str) -> Option<String> {
        let said = self.members[member].get(path).ok()?;
        said.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }

    /// Pauses a member (`SIGSTOP`).
    ///
    /// # Errors
    /// If it does not run.
    pub fn pause(&self, member: usize) -> Result<(), ControlError> {
        self.members[member].signal(Signal::STOP)
    }

    /// Resumes a paused member (`SIGCONT`).
    ///
    /// # Errors
    /// If it does not run.
    pub fn resume(&self, member: usize) -> Result<(), ControlError> {
        self.members[member].signal(Signal::CONT)
    }

    /// Kills a member (`SIGKILL`), paused or not, and waits until it has ended.
    ///
    /// # Errors
    /// If it does not run.
    pub fn kill(&self, member: usize) -> Result<(), ControlError> {
        let member = &self.members[member];
        let running = member.guard().take().is_some_and(|guard| !guard.has_ended());
        if running { Ok(()) } else { Err(member.not_running()) }
    }

    /// Kills a member if it runs, and starts it with its data.
    ///
    /// # Errors
    /// If it ends, or does not answer a read of the whole cluster.
    pub fn restart(&self, member: usize) -> Result<(), ControlError> {
        let member = &self.members[member];
        drop(member.guard().take());
        member.spawn()?;
        Ok(member.await_ready()?)
    }

    /// Kills a member if it runs, removes its data, and starts it as it was started first. False if it
    /// cannot take part: it ended at once, since it asks the other members, and one that they know may
    /// not begin anew; or so few others run that it waits for them.
    ///
    /// # Errors
    /// If it neither ends nor answers.
    pub fn restart_empty(&self, member: usize) -> Result<bool, ControlError> {
        let member = &self.members[member];
        drop(member.guard().take());
        if member.data().exists() {
            fs::remove_dir_all(member.data())?;
        }
        member.spawn()?;
        let running = self.members.iter().filter(|member| !member.has_ended()).count();
        if running <= self.count() / 2 {
            return Ok(false);
        }
        match member.await_ready() {
            Ok(()) => Ok(true),
            Err(_) if member.has_ended() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[derive(Debug)]
struct Member {
    program: EtcdProgram,
    name: String,
    /// For clients and for the other members.
    ports: [u16; 2],
    /// The names and addresses of all members.
    cluster: String,
    /// `None` while it is dead. Before `dir`, so that it ends before its directory.
    guard: Mutex<Option<ParentDeathGuard>>,
    dir: TempDir,
}

impl Member {
    fn spawn(&self) -> Result<(), StartError> {
        let [clients, peers] = self.ports.map(url);
        let mut line = Vec::<OsString>::new();
        let settings = [
            ("name", self.name.as_str()),
            ("listen-client-urls", &clients),
            ("advertise-client-urls", &clients),
            ("listen-peer-urls", &peers),
            ("initial-advertise-peer-urls", &peers),
            ("initial-cluster", &self.cluster),
            ("logger", "zap"),
            ("log-level", "error"),
        ];
        for (name, value) in settings {
            line.extend([format!("--{name}").into(), value.into()]);
        }
        line.extend(["--data-dir".into(), self.data().into()]);
        let binary = &self.program.binary;
        let error = |source| StartError::Io { binary: binary.clone(), source };
        *self.guard() =
            Some(ParentDeathGuard::start(self.dir.path(), binary, &line).map_err(error)?);
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "no lease is judged by this, only our patience")]
    fn await_ready(&self) -> Result<(), StartError> {
        let give_up = Instant::now() + READY_WITHIN;
        // A member is healthy when it reads what the whole cluster has agreed on.
        while !self.get("/health").is_ok_and(|said| said.contains(r#""health":"true""#)) {
            let ended = self.has_ended();
            if ended || give_up <= Instant::now() {
                let what = if ended { "ended at once" } else { "did not become healthy in time" };
                let log = self.guard().as_ref().map(ParentDeathGuard::log).unwrap_or_default();
                let binary = self.program.binary.clone();
                return Err(StartError::NotReady { binary, what: what.to_owned(), log });
            }
            std::thread::sleep(ASK_EVERY);
        }
        Ok(())
    }

    fn get(&self, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.addr(), ANSWER_WITHIN)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.addr())?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        Ok(said)
    }

    fn signal(&self, signal: Signal) -> Result<(), ControlError> {
        match self.guard().as_ref().filter(|guard| !guard.has_ended()) {
            Some(guard) => Ok(guard.signal(signal)?),
            None => Err(self.not_running()),
        }
    }

    fn has_ended(&self) -> bool {
        self.guard().as_ref().is_none_or(ParentDeathGuard::has_ended)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn addr(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[0]))
    }

    fn not_running(&self) -> ControlError {
        ControlError::NotRunning { url: url(self.ports[0]) }
    }

    fn guard(&self) -> MutexGuard<'_, Option<ParentDeathGuard>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}
