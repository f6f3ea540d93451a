//! Asks the nodes for what `quorumlock top` shows.

use std::time::Duration;

use futures::future::join_all;
use quorumlock::admission::NodeStatusReport;
use quorumlock::{Locker, Name};
use quorumlock_command::Failure;
use quorumlock_protocol::Instant;
use quorumlock_watchdog::Clock;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, cmd};

use super::snapshot::{LockRow, NodeRow, Snapshot};
use crate::cluster::Cluster;
use crate::doctor::facts::Info;
use crate::doctor::probe::{Overview, Probe, answered, overview};
use crate::read_write;
use crate::servers::{Servers, Topology};
use crate::trial::Trial;

/// Asks the same nodes again and again, each on one connection.
#[derive(Debug)]
pub(super) struct Asker {
    nodes: Vec<AskedNode>,
    topology: Topology,
    locker: Locker,
    names: Vec<Name>,
    /// How old a note must be before its node is admitted.
    note_age: Duration,
    clock: Clock,
    snapshots: u64,
}

#[derive(Debug)]
struct AskedNode {
    probe: Probe,
    /// `None`: not connected, or the last question failed.
    connection: Option<MultiplexedConnection>,
    /// As last counted; `None`: not counted since it answers.
    marks: Option<u64>,
}

/// What all nodes are asked.
struct Questions<'a> {
    clock: &'a Clock,
    /// The reference of the clocks.
    start: Instant,
    names: &'a [Name],
    count_marks: bool,
}

/// What a node answers.
struct Answers {
    overview: Overview,
    /// What it did with the lock of a reserved name.
    lock: Trial,
    /// The lengths of its queues of the named locks. `None`: it did not tell.
    queues: Vec<Option<u64>>,
}

/// No answer after this time is no answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

/// Marks are counted for each of so many snapshots: the request is some hundred kilobytes.
const SNAPSHOTS_PER_COUNT: u64 = 10;

impl Asker {
    pub(super) fn new(
        servers: &Servers,
        probes: Vec<Probe>,
        locker: Locker,
        names: Vec<Name>,
        note_age: Duration,
    ) -> Self {
        let asked = |probe| AskedNode { probe, connection: None, marks: None };
        let nodes = probes.into_iter().map(asked).collect();
        let (topology, clock) = (servers.topology, Clock::system());
        Self { nodes, topology, locker, names, note_age, clock, snapshots: 0 }
    }

    /// Never fails: what is not known has a reason.
    pub(super) async fn snapshot(&mut self) -> Snapshot {
        let questions = Questions {
            clock: &self.clock,
            start: self.clock.now(),
            names: &self.names,
            // The members of a Redis Cluster share the slots of marks.
            count_marks: self.topology != Topology::Cluster
                && self.snapshots.is_multiple_of(SNAPSHOTS_PER_COUNT),
        };
        self.snapshots += 1;
        let asked = join_all(self.nodes.iter_mut().map(|node| node.ask(&questions)));
        let locks = join_all(self.names.iter().map(|name| lock(&self.locker, name)));
        let strict = self.topology.is_strict();
        let status = async {
            match strict {
                true => self.locker.node_status().await.ok(),
                false => None,
            }
        };
        let (asked, mut locks, status) = tokio::join!(asked, locks, status);
        for (i, lock) in locks.iter_mut().enumerate() {
            let answers = asked.iter().filter_map(|(_, answers)| answers.as_ref());
            // A waiter may be in the queues of several nodes.
            lock.waiters = answers.filter_map(|answers| answers.queues[i]).max();
        }
        let mut rows: Vec<_> = asked.into_iter().map(|(row, _)| row).collect();
        if let Some(status) = status {
            let replicated = matches!(self.topology, Topology::Replicated { .. });
            // One node, wherever the master is.
            let votes = |row: &&mut NodeRow| !replicated || row.role.as_deref() == Some("master");
            admission(rows.iter_mut().filter(votes), &status, self.note_age);
        }
        let needed = self.topology.needed(rows.len());
        Snapshot::new(rows, needed, locks)
    }
}

