use std::io;
use std::path::PathBuf;

use super::NoServer;

/// Why servers could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is no server program on this machine.
    #[error(transparent)]
    NoServer(#[from] NoServer),
    /// `QUORUMLOCK_REDIS_URLS` names too few servers.
    #[error("QUORUMLOCK_REDIS_URLS names {given} servers, but {wanted} are needed")]
    TooFewUrls {
        /// How many URLs there are.
        given: usize,
        /// How many servers were asked for.
        wanted: usize,
    },
    /// Options were given, but servers given by URL are started by others.
    #[error("QUORUMLOCK_REDIS_URLS is set: those servers cannot be started with options of ours")]
    OptionsForUrls,
    /// No port or directory is available, or the program cannot be executed.
    #[error("cannot start {}: {source}", binary.display())]
    Io {
        /// The server program.
        binary: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The server ended, or did not answer PING in time.
    #[error("{} {what}; its log:\n{log}", binary.display())]
    NotReady {
        /// The server program.
        binary: PathBuf,
        /// What the server did instead.
        what: String,
        /// The end of the server's log.
        log: String,
    },
}

/// Why a server could not be paused, killed or restarted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The server was given by URL, so its process is not controlled by us.
    #[error("{url} comes from QUORUMLOCK_REDIS_URLS: we did not start it, so we do not stop it")]
    Unsupported {
        /// The server's URL.
        url: String,
    },
    /// The server is not running.
    #[error("the server at {url} is not running")]
    NotRunning {
        /// The server's URL.
        url: String,
    },
    /// The system refused the signal, or the directory could not be emptied.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server could not be started again.
    #[error(transparent)]
    Start(#[from] StartError),
}
