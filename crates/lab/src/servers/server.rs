use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::faketime::Shift;
use super::process::Process;
use super::resp::Target;
use super::{ControlError, ServerOptions, StartError, Version, options};

/// One server: a process that we started, which dies with this value, or one given by its URL.
///
/// If our own process dies, by `SIGKILL` even, its servers are killed and their directories
/// removed; only the directory of a server that was dead at that moment stays.
#[derive(Debug)]
pub struct Server {
    url: String,
    version: Option<Version>,
    /// `None` if it was given by its URL.
    process: Option<Process>,
}

impl Server {
    /// Starts a server program on a free loopback port and waits until it answers PING.
    ///
    /// # Errors
    /// If it cannot be executed, ends, or does not answer within 20 seconds; the error has its log.
    pub fn start(binary: impl AsRef<Path>, options: ServerOptions) -> Result<Self, StartError> {
        let password = options.password.clone();
        let (process, version) = Process::start(binary.as_ref(), options)?;
        let scheme = if process.tls_port.is_some() { "rediss" } else { "redis" };
        let login = password.map(|word| format!(":{}@", percent_encode(&word))).unwrap_or_default();
        let port = process.tls_port.unwrap_or(process.port);
        let url = format!("{scheme}://{login}127.0.0.1:{port}");
        Ok(Self { url, version: Some(version), process: Some(process) })
    }

    /// A server that somebody else runs. Nothing is sent, except to learn its version.
    pub(super) fn given(url: String) -> Self {
        let version = ask_version(&url);
        Self { url, version, process: None }
    }

    /// Its URL for clients, with password and TLS if these were asked for. It stays the same when
    /// the server is started again.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it listens without TLS; `None` if it was given by its URL.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, self.process.as_ref()?.port)))
    }

    /// Its Unix socket, if that was asked for.
    #[must_use]
    pub fn socket(&self) -> Option<PathBuf> {
        let process = self.process.as_ref().filter(|process| process.has_socket())?;
        Some(options::socket_in(process.dir()))
    }

    /// The directory with its data; `None` if it was given by its URL.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        self.process.as_ref().map(Process::dir)
    }

    /// Its process id; `None` while it is dead, or if it was given by its URL.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        u32::try_from(self.process.as_ref()?.pid()?.as_raw_nonzero().get()).ok()
    }

    /// What it says it is. `None` if it was given by its URL and would not say.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Whether its process lives; a paused one does. A server given by its URL is taken to run.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_none_or(|process| process.pid().is_some())
    }

    /// Stops the process (`SIGSTOP`): connections stay open, nothing is answered, time goes on.
    ///
    /// # Errors
    /// If it is not ours or not running.
    pub fn pause(&self) -> Result<(), ControlError> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused process go on (`SIGCONT`); what was sent meanwhile is answered now.
    ///
    /// # Errors
    /// If it is not ours or not running.
    pub fn resume(&self) -> Result<(), ControlError> {
        self.signal(Signal::CONT)
    }

    /// Kills the process (`SIGKILL`), paused or not, and waits until it is gone.
    ///
    /// # Errors
    /// If it is not ours or not running.
    pub fn kill(&self) -> Result<(), ControlError> {
        if self.process()?.kill() { Ok(()) } else { Err(self.not_running()) }
    }

    /// Kills it if it runs, and starts it on the same port with the data it has on disk: all that
    /// was acknowledged with [`appendonly`](ServerOptions::appendonly), nothing without.
    ///
    /// # Errors
    /// If it is not ours, or does not start.
    pub fn restart(&self) -> Result<(), ControlError> {
        let process = self.process()?;
        process.kill();
        process.launch()?;
        Ok(())
    }

    /// Kills it if it runs, removes its data, and starts it on the same port.
    ///
    /// # Errors
    /// If it is not ours, or does not start.
    pub fn restart_empty(&self) -> Result<(), ControlError> {
        let process = self.process()?;
        process.kill();
        process.empty()?;
        process.launch()?;
        Ok(())
    }

    /// Sets what its wall clock shows; needs [`faketime`](ServerOptions::faketime).
    ///
    /// # Errors
    /// If it was started without that, or the file cannot be written.
    pub fn set_clock(&self, shift: Shift) -> Result<(), ControlError> {
        let foreign = || ControlError::Unsupported { url: self.url.clone() };
        Ok(self.process()?.set_clock(shift).ok_or_else(foreign)??)
    }

    fn signal(&self, signal: Signal) -> Result<(), ControlError> {
        if self.process()?.signal(signal)? { Ok(()) } else { Err(self.not_running()) }
    }

    fn process(&self) -> Result<&Process, ControlError> {
        let unsupported = || ControlError::Unsupported { url: self.url.clone() };
        self.process.as_ref().ok_or_else(unsupported)
    }

    fn not_running(&self) -> ControlError {
        ControlError::NotRunning { url: self.url.clone() }
    }
}

/// For the record only, hence no more than plain `redis://[:password@]host[:port]`.
fn ask_version(url: &str) -> Option<Version> {
    let rest = url.strip_prefix("redis://")?.split(['/', '?']).next()?;
    let (login, address) = rest.rsplit_once('@').unwrap_or((":", rest));
    let (user, password) = login.split_once(':')?;
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "6379"));
    if !user.is_empty() && user != "default" {
        return None;
    }
    let password = Some(password).filter(|word| !word.is_empty());
    let target = Target { address: (host, port.parse().ok()?), password };
    Version::from_info(&target.ask(&["INFO", "server"], Duration::from_secs(1)).ok()?)
}

fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
