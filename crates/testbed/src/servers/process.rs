use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use super::faketime::{self, Shift};
use super::parent_death::ParentDeathGuard;
use super::resp::Target;
use super::version::field;
use super::{ServerOptions, StartError, Version, memory_dir, options};
use crate::port::{self, Reserved};

/// An idle machine needs 20 ms; a loaded one with a large append-only file needs seconds.
const READY_WITHIN: Duration = Duration::from_secs(20);
const ASK_EVERY: Duration = Duration::from_millis(5);
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// How often another port is tried if another process has taken the port that was free.
const PORT_ATTEMPTS: usize = 5;

/// A server that we started. Its directory and ports stay; its process may end and restart.
#[derive(Debug)]
pub(super) struct Process {
    binary: PathBuf,
    options: ServerOptions,
    pub(super) port: u16,
    pub(super) tls_port: Option<u16>,
    /// Where a member of a Redis Cluster listens to the others.
    pub(super) bus_port: Option<u16>,
    /// The ports above.
    reserved: Vec<Reserved>,
    /// `None` while the server is dead. Before `dir`, so that the server ends before its directory.
    guard: Mutex<Option<ParentDeathGuard>>,
    dir: TempDir,
}

impl Process {
    pub(super) fn start(
        binary: &Path,
        options: ServerOptions,
    ) -> Result<(Self, Version), StartError> {
        let io_error = |source| StartError::Io { binary: binary.to_owned(), source };
        // Sentinels and members of a cluster synchronise what they know of each other.
        let in_memory = options.sentinel || options.cluster && !options.appendonly;
        let dir = if in_memory { memory_dir() } else { env::temp_dir() };
        let dir =
            tempfile::Builder::new().prefix("quorumlock-").tempdir_in(dir).map_err(io_error)?;
        let mut process = Self {
            binary: binary.to_owned(),
            options,
            port: 0,
            tls_port: None,
            bus_port: None,
            reserved: Vec::new(),
            guard: Mutex::new(None),
            dir,
        };
        let mut attempt = 1;
        loop {
            process.reserve_ports().map_err(io_error)?;
            match process.launch() {
                Ok(version) => return Ok((process, version)),
                Err(error) if attempt < PORT_ATTEMPTS && is_port_taken(&error) => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn reserve_ports(&mut self) -> io::Result<()> {
        self.reserved.clear();
        let mut port = || {
            let reserved = port::reserve()?;
            let port = reserved.port;
            self.reserved.push(reserved);
            io::Result::Ok(port)
        };
        self.port = port()?;
        self.tls_port = self.options.tls.is_some().then(&mut port).transpose()?;
        self.bus_port = self.options.cluster.then(&mut port).transpose()?;
        Ok(())
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn has_socket(&self) -> bool {
        self.options.unix_socket
    }

    pub(super) fn pid(&self) -> Option<Pid> {
        self.guard().as_ref().filter(|leash| !leash.has_ended()).map(ParentDeathGuard::pid)
    }

    /// Sends a signal to the server. `false` if the server is dead.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<bool> {
        match self.guard().as_ref().filter(|leash| !leash.has_ended()) {
            Some(leash) => leash.signal(signal).map(|()| true),
            None => Ok(false),
        }
    }

    /// Kills the server and waits for its end. `false` if it was dead already.
    pub(super) fn kill(&self) -> bool {
        self.guard().take().is_some_and(|leash| !leash.has_ended())
    }

    pub(super) fn empty(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.dir())? {
            let entry = entry?;
            if faketime::is_clock(&entry.file_name()) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Starts the server on its ports, and waits until it answers.
    pub(super) fn launch(&self) -> Result<Version, StartError> {
        let line = self.options.command_line(self.dir(), self.port, (self.tls_port, self.bus_port));
        let leash = self
            .start_guarded(line)
            .map_err(|source| StartError::Io { binary: self.binary.clone(), source })?;
        let version = self.await_ready(&leash)?;
        *self.guard() = Some(leash);
        Ok(version)
    }

    fn start_guarded(&self, mut line: Vec<OsString>) -> io::Result<ParentDeathGuard> {
        if self.options.sentinel {
            // It must exist, and a restarted sentinel goes on with what it says.
            let file = options::sentinel_file_in(self.dir());
            fs::OpenOptions::new().append(true).create(true).open(file)?;
        }
        let Some(clock) = &self.options.faketime else {
            return ParentDeathGuard::start(self.dir(), &self.binary, &line);
        };
        clock.prepare(self.dir())?;
        line.insert(0, self.binary.clone().into());
        line.splice(..0, clock.prefix(self.dir()));
        ParentDeathGuard::start(self.dir(), Path::new("env"), &line)
    }

    /// Sets the server's clock. `None` if the server runs without libfaketime.
    pub(super) fn set_clock(&self, shift: Shift) -> Option<io::Result<()>> {
        self.options.faketime.as_ref()?;
        Some(faketime::set(self.dir(), shift))
    }

    #[expect(clippy::disallowed_methods, reason = "no lease is judged by this, only our patience")]
    fn await_ready(&self, leash: &ParentDeathGuard) -> Result<Version, StartError> {
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            let what = match self.who_answers() {
                Ok((pid, version)) if pid == leash.pid() => return Ok(version),
                // Another process has taken the port. Our server will notice and end.
                Ok((pid, _)) => format!("finds process {pid:?} at its port"),
                Err(error) => format!("did not answer within {READY_WITHIN:?} ({error})"),
            };
            let ended = leash.has_ended();
            if ended || give_up <= Instant::now() {
                let what = if ended { "ended at once".to_owned() } else { what };
                return Err(StartError::NotReady {
                    binary: self.binary.clone(),
                    what,
                    log: leash.log(),
                });
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    fn who_answers(&self) -> io::Result<(Pid, Version)> {
        let target = Target {
            address: ("127.0.0.1", self.port),
            password: self.options.password.as_deref(),
        };
        // While it loads data, a server answers INFO but not PING.
        target.ask(&["PING"], ANSWER_WITHIN)?;
        let info = target.ask(&["INFO", "server"], ANSWER_WITHIN)?;
        let pid = field(&info, "process_id").and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        pid.zip(Version::from_info(&info))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no Redis answers INFO"))
    }

    fn guard(&self) -> MutexGuard<'_, Option<ParentDeathGuard>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_port_taken(error: &StartError) -> bool {
    matches!(error, StartError::NotReady { log, .. } if log.contains("already in use"))
}
