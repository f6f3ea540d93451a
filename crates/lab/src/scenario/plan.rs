use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Fault, Step, When};
use crate::history::Refusal;
use crate::record::Expected;

/// All that happens in a run, except for what the machine itself does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The servers.
    pub servers: ServerPlan,
    /// The settings that all clients share.
    pub locking: Locking,
    /// The locker processes.
    pub clients: Vec<ClientPlan>,
    /// The steps of the nemesis, in order.
    pub schedule: Vec<Step>,
    /// The least duration of the run, in milliseconds.
    pub least_ms: u64,
    /// How long the run continues after the last step, in milliseconds.
    pub tail_ms: u64,
    /// Whether the resource refuses stale tokens.
    pub fenced: bool,
    /// The longest vacancy that theory allows, in milliseconds, if it has a bound.
    pub vacant_at_most_ms: Option<u64>,
    /// The longest series of failed attempts that theory allows a client, in milliseconds.
    pub failing_at_most_ms: Option<u64>,
    /// The longest duration of all such series together, over all clients, in milliseconds.
    pub failing_total_at_most_ms: Option<u64>,
    /// Whether the tokens must be in the order of the holds.
    pub tokens_in_order: bool,
    /// What a client (or `operator`) must be refused with. From then on it is granted nothing.
    pub refused: Vec<(String, Refusal)>,
    /// Clients that must wait in vain: they ask, and are granted nothing in the whole run.
    pub starved: Vec<String>,
    /// Whether a grant may overtake a call that has waited for longer.
    pub overtaking: Overtaking,
    /// Which takeover delays end what theory expects without one: none below the span, all from its
    /// upper end on. `None`: theory says nothing of a delay.
    pub ended_by_delay: Option<Span>,
}

/// What theory says of [overtakings](crate::judge::overtakings).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overtaking {
    /// It sets no bound.
    Any,
    /// At least one must be seen, as proof that the lab sees them.
    Seen,
    /// There is none.
    Never,
}

/// The servers of a run. They are independent of each other, except for replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ServerPlan {
    /// The number of nodes that lockers are configured with.
    pub voters: usize,
    /// The number of replicas of the first node.
    pub replicas: usize,
    /// The number of further servers, which lockers are not configured with. A step may make them
    /// replicas.
    pub spares: usize,
    /// The number of sentinels, which are numbered after the servers. With any, lockers are
    /// configured with them alone.
    pub sentinels: usize,
    /// Further arguments for each server's command line.
    pub args: Vec<String>,
    /// Whether the servers keep their data on disk.
    pub appendonly: bool,
    /// If present, the servers' clocks can be set, and gain this much by themselves, in parts per
    /// million.
    pub clock_gains_ppm: Option<i32>,
}

/// The settings that all clients share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locking {
    /// The lock's name.
    pub name: String,
    /// The lease in milliseconds.
    pub lease_ms: u64,
    /// The longest lease in milliseconds. A node that lost its memory does not vote for this long.
    pub max_lease_ms: u64,
    /// The takeover delay in milliseconds: nobody gets the lock for this long after the end of a
    /// belief, unless its holder gave it back.
    #[serde(default)]
    pub takeover_delay_ms: u64,
    /// How many replicas must acknowledge a grant before it counts.
    #[serde(default)]
    pub acks: usize,
    /// How many permits the name has; `None`: it is a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// Whether a free lock with waiters goes to the first of them only.
    #[serde(default)]
    pub strict_order: bool,
}

/// A locker process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientPlan {
    /// The name: `a`, `b`, ...
    pub id: String,
    /// Whether it starts with the run; otherwise a step starts it.
    pub starts: bool,
    /// Whether it reaches nodes by ways that can be cut, rather than directly.
    pub ways: bool,
    /// The only nodes that it can reach; `None`: all.
    pub reaches: Option<Vec<usize>>,
    /// The nodes that it is configured with; `None`: all. A repeated node is the same server at
    /// another address.
    pub configured_with: Option<Vec<usize>>,
    /// By how much its wall clock is ahead, in milliseconds. Its lease clock is right.
    pub clock_by_ms: i64,
    /// The database number in its URLs.
    pub database: u64,
    /// The longest lease that it is configured with, in milliseconds, if it differs from the other
    /// clients'.
    pub max_lease_ms: Option<u64>,
    /// What its tasks do.
    pub work: Work,
}

