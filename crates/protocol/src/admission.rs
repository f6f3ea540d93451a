//! Pure: which nodes may vote (SAFETY.md A3, A4; PROTOCOL.md ADM1).
//!
//! A quorum is only as good as its nodes' memory. Each node carries an [`AdmissionRecord`]; it may
//! vote only while the run that was admitted still runs. A node that restarted, was flushed,
//! resynchronised or replaced by its replica counts for **nothing** (grant, renewal, token) until
//! some client has watched it for the longest lease on its own clock (the quarantine). Uptime
//! proves nothing: it is a wall clock, a promoted replica has been up for days, and a flush does
//! not reset it (PROTOCOL.md ADM2).

pub mod members;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::{BoxFuture, Fence, Incarnation, Instant, Mismatch, Node, NodeReport};

/// What all clients of a quorum must agree on; kept on every node, checked in every script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The prefix of the admission record's key, `{prefix}:node`.
    pub prefix: String,
    /// The cluster's name.
    pub cluster: String,
    /// Raised by one at each change of membership.
    pub epoch: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// L: no script grants a longer lease.
    pub longest: Duration,
}

impl ClusterConfig {
    /// The key of the admission record.
    pub fn record_key(&self) -> String {
        format!("{}:node", self.prefix)
    }

    /// L in whole milliseconds.
    pub fn longest_ms(&self) -> u64 {
        u64::try_from(self.longest.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The admission record, which a node keeps about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionRecord {
    /// See [`ClusterConfig::cluster`].
    pub cluster: String,
    /// See [`ClusterConfig::epoch`].
    pub epoch: u64,
    /// See [`ClusterConfig::nodes`].
    pub nodes: usize,
    /// See [`ClusterConfig::longest_ms`].
    pub longest_ms: u64,
    /// The incarnation: fresh at each admission and at each barrier. Scripts are bound to it.
    pub stamp: String,
    /// The run identity of the admitted server: its run id and replication id.
    pub life: String,
    /// The quarantine note, set while a new run is being watched: its run identity and a fresh id.
    pub pending: String,
}

/// The marks of a node, by slot: the largest token of a name in that slot that the node has
/// accepted.
pub type Marks = BTreeMap<usize, Fence>;

/// What a server says about itself, read together with its admission record in one script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its admission record, if it has one.
    pub record: Option<AdmissionRecord>,
    /// Its run identity: run id and replication id.
    pub run_identity: String,
    /// `master` or `slave`.
    pub role: String,
    /// How many replicas are attached.
    pub replicas: u64,
    /// Its `maxmemory-policy`: what it does when its memory is full.
    pub policy: String,
    /// Major version of the protocol family (7 for Redis 7 and all Valkeys).
    pub major: u32,
}

/// Whether a node may vote.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeStatus {
    /// It may; scripts are bound to this incarnation.
    Admitted(Incarnation),
    /// Its memory is not proven; the quarantine note under which it is being watched, if there is
    /// one.
    Unproven(Option<String>),
    /// No client has ever admitted it; the quarantine note under which it is being watched, if
    /// there is one.
    New(Option<String>),
    /// Its setup does not allow it to vote; other nodes may.
    Unfit(Mismatch),
    /// It and this client disagree on the cluster config.
    ConfigMismatch(Mismatch),
}

/// The status of one node of a quorum.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatusReport {
    /// Its URL, without user and password.
    pub node: String,
    /// Whether it may vote; `None` if it did not answer.
    pub status: Option<NodeStatus>,
}

/// Judges one node by what it says about itself.
pub fn classify(info: &NodeInfo, cluster: &ClusterConfig) -> NodeStatus {
    if let Some(error) = unfit(info) {
        return NodeStatus::Unfit(error);
    }
    if let Some(error) = config_mismatch(info, cluster) {
        return NodeStatus::ConfigMismatch(error);
    }
    let Some(record) = &info.record else { return NodeStatus::New(None) };
    if record.life == info.run_identity
        && let Some(stamp) = Incarnation::parse(&record.stamp)
    {
        return NodeStatus::Admitted(stamp);
    }
    let watched = record.pending.starts_with(&info.run_identity) && !record.pending.is_empty();
    let note = watched.then(|| record.pending.clone());
    // A record without an admitted run was written when a quarantine began: the node is still new.
    if record.life.is_empty() { NodeStatus::New(note) } else { NodeStatus::Unproven(note) }
}

