//! The lock libraries of others: which plans their workers can carry out.

use super::Driver;
use crate::mode::{Engine, Mode};
use crate::promise::Promise;
use crate::record::LibraryFacts;
use crate::scenario::{Fault, Plan, ReadWrite, Step, When};
use crate::worker::{Feature, Hello, LockKind, NoWorker, Topology, greet};

/// A lock library, and the program that takes its locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// A short name, for directories and columns.
    pub name: String,
    /// The command that starts its worker.
    pub command: String,
    /// What the worker says of itself.
    pub hello: Hello,
}

impl Library {
    /// Asks the worker who it is.
    ///
    /// # Errors
    /// [`NoWorker`] if the worker cannot be used.
    pub async fn of(name: &str, command: &str) -> Result<Self, NoWorker> {
        let hello = greet(command).await?;
        Ok(Self { name: name.to_owned(), command: command.to_owned(), hello })
    }

    pub(super) fn facts(&self, mode: Mode, scenario: &str) -> LibraryFacts {
        let Self { name, command, hello } = self.clone();
        let Hello { library, version, options, .. } = hello;
        let promise = Promise::of(&library).zip(topology(mode));
        let exclusion_promised =
            promise.map(|(promise, topology)| promise.exclusion(topology, scenario));
        LibraryFacts { name, command, library, version, options, exclusion_promised }
    }

    /// Whether the library has locks in this mode.
    #[must_use]
    pub fn has(&self, mode: Mode) -> bool {
        topology(mode).is_some_and(|topology| self.hello.topologies.contains(&topology))
    }

    /// The first thing in a plan that the library, or its worker, cannot do.
    #[must_use]
    pub fn lacks(&self, driver: Driver, mode: Mode, plan: &Plan) -> Option<String> {
        let name = &self.name;
        if driver == Driver::Sim {
            return Some("only quorumlock runs in the simulation".to_owned());
        }
        if topology(mode).is_none() {
            return Some(format!("mode {mode} is of quorumlock alone"));
        }
        if !self.has(mode) {
            return Some(format!("{name} has no locks in mode {mode}"));
        }
        self.lacks_kind(plan)
            .or_else(|| plan.schedule.iter().find_map(|step| self.lacks_in(step)))
            .map(|why| format!("{name}: {why}"))
    }

    fn lacks_kind(&self, plan: &Plan) -> Option<String> {
        let hello = &self.hello;
        if plan.locking.takeover_delay_ms > 0 {
            return Some("it has no takeover delay".to_owned());
        }
        if plan.locking.strict_order {
            return Some("strict order is an option of quorumlock alone".to_owned());
        }
        plan.clients.iter().find_map(|client| {
            let work = &client.work;
            let kind = match (work.read_write, plan.locking.permits) {
                (Some(ReadWrite::Read), _) => LockKind::Read,
                (Some(ReadWrite::Write), _) => LockKind::Write,
                (None, Some(_)) => LockKind::Permit,
                (None, None) => LockKind::Lock,
            };
            if work.broken_lock.is_some() {
                Some("the lock of this scenario is a broken one".to_owned())
            } else if !hello.kinds.contains(&kind) {
                Some(format!("it has no locks of the kind {kind:?}").to_lowercase())
            } else if work.ring.is_some() && !hello.has(Feature::Names) {
                Some("it does not take several names together".to_owned())
            } else {
                None
            }
        })
    }

    /// A step that would wait in vain, or that strikes what only quorumlock has.
    fn lacks_in(&self, step: &Step) -> Option<String> {
        let hello = &self.hello;
        match step.when {
            When::Renewed(_) if !hello.has(Feature::Renewal) => {
                return Some("it renews no lease".to_owned());
            }
            When::Renewed(_) if !hello.has(Feature::Validity) => {
                return Some("it does not tell its renewals".to_owned());
            }
            When::Told(_) if !hello.has(Feature::Loss) => {
                return Some("it has no signal of a loss".to_owned());
            }
            When::Outlived { .. } if !hello.has(Feature::Validity) => {
                return Some("it does not say for how long a lock is valid".to_owned());
            }
            When::Barred(_) | When::Admitted(_) => {
                return Some("nodes that refuse clients are of quorumlock alone".to_owned());
            }
            _ => {}
        }
        match &step.fault {
            Fault::ForceUnlock | Fault::Init(_) | Fault::ChangeMembers { .. } => {
                Some(format!("this operation is of quorumlock alone: {}", step.fault))
            }
            _ => None,
        }
    }
}

/// How the servers of a mode belong together for a worker; `None` if the mode is of quorumlock alone.
fn topology(mode: Mode) -> Option<Topology> {
    match (mode.engine(), mode) {
        (Engine::Sentinel, _) if !mode.awaits_replicas() => Some(Topology::Sentinel),
        (Engine::Addresses, Mode::S) => Some(Topology::One),
        (Engine::Addresses, Mode::Q3 | Mode::Q5 | Mode::Q7) => Some(Topology::Quorum),
        _ => None,
    }
}
