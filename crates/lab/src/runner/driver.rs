use std::fmt;
use std::str::FromStr;

use crate::mode::Mode;
use crate::scenario::{Fault, Plan, Scenario};

/// How servers and lockers of a run are executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Driver {
    /// Servers and lockers as processes of this machine.
    #[default]
    Process,
    /// Servers in containers, lockers as processes.
    Container,
    /// Real lockers over simulated nodes and simulated time.
    Sim,
}

impl Driver {
    /// All drivers.
    pub const ALL: [Self; 3] = [Self::Process, Self::Container, Self::Sim];

    /// The first thing in a plan that this driver cannot do; `None` if it can do all.
    #[must_use]
    pub fn lacks(self, mode: Mode, plan: &Plan) -> Option<String> {
        if self == Self::Container && cfg!(not(feature = "containers")) {
            return Some("this program was built without the feature containers".to_owned());
        }
        self.cannot(mode, plan)
    }

    /// As [`lacks`](Self::lacks), of a program that was built with all features.
    #[must_use]
    pub fn cannot(self, mode: Mode, plan: &Plan) -> Option<String> {
        if mode == Mode::E && plan.locking.takeover_delay_ms > 0 {
            return Some("the lab's locks on etcd have no takeover delay".to_owned());
        }
        if mode == Mode::E && plan.servers.clock_gains_ppm.is_some() {
            return Some("the clocks of etcd cannot be set".to_owned());
        }
        match self {
            Self::Process => {
                let unable = plan.schedule.iter().find(|step| {
                    let off = matches!(step.fault, Fault::Disconnect(_) | Fault::Reconnect(_));
                    off || is_of_the_simulation(&step.fault)
                })?;
                Some(format!("processes cannot do this: {}", unable.fault))
            }
            Self::Container => in_containers(mode, plan),
            Self::Sim => crate::runner::simulation::lacks(mode, plan),
        }
    }

    /// Whether this driver can carry out the scenario in the mode.
    #[must_use]
    pub fn runs(self, scenario: &Scenario, mode: Mode) -> bool {
        scenario.expected(mode).is_some()
            && self.lacks(mode, &scenario.plan(mode, 0, 0, true)).is_none()
    }
}

fn is_of_the_simulation(fault: &Fault) -> bool {
    matches!(fault, Fault::ClientSuspend(_) | Fault::ClientFreeze(_))
}

fn in_containers(mode: Mode, plan: &Plan) -> Option<String> {
    let servers = &plan.servers;
    if mode == Mode::E {
        return Some("etcd does not run in containers here".to_owned());
    }
    if mode.replicas() > 0
        || servers.appendonly
        || servers.clock_gains_ppm.is_some()
        || !servers.args.is_empty()
    {
        let why =
            "containers here have no replicas, no disks, no clocks and no settings of their own";
        return Some(why.to_owned());
    }
    let unable = plan.schedule.iter().find(|step| match &step.fault {
        Fault::CutTail { .. }
        | Fault::Promote(_)
        | Fault::Evict(_)
        | Fault::ReplicaOf { .. }
        | Fault::Lead { .. }
        | Fault::Switch { .. }
        | Fault::Replication { .. } => true,
        fault => is_of_the_simulation(fault),
    });
    unable.map(|step| format!("containers cannot do this: {}", step.fault))
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Container => "container",
            Self::Sim => "sim",
        })
    }
}

/// The text is not the name of a driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no driver: process, container, sim")]
pub struct NoDriver(String);

impl FromStr for Driver {
    type Err = NoDriver;

    fn from_str(word: &str) -> Result<Self, NoDriver> {
        let found = Self::ALL.into_iter().find(|driver| driver.to_string() == word);
        found.ok_or_else(|| NoDriver(word.to_owned()))
    }
}