fn unfit(info: &NodeInfo) -> Option<Mismatch> {
    if info.major < 7 {
        // Before 7.0, servers saved and replicated scripts, so scripts would outlive a run.
        return mismatch("version", info.major.to_string(), "7 or later");
    }
    if info.role != "master" {
        return mismatch("role", info.role.clone(), "master");
    }
    if info.replicas > 0 {
        // A replica may be promoted with a stale copy of everything, the admission record included.
        return mismatch("connected replicas", info.replicas.to_string(), "0");
    }
    if info.policy != "noeviction" {
        // The server may drop the keys of locks that are held (SAFETY.md H14, PROTOCOL.md ADM5).
        return mismatch("maxmemory-policy", info.policy.clone(), "noeviction");
    }
    None
}

fn config_mismatch(info: &NodeInfo, cluster: &ClusterConfig) -> Option<Mismatch> {
    let record = info.record.as_ref()?;
    if record.cluster != cluster.cluster {
        return mismatch("cluster", record.cluster.clone(), &cluster.cluster);
    }
    if record.epoch != cluster.epoch {
        return mismatch("epoch", record.epoch.to_string(), &cluster.epoch.to_string());
    }
    if record.nodes != cluster.nodes {
        let (found, expected) = (record.nodes.to_string(), cluster.nodes.to_string());
        return mismatch("number of nodes", found, &expected);
    }
    if record.longest_ms != cluster.longest_ms() {
        let expected = format!("{} ms", cluster.longest_ms());
        return mismatch("longest lease", format!("{} ms", record.longest_ms), &expected);
    }
    None
}

fn mismatch(what: &'static str, found: String, expected: &str) -> Option<Mismatch> {
    Some(Mismatch::new(what, found, expected.to_owned()))
}

/// A node that clients can examine and admit. Every future ends when the node answers or its
/// connection ends.
pub trait AdmissionRpc: Node {
    /// Whether the node's memory is proven, as far as its connections know; true before the first
    /// connection.
    fn proven(&self) -> bool;
    /// Reads what the node says about itself.
    fn node_info(&self) -> BoxFuture<Result<NodeInfo, NodeReport>>;
    /// Begins a quarantine: notes that the node's present run is being watched, unless that run is
    /// admitted or noted already.
    fn begin_quarantine(&self, id: &str) -> BoxFuture<Result<(), NodeReport>>;
    /// Gives the node a new incarnation, which ends the rounds in progress on it, and returns its
    /// marks.
    fn barrier(&self, stamp: &str) -> BoxFuture<Result<Marks, NodeReport>>;
    /// Raises the node's marks to these, and admits the run under `note`; false if the note or the
    /// run is another now.
    fn admit(&self, note: &str, stamp: &str, marks: &Marks) -> BoxFuture<Result<bool, NodeReport>>;
    /// Admits the node's present run at once; false if it has an admission record and `replace` is
    /// false.
    fn provision(&self, stamp: &str, replace: bool) -> BoxFuture<Result<bool, NodeReport>>;
}

/// What the admission task of a quorum does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionAction {
    /// Write a quarantine note, under which the node's present run is watched.
    BeginQuarantine(usize),
    /// The quarantine is over: copy the marks of a majority, then admit the node. Tokens that only
    /// a bare majority accepts survive no loss of marks (PROTOCOL.md T3).
    Admit {
        /// Which node.
        node: usize,
        /// The quarantine note that must still be there.
        quarantine_mark: String,
        /// The nodes to ask for their marks, with [`AdmissionRpc::barrier`].
        helpers: Vec<usize>,
        /// How many of them must answer.
        needed: usize,
    },
}

/// Times the quarantine of unproven nodes on our own clock. Pure: node statuses and `now` come in,
/// actions go out.
#[derive(Debug)]
pub struct Readmission {
    cluster: ClusterConfig,
    max_clock_drift: f64,
    quorum: usize,
    /// Quarantine note -> since when we have seen it.
    quarantines: HashMap<String, Instant>,
    /// When each node was last seen admitted; a node that is seen not admitted has no entry.
    admitted: HashMap<usize, Instant>,
}

