use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::faketime::Shift;
use super::process::Process;
use super::resp::Target;
use super::{ControlError, ServerOptions, StartError, Version, options};

/// A server: a process that we started, which dies when this value is dropped, or a server given by
/// URL.
///
/// If our own process dies, even by `SIGKILL`, its servers are killed and their directories
/// removed. Only the directory of a server that was dead at that moment stays.
#[derive(Debug)]
pub struct Server {
    url: String,
    version: Option<Version>,
    /// `None` if the server was given by URL.
    process: Option<Process>,
}

impl Server {
    /// Starts a server program on a free loopback port and waits until it answers PING.
    ///
    /// # Errors
    /// If the program cannot be executed, ends, or does not answer within 20 seconds. The error
    /// contains its log.
    pub fn start(binary: impl AsRef<Path>, options: ServerOptions) -> Result<Self, StartError> {
        let password = options.password.clone();
        let (process, version) = Process::start(binary.as_ref(), options)?;
        let scheme = if process.tls_port.is_some() { "rediss" } else { "redis" };
        let login = password.map(|word| format!(":{}@", percent_encode(&word))).unwrap_or_default();
        let port = process.tls_port.unwrap_or(process.port);
        let url = format!("{scheme}://{login}127.0.0.1:{port}");
        Ok(Self { url, version: Some(version), process: Some(process) })
    }

    /// A server that others run. It is only asked for its version.
    pub(super) fn given(url: String) -> Self {
        let version = ask_version(&url);
        Self { url, version, process: None }
    }

    /// The URL for clients, with password and TLS if the options have them. It stays the same when
    /// the server restarts.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address without TLS; `None` if the server was given by URL.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, self.process.as_ref()?.port)))
    }

    /// The path of its Unix socket, if the options have one.
    #[must_use]
    pub fn socket(&self) -> Option<PathBuf> {
        let process = self.process.as_ref().filter(|process| process.has_socket())?;
        Some(options::socket_in(process.dir()))
    }

    /// The directory with its data; `None` if the server was given by URL.
    #[must_use]
    pub fn dir(&self) -> Option<&Path> {
        self.process.as_ref().map(Process::dir)
    }

    /// The process id; `None` while the server is dead, or if it was given by URL.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        u32::try_from(self.process.as_ref()?.pid()?.as_raw_nonzero().get()).ok()
    }

    /// Where a member of a Redis Cluster listens to the others; `None` for any other server.
    #[must_use]
    pub fn bus_port(&self) -> Option<u16> {
        self.process.as_ref()?.bus_port
    }

    /// The version that the server reports. `None` if it was given by URL and did not answer.
    #[must_use]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Whether its process exists, even if paused. A server given by URL is assumed to run.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_none_or(|process| process.pid().is_some())
    }

    /// Pauses the process (`SIGSTOP`): connections stay open, nothing is answered, time goes on.
    ///
    /// # Errors
    /// If the server was given by URL or is not running.
    pub fn pause(&self) -> Result<(), ControlError> {
        self.signal(Signal::STOP)
    }

    /// Resumes a paused process (`SIGCONT`). It then answers requests that arrived meanwhile.
    ///
    /// # Errors
    /// If the server was given by URL or is not running.
    pub fn resume(&self) -> Result<(), ControlError> {
        self.signal(Signal::CONT)
    }

    /// Kills the process (`SIGKILL`), paused or not, and waits until it has ended.
    ///
    /// # Errors
    /// If the server was given by URL or is not running.
    pub fn kill(&self) -> Result<(), ControlError> {
        if self.process()?.kill() { Ok(()) } else { Err(self.not_running()) }
    }

    /// Kills the server if it runs, and starts it on the same port with its data on disk: with
    /// [`appendonly`](ServerOptions::appendonly) all acknowledged writes, otherwise nothing.
    ///
    /// # Errors
    /// If the server was given by URL, or does not start.
    pub fn restart(&self) -> Result<(), ControlError> {
        let process = self.process()?;
        process.kill();
        process.launch()?;
        Ok(())
    }

    /// Kills the server if it runs, removes its data, and starts it on the same port.
    ///
    /// # Errors
    /// If the server was given by URL, or does not start.
    pub fn restart_empty(&self) -> Result<(), ControlError> {
        let process = self.process()?;
        process.kill();
        process.empty()?;
        process.launch()?;
        Ok(())
    }

    /// Sets the server's wall clock. Needs [`faketime`](ServerOptions::faketime).
    ///
    /// # Errors
    /// If the server was started without that option, or the clock file cannot be written.
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

/// Only for records, so it understands only `redis://[:password@]host[:port]`.
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