impl AskedNode {
    async fn ask(&mut self, questions: &Questions<'_>) -> (NodeRow, Option<Answers>) {
        let node = self.probe.node().to_owned();
        let problem = match tokio::time::timeout(TIMEOUT, self.answers(questions)).await {
            Ok(Ok(answers)) => {
                let row = self.row(node, &answers);
                return (row, Some(answers));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {TIMEOUT:?}"),
        };
        self.marks = None;
        (NodeRow { node, problem: Some(problem), ..NodeRow::default() }, None)
    }

    async fn answers(&mut self, questions: &Questions<'_>) -> RedisResult<Answers> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.probe.connect().await?,
        };
        let overview = overview(&mut connection, questions.clock, questions.start).await?;
        let lock = self.probe.try_lock(&mut connection, questions.clock).await?;
        let mut queues = Vec::new();
        for name in questions.names {
            let length = cmd("ZCARD").arg(name.waiters_key()).query_async(&mut connection).await;
            queues.push(answered(length)?);
        }
        if questions.count_marks {
            self.marks = marks(&connection).await?;
        }
        self.connection = Some(connection);
        Ok(Answers { overview, lock, queues })
    }

    fn row(&self, node: String, Answers { overview, lock, queues }: &Answers) -> NodeRow {
        let Overview { round_trips, clock, text } = overview;
        let Info { role, connections, .. } = Info::parse(text);
        // A replica takes none, and is not at fault.
        let problem = match lock {
            Trial::Refused { why, .. } if role.as_deref() != Some("slave") => {
                Some(format!("takes no lock: {why}"))
            }
            _ => None,
        };
        NodeRow {
            node,
            problem,
            reachable: true,
            takes_locks: match lock {
                Trial::NotAllowed | Trial::Elsewhere => None,
                lock => Some(!lock.refuses()),
            },
            role,
            round_trip_us: u64::try_from(round_trips.median.as_micros()).ok(),
            clock_ahead_us: *clock,
            connections,
            marks: self.marks,
            waiters: queues.iter().copied().sum(),
            ..NodeRow::default()
        }
    }
}

/// How many keys of marks the node has; `None` if it does not tell.
async fn marks(connection: &MultiplexedConnection) -> RedisResult<Option<u64>> {
    /// Few enough that the server answers others in between.
    const KEYS: usize = 512;

    let count = async |first: usize| {
        let mut exists = cmd("EXISTS");
        for slot in first..(first + KEYS).min(Name::SLOTS) {
            exists.arg(Name::mark_key_of(slot));
        }
        answered(exists.query_async::<u64>(&mut connection.clone()).await)
    };
    let counts = join_all((0..Name::SLOTS).step_by(KEYS).map(count)).await;
    counts.into_iter().sum()
}

/// Who holds the lock, as `quorumlock status` asks.
async fn lock(locker: &Locker, name: &Name) -> LockRow {
    let text = name.as_str();
    let error = match locker.mutex(text).holder().await {
        Ok(holder) => return LockRow::new(text.into(), holder),
        Err(error) => error,
    };
    match read_write::holder_instead(&error, locker, text).await {
        Some(holder) => LockRow::read_write(text.into(), holder),
        None => LockRow::unknown(text.into(), Failure::from(error).message),
    }
}

/// Adds to each node whether it votes. `status` is of the same nodes.
fn admission<'a>(
    rows: impl Iterator<Item = &'a mut NodeRow>,
    status: &[NodeStatusReport],
    note_age: Duration,
) {
    let cluster = Cluster::new(status, note_age);
    for (row, node) in rows.zip(status) {
        row.admitted = Some(node.is_admitted());
        if row.problem.is_none() {
            row.problem = cluster.obstacle(node).map(|remark| remark.what);
        }
    }
}