/// What the tasks of a locker process do, again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The number of tasks that do this at the same time.
    pub contenders: usize,
    /// The number of locks, which the tasks take in turn. Several locks are called `x/0`, `x/1`, ...
    pub names: usize,
    /// Whether each task takes the next name together with its own, in a ring of the names, and how;
    /// `None`: it does not.
    #[serde(default)]
    pub ring: Option<Ring>,
    /// Whether the name is a read-write lock, and how the tasks take it; `None`: it is not.
    #[serde(default)]
    pub read_write: Option<ReadWrite>,
    /// The number of holds after which each task ends; `None`: no limit.
    pub holds: Option<u64>,
    /// How long the work under the lock takes.
    pub hold: Span,
    /// How long a task pauses after a hold.
    pub think: Span,
    /// How it waits for the lock.
    pub waiting: Waiting,
    /// How a holder reacts to a loss of the lock.
    pub on_loss: OnLoss,
    /// Whether its connections are made before the first step.
    #[serde(default)]
    pub connected: bool,
    /// How a holder first accesses the resource.
    pub first_access: FirstAccess,
    /// The interval of writes during a hold, in milliseconds; `None`: no such writes.
    pub write_every_ms: Option<u64>,
    /// How long it stops between its check and its last write, in milliseconds, as a slow machine
    /// may.
    pub failpoint_ms: Option<u64>,
    /// A deliberately broken lock instead of the library's, which the judges must detect.
    pub broken_lock: Option<BrokenLockKind>,
    /// Determines the random numbers of its tasks.
    pub seed: u64,
    /// Whether the client keeps its events until it ends: writing each at once would slow down the
    /// locks that are measured.
    pub records_at_end: bool,
}

/// How a task takes two names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ring {
    /// In one step.
    AllOrNothing,
    /// One after the other, a mistake: it holds the first while it waits for the second.
    OneByOne,
}

/// How a client takes a read-write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadWrite {
    /// For reading, with other readers.
    Read,
    /// For writing, alone.
    Write,
}

/// A duration that is drawn anew each time, both ends included.
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
    /// In the queue, as the library's `lock` does.
    Queue,
    /// By polling with `try_lock` at this interval.
    PollMs(u64),
    /// Not at all: a process of its own makes each attempt, and ends after it or its hold.
    Once,
}

/// How a holder reacts to a loss of the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLoss {
    /// It stops when it is notified, and checks before each write, as it should.
    Watches,
    /// It does neither, like a program that ignores leases.
    Naive,
}

/// How a holder first accesses the resource that the lock guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstAccess {
    /// It writes: from then on a fenced resource refuses earlier holders.
    Claims,
    /// It reads the value that its first write is computed from.
    Reads,
    /// It writes, then reads the value that its next write is computed from.
    ClaimsAndReads,
    /// It does not access the resource at all: the time of a lock is measured.
    Never,
}

/// Mistakes that real lock implementations make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrokenLockKind {
    /// A plain `SET`, without `NX`.
    NoExclusion,
    /// A `SET NX` whose value names the owner and not the hold, so that a late release frees a
    /// later hold. Each release is sent a second time, when its owner holds again.
    ReleaseByOwner,
    /// A lock that counts its owner's holds, with a driver that sends a release again when it gets
    /// no answer: an inner hold is released twice, which also releases the outer one.
    CountsHolds,
    /// All clients have the same state of their random number generator, as clones have: they draw
    /// the same nonces, and each is told that it holds the other's lock.
    RepeatsNonce,
    /// Permits that are counted: each node lets in as many as there are, and a client is in when a
    /// majority of the nodes let it in. It asks the nodes in turn, from `first` on, until enough have.
    CountsPermits {
        /// The node that is asked first.
        first: usize,
    },
    /// A read-write lock without the writer's turn: readers enter a set whenever no writer is in it, and
    /// a writer enters when it is empty. It does not queue.
    ReadersFirst,
}

impl ServerPlan {
    /// The number of servers, without sentinels.
    #[must_use]
    pub fn count(&self) -> usize {
        self.voters + self.replicas + self.spares
    }

    /// The numbers of the nodes that lockers are configured with.
    #[must_use]
    pub fn known(&self) -> Range<usize> {
        if self.sentinels > 0 { self.sentinels() } else { 0..self.voters + self.replicas }
    }

    /// The numbers of the sentinels.
    #[must_use]
    pub fn sentinels(&self) -> Range<usize> {
        self.count()..self.count() + self.sentinels
    }
}

impl Span {
    /// A span of one duration.
    #[must_use]
    pub const fn always(ms: u64) -> Self {
        Self { low_ms: ms, high_ms: ms }
    }
}

impl ClientPlan {
    pub(super) fn new(id: &str, seed: u64) -> Self {
        let work = Work {
            contenders: 1,
            names: 1,
            ring: None,
            read_write: None,
            holds: None,
            hold: Span { low_ms: 1, high_ms: 5 },
            think: Span { low_ms: 0, high_ms: 2 },
            waiting: Waiting::Queue,
            on_loss: OnLoss::Watches,
            connected: false,
            first_access: FirstAccess::Claims,
            write_every_ms: None,
            failpoint_ms: None,
            broken_lock: None,
            seed,
            records_at_end: false,
        };
        Self {
            id: id.to_owned(),
            starts: true,
            ways: false,
            reaches: None,
            configured_with: None,
            clock_by_ms: 0,
            database: 0,
            max_lease_ms: None,
            work,
        }
    }
}

