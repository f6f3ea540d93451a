use serde::{Deserialize, Serialize};

use super::{Fault, Step, When};

/// All that happens in a run, apart from what the machine does to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The servers.
    pub servers: ServerPlan,
    /// What all clients agree on.
    pub locking: Locking,
    /// The locker processes.
    pub clients: Vec<ClientPlan>,
    /// What the nemesis does, in order.
    pub schedule: Vec<Step>,
    /// The run lasts at least so long,
    pub least_ms: u64,
    /// and so long after the last step.
    pub tail_ms: u64,
    /// Whether the resource refuses stale tokens.
    pub fenced: bool,
    /// For how long nobody may hold while somebody waits, if theory has a bound.
    pub vacant_at_most_ms: Option<u64>,
}

/// The servers of a run. Each knows nothing of the others, apart from replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ServerPlan {
    /// How many nodes lockers are told of.
    pub voters: usize,
    /// How many replicas the first of them has.
    pub replicas: usize,
    /// How many more there are, of which lockers are not told: replicas of the first from the step
    /// on that makes them so.
    pub spares: usize,
    /// More arguments for each server's command line.
    pub args: Vec<String>,
    /// Whether they keep their data on disk.
    pub appendonly: bool,
    /// Whether their clocks can be set, and what these gain by themselves, in parts per million.
    pub clock_gains_ppm: Option<i32>,
}

/// What all clients agree on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locking {
    /// The lock's name.
    pub name: String,
    /// What the servers keep without news.
    pub lease_ms: u64,
    /// The longest lease; a node that lost its memory counts for nothing for so long.
    pub max_lease_ms: u64,
    /// How many replicas must have a grant before it counts.
    #[serde(default)]
    pub acks: usize,
}

/// A locker process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientPlan {
    /// `a`, `b`, ...
    pub id: String,
    /// Whether it starts with the run, or by a step.
    pub starts: bool,
    /// Whether it reaches nodes by ways that can be cut, rather than directly.
    pub ways: bool,
    /// The only nodes that it ever reaches, if not all.
    pub reaches: Option<Vec<usize>>,
    /// The nodes that it is told of, if not all as they are; one that is named again is the same
    /// server at another address.
    pub told: Option<Vec<usize>>,
    /// The longest lease that it is told of, if another one than the others.
    pub max_lease_ms: Option<u64>,
    /// What it does.
    pub work: Work,
}

/// What a locker process does, again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// How many tasks of it do so at the same time.
    pub contenders: usize,
    /// After how many holds each task is done; `None`: never.
    pub holds: Option<u64>,
    /// How long the work under the lock takes.
    pub hold: Span,
    /// How long it wants nothing after a hold.
    pub think: Span,
    /// How it waits for the lock.
    pub waiting: Waiting,
    /// How it heeds that the lock may be lost.
    pub care: Care,
    /// Its connections are there before the first step.
    #[serde(default)]
    pub connected: bool,
    /// In which order it begins, once it holds.
    pub beginning: Beginning,
    /// It writes again and again while it holds, at such intervals.
    pub write_every_ms: Option<u64>,
    /// It stands so long between its check and its last write, as a slow machine may make anybody.
    pub failpoint_ms: Option<u64>,
    /// A lock of its own that is broken on purpose: what judges must find.
    pub breach: Option<Breach>,
    /// Decides what its tasks draw.
    pub seed: u64,
}

/// A time that is drawn anew each time, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The shortest.
    pub low_ms: u64,
    /// The longest.
    pub high_ms: u64,
}

/// How a client waits for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// As the library does it: `lock`.
    Queue,
    /// It asks again and again at such intervals: `try_lock`.
    PollMs(u64),
}

/// How a holder heeds that its lock may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Care {
    /// It stops when it is told, and checks before each write: as it should be.
    Watches,
    /// It does neither, as programs do that have never heard of leases.
    Naive,
}

/// What a holder does first with what the lock guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beginning {
    /// It writes: from then on a fenced resource refuses whoever held before.
    Claims,
    /// It reads what its first write will be made of.
    Reads,
    /// It writes, then reads what its next write will be made of.
    ClaimsAndReads,
}

/// Mistakes that real programs make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Breach {
    /// A plain `SET`, without `NX`.
    NoExclusion,
    /// A `SET NX` whose value names the owner and not the hold, so that a late release frees a
    /// later hold: each hold is released a second time, a moment later.
    ReleaseByOwner,
    /// A lock that counts its owner's holds, and a driver that had no answer to a release and sends
    /// it again: an inner hold is given back twice, and takes the outer one with it.
    CountsHolds,
    /// The random numbers of all clients come from one state, as those of clones do: they draw the
    /// same nonces, and each is told that it has the other's lock.
    RepeatsNonce,
}

impl ServerPlan {
    /// All of them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.voters + self.replicas + self.spares
    }
}

impl Span {
    /// Always the same.
    #[must_use]
    pub const fn always(ms: u64) -> Self {
        Self { low_ms: ms, high_ms: ms }
    }
}

impl ClientPlan {
    pub(super) fn new(id: &str, seed: u64) -> Self {
        let work = Work {
            contenders: 1,
            holds: None,
            hold: Span { low_ms: 1, high_ms: 5 },
            think: Span { low_ms: 0, high_ms: 2 },
            waiting: Waiting::Queue,
            care: Care::Watches,
            connected: false,
            beginning: Beginning::Claims,
            write_every_ms: None,
            failpoint_ms: None,
            breach: None,
            seed,
        };
        Self {
            id: id.to_owned(),
            starts: true,
            ways: false,
            reaches: None,
            told: None,
            max_lease_ms: None,
            work,
        }
    }
}

impl Plan {
    /// Whether a client's writes go by a way that can be cut.
    #[must_use]
    pub fn delays_writes(&self, of: &str) -> bool {
        let delays =
            |step: &Step| matches!(&step.fault, Fault::Writes { client, .. } if client == of);
        self.schedule.iter().any(delays)
    }

    /// What the plan names although it is not there.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        let nodes = self.servers.count();
        let knows = |id: &str| self.clients.iter().any(|client| client.id == id);
        let mut wrong = Vec::new();
        for step in &self.schedule {
            if step.fault.node().is_some_and(|node| node >= nodes) {
                wrong.push(format!("no such node: {}", step.fault));
            }
            for client in step.when.client().into_iter().chain(step.fault.client()) {
                if !knows(client) {
                    wrong.push(format!("no such client: {client} in {}", step.fault));
                }
            }
            if let Fault::Way { client, .. }
            | Fault::Lead { client, .. }
            | Fault::Switch { client, .. } = &step.fault
                && !self.clients.iter().any(|known| known.id == *client && known.ways)
            {
                wrong.push(format!("no ways: {}", step.fault));
            }
            let sets = matches!(step.fault, Fault::Clock { .. } | Fault::FreezeClock(_));
            if sets && self.servers.clock_gains_ppm.is_none() {
                wrong.push(format!("no clocks that can be set: {}", step.fault));
            }
            if matches!(step.when, When::InSync(node) | When::Has(node) if node >= nodes) {
                wrong.push(format!("no such node: {:?}", step.when));
            }
        }
        wrong
    }
}