impl Readmission {
    /// A state in which no node has been seen yet. `max_clock_drift` bounds how much faster our
    /// clock may run than the clocks by which leases were granted.
    pub fn new(cluster: ClusterConfig, max_clock_drift: f64) -> Self {
        let quorum = crate::quorum_of(cluster.nodes);
        Self {
            cluster,
            max_clock_drift,
            quorum,
            quarantines: HashMap::new(),
            admitted: HashMap::new(),
        }
    }

    /// How long the quarantine lasts: L on any clock that leases were counted by, and a margin of
    /// 10 ms.
    pub fn quarantine(&self) -> Duration {
        self.cluster.longest.mul_f64(1.0 + 2.0 * self.max_clock_drift) + Duration::from_millis(10)
    }

    /// What to do, given the status of each node; `None` for a node that did not answer. `now` is
    /// read after the answers came.
    pub fn step(&mut self, standings: &[Option<NodeStatus>], now: Instant) -> Vec<AdmissionAction> {
        let of = |i: usize| standings.get(i).and_then(Option::as_ref);
        for (node, standing) in standings.iter().enumerate() {
            match standing {
                Some(NodeStatus::Admitted(_)) => self.admitted.insert(node, now),
                Some(_) => self.admitted.remove(&node),
                None => continue,
            };
        }
        let mut acts = Vec::new();
        let mut seen = HashMap::new();
        for node in 0..standings.len() {
            match of(node) {
                Some(NodeStatus::New(None) | NodeStatus::Unproven(None)) => {
                    acts.push(AdmissionAction::BeginQuarantine(node));
                }
                Some(NodeStatus::New(Some(note)) | NodeStatus::Unproven(Some(note))) => {
                    let since = self.quarantines.get(note).copied().unwrap_or(now);
                    seen.insert(note.clone(), since);
                    if now.since(since) >= self.quarantine()
                        && let Some((helpers, needed)) = self.helpers(node, standings, &seen, now)
                    {
                        acts.push(AdmissionAction::Admit {
                            node,
                            quarantine_mark: note.clone(),
                            helpers,
                            needed,
                        });
                    }
                }
                _ => {}
            }
        }
        // A node that does not answer for a moment stays in quarantine: the note proves that its
        // run continues.
        for (note, since) in seen {
            self.quarantines.insert(note, since);
        }
        acts
    }

    /// A majority of admitted nodes other than `node`, and how many of them must answer. With fewer
    /// left (site power loss), nodes that have themselves been watched long enough replace them:
    /// then all old leases have ended, and the order of tokens rests on the clocks.
    fn helpers(
        &self,
        node: usize,
        standings: &[Option<NodeStatus>],
        seen: &HashMap<String, Instant>,
        now: Instant,
    ) -> Option<(Vec<usize>, usize)> {
        let others = || standings.iter().enumerate().filter(move |(i, _)| *i != node);
        let admitted: Vec<usize> = others()
            .filter(|(_, s)| matches!(s, Some(NodeStatus::Admitted(_))))
            .map(|(i, _)| i)
            .collect();
        if admitted.len() >= self.quorum {
            return Some((admitted, self.quorum));
        }
        // A node that does not answer for a moment still has its marks: wait for it.
        let lately = |at: &&Instant| now.since(**at) < self.quarantine();
        if self.admitted.values().filter(lately).count() >= self.quorum {
            return None;
        }
        let ripe = |standing: &NodeStatus| match standing {
            NodeStatus::Admitted(_) => true,
            NodeStatus::New(Some(note)) | NodeStatus::Unproven(Some(note)) => {
                let since = seen.get(note).or_else(|| self.quarantines.get(note));
                since.is_some_and(|since| now.since(*since) >= self.quarantine())
            }
            _ => false,
        };
        let ripe: Vec<usize> =
            others().filter(|(_, s)| s.as_ref().is_some_and(ripe)).map(|(i, _)| i).collect();
        (ripe.len() + 1 >= self.quorum).then_some((ripe, self.quorum - 1))
    }
}

#[cfg(test)]
mod tests;
