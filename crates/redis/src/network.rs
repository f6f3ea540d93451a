//! What the connections of a node take from their surroundings: byte streams, tasks and random
//! pauses. A simulation gives its own, so that a seed decides all of it.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use quorumlock_protocol::{BoxFuture, ConfigError};
use quorumlock_watchdog::{Process, runtime};
use tokio::runtime::Handle;

use super::stream::Stream;

/// A simulated network.
#[allow(unreachable_pub, reason = "public for simulations only")]
pub trait SimulatedNetwork: fmt::Debug + Send + Sync {
    /// Opens a byte stream to the server of the node.
    fn open(&self) -> BoxFuture<io::Result<Box<dyn Stream>>>;
    /// Starts a task of the client.
    fn spawn(&self, task: BoxFuture<()>);
    /// The random share of the longest pause before the next dial, from 0.5 to 1.
    fn pause_share(&self) -> f64;
}

/// The network of a node.
#[derive(Clone, Debug)]
pub(crate) enum Network {
    /// The operating system's, and the caller's runtime.
    System,
    #[cfg_attr(not(feature = "simulation"), expect(dead_code, reason = "simulations only"))]
    Simulated(Arc<dyn SimulatedNetwork>),
}

impl Network {
    /// The runtime for a driver task.
    pub(crate) fn runtime(&self) -> Result<Handle, ConfigError> {
        match self {
            Self::System => runtime::connected(),
            Self::Simulated(_) => Handle::try_current().map_err(|_| ConfigError::NoRuntime),
        }
    }

    /// The runtime of a thread that is started when it is first needed and never ends: for tasks of
    /// callers whose own runtime ends. `None` if the operating system gives none, in a fork of the
    /// process that started it, and in a simulation.
    pub(crate) fn standby(&self) -> Option<&'static Handle> {
        static STANDBY: OnceLock<(Process, Option<Handle>)> = OnceLock::new();
        match self {
            Self::System => {
                let (process, handle) =
                    STANDBY.get_or_init(|| (Process::current(), start_standby()));
                handle.as_ref().filter(|_| process.check().is_ok())
            }
            Self::Simulated(_) => None,
        }
    }

    pub(crate) fn spawn(&self, runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::System => drop(runtime.spawn(task)),
            Self::Simulated(network) => network.spawn(Box::pin(task)),
        }
    }

    /// The random share of the longest pause before the next dial: the clients of a restarted
    /// server do not return at once.
    pub(crate) fn pause_share(&self) -> f64 {
        match self {
            Self::System => rand::random_range(0.5..1.0),
            Self::Simulated(network) => network.pause_share(),
        }
    }
}

fn start_standby() -> Option<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let (started, handle) = mpsc::channel();
    let run = move || {
        // The caller waits for it.
        drop(started.send(runtime.handle().clone()));
        runtime.block_on(std::future::pending::<()>());
    };
    thread::Builder::new().name("quorumlock-standby".into()).spawn(run).ok()?;
    handle.recv().ok()
}