impl Plan {
    /// Multiplies the leases, and the times that are parts or multiples of a lease: pauses of the
    /// schedule, the work of short-lived processes, and bounds.
    pub(crate) fn slow_down(&mut self, factor: u64) {
        let slower = |ms: &mut u64| *ms *= factor;
        slower(&mut self.locking.lease_ms);
        slower(&mut self.locking.max_lease_ms);
        slower(&mut self.locking.takeover_delay_ms);
        slower(&mut self.tail_ms);
        if let Some(span) = &mut self.ended_by_delay {
            slower(&mut span.low_ms);
            slower(&mut span.high_ms);
        }
        for client in &mut self.clients {
            client.max_lease_ms.as_mut().map(slower);
            if client.work.waiting == Waiting::Once {
                slower(&mut client.work.hold.low_ms);
                slower(&mut client.work.hold.high_ms);
            }
        }
        for step in &mut self.schedule {
            if let When::AfterMs(ms) | When::Outlived { ms, .. } = &mut step.when {
                slower(ms);
            }
        }
        let Self { vacant_at_most_ms, failing_at_most_ms, failing_total_at_most_ms, .. } = self;
        for bound in [vacant_at_most_ms, failing_at_most_ms, failing_total_at_most_ms] {
            bound.as_mut().map(slower);
        }
    }

    /// Sets the takeover delay. A node keeps a lock for the lease and the delay, by the clock of the
    /// fastest node, and the longest lease must be as long.
    pub(crate) fn delay_takeovers(&mut self, ms: u64) {
        self.locking.takeover_delay_ms = ms;
        // The library allows for clocks that differ by 1 %.
        let kept_ms = if ms > 0 { self.locking.lease_ms + ms + ms.div_ceil(50) } else { 0 };
        let clients = self.clients.iter_mut().filter_map(|client| client.max_lease_ms.as_mut());
        for longest in clients.chain([&mut self.locking.max_lease_ms]) {
            *longest = kept_ms.max(*longest);
        }
    }

    /// What theory predicts under the takeover delay of this plan, if it predicts `without` of no
    /// delay.
    #[must_use]
    pub fn expected(&self, without: Expected) -> Expected {
        let delay_ms = self.locking.takeover_delay_ms;
        match (without, self.ended_by_delay) {
            (Expected::Violation | Expected::Fenced, Some(ends)) if delay_ms >= ends.high_ms => {
                Expected::Ok
            }
            (Expected::Violation | Expected::Fenced, Some(ends)) if delay_ms >= ends.low_ms => {
                Expected::Any
            }
            _ => without,
        }
    }

    /// Whether a client's writes go by a way that can be cut.
    #[must_use]
    pub fn delays_writes(&self, of: &str) -> bool {
        let delays =
            |step: &Step| matches!(&step.fault, Fault::Writes { client, .. } if client == of);
        self.schedule.iter().any(delays)
    }

    /// Whether this client is one short-lived process after the other.
    fn is_fleet(&self, id: &str) -> bool {
        let once = |client: &ClientPlan| client.work.waiting == Waiting::Once;
        self.clients.iter().any(|client| client.id == id && once(client))
    }

    /// The nodes and clients that the plan names but does not have.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        let nodes = self.servers.sentinels().end;
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
            if let Fault::ChangeMembers { present, target, .. } = &step.fault
                && present.iter().chain(target).any(|node| *node >= nodes)
            {
                wrong.push(format!("no such node: {}", step.fault));
            }
            let one = matches!(
                step.fault,
                Fault::ClientStop(_) | Fault::ClientCont(_) | Fault::ClientKill(_)
            );
            if one && step.fault.client().is_some_and(|client| self.is_fleet(client)) {
                wrong.push(format!("no lasting process: {}", step.fault));
            }
            let kept = |client: &ClientPlan| client.work.records_at_end;
            if let Fault::ClientKill(killed) = &step.fault
                && self.clients.iter().any(|client| client.id == *killed && kept(client))
            {
                wrong.push(format!("its events would be lost: {}", step.fault));
            }
            let sets = matches!(step.fault, Fault::Clock { .. } | Fault::FreezeClock(_));
            if sets && self.servers.clock_gains_ppm.is_none() {
                wrong.push(format!("no clocks that can be set: {}", step.fault));
            }
            if matches!(step.when, When::InSync(node) | When::Has(node) | When::Admitted(node) if node >= nodes)
            {
                wrong.push(format!("no such node: {:?}", step.when));
            }
        }
        wrong
    }
}
