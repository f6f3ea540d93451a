//! Pure: which nodes may vote (SAFETY.md A3, A4; PROTOCOL.md ADM1, Members).
//!
//! A quorum is only as good as its nodes' memory. Each node carries an admission record, a
//! [`MemberRecord`](members::MemberRecord); it may vote only while the run that was admitted still
//! runs, and only for clients whose list of nodes the record has. A node that restarted, was
//! flushed, resynchronised or replaced by its replica counts for **nothing** (grant, renewal,
//! token) until its note is older than the longest lease. Uptime proves nothing: a promoted replica
//! has been up for days, and a flush does not reset it (PROTOCOL.md ADM2).

pub mod members;
mod seen_ids;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use seen_ids::SeenIds;

/// For how many answer timeouts a copy of marks is awaited, by its caller and by its connection: its
/// request, or its answer, is 500 KB. A slow machine or network that never finished in time would never
/// bring a node back.
pub const COPY_TIMES: u32 = 10;

use crate::{
    BoxFuture, FencingToken, Incarnation, Mismatch, Node, NodeProblem, NodeReport, PROTOCOL,
};
use members::{
    MemberAction, MemberList, Membership, NodeMemory, NoteStep, Seen, Terms, actions, membership,
    note_age, view,
};

/// What all clients of a quorum must agree on; kept on every node, checked in every script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The prefix of the admission record's key, `{prefix}:node`.
    pub prefix: String,
    /// The labels of all nodes. The list identifies the cluster.
    pub members: MemberList,
    /// L: no script grants a longer lease.
    pub longest: Duration,
    /// How far a node's wall clock may be from a client's when a note is written or matured.
    pub clock_bound: Duration,
    /// Whether the one node is a master whose replicas may be promoted. A replica has a copy of the
    /// admission record, so each vote compares the run identity, too (PROTOCOL.md ADM7).
    pub replicated: bool,
}

impl ClusterConfig {
    /// The key of the admission record.
    pub fn record_key(&self) -> String {
        format!("{}:node", self.prefix)
    }

    /// L in whole milliseconds.
    pub fn longest_ms(&self) -> u64 {
        millis(self.longest)
    }

    /// The clock bound in whole milliseconds.
    pub fn clock_bound_ms(&self) -> u64 {
        millis(self.clock_bound)
    }

    /// How old a note must be: [`note_age`].
    pub fn note_age(&self, max_clock_drift: f64) -> Duration {
        note_age(self.longest, max_clock_drift, self.clock_bound)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The marks of a node, by slot: the largest token of a name in that slot that the node has
/// accepted.
pub type Marks = BTreeMap<usize, FencingToken>;

/// What a server says about itself, read together with its admission record in one script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// What the rules of members judge.
    pub memory: NodeMemory,
    /// The incarnation of its record, if it has one of the present run: fresh at each admission, at
    /// each barrier and at each change of the list. Scripts are bound to it.
    pub incarnation: Option<Incarnation>,
    /// The id of its note, of whichever run: [`NoteRequest::instead_of`] and [`AdmitRequest::note`]
    /// name it.
    pub note_id: Option<String>,
    /// The longest lease and the clock bound in its record, in milliseconds.
    pub agreed_ms: Option<(u64, u64)>,
    /// The [`PROTOCOL`] of its record, of whichever run; 1 if it has none.
    pub protocol: u32,
    /// The list of a client that came lately with a list that is not the newest, and the server's
    /// time then, in microseconds.
    pub outdated: Option<(MemberList, i64)>,
    /// `master` or `slave`.
    pub role: String,
    /// How many replicas are attached.
    pub replicas: u64,
    /// Its `maxmemory-policy`: what it does when its memory is full.
    pub policy: String,
    /// Major version of the protocol family (7 for Redis 7 and all Valkeys).
    pub major: u32,
}

impl NodeInfo {
    /// Whether it has the record of a cluster, of whichever run.
    pub fn has_record(&self) -> bool {
        self.memory.record.is_some()
    }
}

/// Whether a node may vote.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NodeStatus {
    /// It may; scripts are bound to this incarnation.
    Admitted(Incarnation),
    /// Its memory is not proven: it restarted, or lost its data.
    Unproven,
    /// No client has ever admitted it, or it lost its record, too.
    New,
    /// It is not admitted, and its clock is ahead of the client's by this many microseconds, or
    /// behind: it is not admitted until the clock that is wrong is set.
    ClockDiffers(i64),
    /// It belongs to a cluster with other lists of nodes: it bars the client.
    OtherMembers {
        /// The lists whose clients it votes for.
        found: Terms,
        /// The list of the client.
        ours: MemberList,
    },
    /// Its setup does not allow it to vote; other nodes may.
    Unfit(Mismatch),
    /// It and this client disagree on the longest lease or the clock bound.
    ConfigMismatch(Mismatch),
    /// Its record is of this [`PROTOCOL`], which is newer than the client's: it bars the client.
    NewerProtocol(u32),
}

impl NodeStatus {
    /// Why the node does not vote; `None` if it does.
    pub fn problem(&self) -> Option<NodeProblem> {
        Some(match self.clone() {
            Self::Admitted(_) => return None,
            Self::Unproven => NodeProblem::NotAdmitted,
            Self::New => NodeProblem::New,
            Self::ClockDiffers(ahead_micros) => NodeProblem::ClockDiffers { ahead_micros },
            Self::OtherMembers { found, ours } => NodeProblem::OtherMembers { found, ours },
            Self::Unfit(what) => NodeProblem::Unfit(what),
            Self::ConfigMismatch(what) => NodeProblem::ConfigMismatch(what),
            Self::NewerProtocol(found) => NodeProblem::NewerProtocol { found, ours: PROTOCOL },
        })
    }
}

/// The status of one node of a quorum.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NodeStatusReport {
    /// Its URL, without user and password.
    pub node: String,
    /// Its label in lists of nodes.
    pub label: Arc<str>,
    /// Whether it may vote, or why it did not say so.
    pub status: Result<NodeStatus, NodeProblem>,
    /// The lists whose clients it votes for, by its record of the present run.
    pub terms: Option<Terms>,
    /// What the next client does about its note; `None` for a node that has a record of the present
    /// run, or does not answer.
    pub note: Option<NoteStep>,
    /// A list that is not the newest, with which a client came, and how long ago.
    pub outdated: Option<(MemberList, Duration)>,
}

impl NodeStatusReport {
    /// A node that does not answer, and why.
    #[doc(hidden)]
    pub fn silent(
        node: impl Into<String>,
        label: impl Into<Arc<str>>,
        problem: NodeProblem,
    ) -> Self {
        let (node, label) = (node.into(), label.into());
        Self { node, label, status: Err(problem), terms: None, note: None, outdated: None }
    }

    /// Whether the node votes.
    pub fn is_admitted(&self) -> bool {
        matches!(self.status, Ok(NodeStatus::Admitted(_)))
    }
}

/// Judges one node by what it says about itself.
pub fn classify(info: &NodeInfo, cluster: &ClusterConfig) -> NodeStatus {
    // First, because this client may misread the rest of the record (PROTOCOL.md ADM8).
    if info.protocol > PROTOCOL {
        return NodeStatus::NewerProtocol(info.protocol);
    }
    if let Some(error) = unfit(info, cluster) {
        return NodeStatus::Unfit(error);
    }
    match (membership(&info.memory, &cluster.members), info.incarnation) {
        (Membership::Foreign(terms), _) => {
            NodeStatus::OtherMembers { found: terms.clone(), ours: cluster.members.clone() }
        }
        (Membership::Votes(_), Some(incarnation)) => match config_mismatch(info, cluster) {
            Some(mismatch) => NodeStatus::ConfigMismatch(mismatch),
            None => NodeStatus::Admitted(incarnation),
        },
        _ if !info.memory.clock.agrees() => NodeStatus::ClockDiffers(info.memory.clock.ahead()),
        _ if !info.has_record() => NodeStatus::New,
        _ => NodeStatus::Unproven,
    }
}

fn unfit(info: &NodeInfo, cluster: &ClusterConfig) -> Option<Mismatch> {
    if info.major < 7 {
        // Before 7.0, servers saved and replicated scripts, so scripts would outlive a run.
        return mismatch("version", info.major.to_string(), "7 or later");
    }
    if info.role != "master" {
        return mismatch("role", info.role.clone(), "master");
    }
    if info.replicas > 0 && !cluster.replicated {
        // A replica may be promoted with a stale copy of everything, the admission record included.
        return mismatch("connected replicas", info.replicas.to_string(), "0");
    }
    if info.policy != "noeviction" {
        // The server may drop the keys of locks that are held (SAFETY.md H14, PROTOCOL.md ADM5).
        return mismatch("maxmemory-policy", info.policy.clone(), "noeviction");
    }
    None
}

/// What a node's record says otherwise about the longest lease or the clock bound.
pub fn config_mismatch(info: &NodeInfo, cluster: &ClusterConfig) -> Option<Mismatch> {
    let (longest, bound) = info.agreed_ms?;
    let differs = |what, found: u64, ours: u64| {
        let expected = format!("{ours} ms");
        (found != ours).then(|| mismatch(what, format!("{found} ms"), &expected)).flatten()
    };
    differs("longest lease", longest, cluster.longest_ms())
        .or_else(|| differs("clock bound", bound, cluster.clock_bound_ms()))
}

fn mismatch(what: &'static str, found: String, expected: &str) -> Option<Mismatch> {
    Some(Mismatch::new(what, found, expected.to_owned()))
}

/// What a client does next about the nodes of its list, by what they show; `None` does not answer.
/// `age` is that of [`ClusterConfig::note_age`].
pub fn next_actions(
    cluster: &ClusterConfig,
    nodes: &[Option<NodeInfo>],
    age: Duration,
) -> Vec<MemberAction> {
    let judged = || nodes.iter().map(|info| info.as_ref().map(|info| classify(info, cluster)));
    // A client with another longest lease would wait for too short a time; one of an older protocol
    // would write records that the others do not vote under.
    let barred =
        |status| matches!(status, NodeStatus::ConfigMismatch(_) | NodeStatus::NewerProtocol(_));
    if judged().flatten().any(barred) {
        return Vec::new();
    }
    // Nothing is written on a node that may not vote.
    let fit = |(info, status): (&Option<NodeInfo>, Option<NodeStatus>)| {
        let info = info.as_ref().filter(|_| !matches!(status, Some(NodeStatus::Unfit(_))));
        info.map(|info| info.memory.clone())
    };
    let memories: Vec<_> = nodes.iter().zip(judged()).map(fit).collect();
    actions(&cluster.members, &memories, age)
}

/// The status of each node, which is called by its URL and its label, by what it shows or why it
/// does not answer. `age` is that of [`ClusterConfig::note_age`].
pub fn status_reports(
    cluster: &ClusterConfig,
    nodes: Vec<(String, Arc<str>, Result<NodeInfo, NodeProblem>)>,
    age: Duration,
) -> Vec<NodeStatusReport> {
    let memories: Vec<_> =
        nodes.iter().map(|(.., info)| info.as_ref().ok().map(|info| info.memory.clone())).collect();
    let seen = view(&cluster.members, &memories, age);
    let report = |((node, label, info), seen): ((String, Arc<str>, Result<_, _>), Seen<'_>)| {
        let info: NodeInfo = match info {
            Ok(info) => info,
            Err(problem) => return NodeStatusReport::silent(node, label, problem),
        };
        let note = match seen {
            Seen::Unproven(step) => Some(step),
            _ => None,
        };
        let record = info.memory.record.as_ref();
        let record = record.filter(|record| record.run_identity == info.memory.run_identity);
        NodeStatusReport {
            node,
            label,
            status: Ok(classify(&info, cluster)),
            terms: record.map(|record| record.terms.clone()),
            note,
            outdated: info.outdated.map(|(list, at)| {
                let ago = info.memory.clock.server.saturating_sub(at);
                (list, Duration::from_micros(u64::try_from(ago).unwrap_or(0)))
            }),
        }
    };
    nodes.into_iter().zip(seen).map(report).collect()
}

/// A note to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteRequest {
    /// The list of the client.
    pub list: MemberList,
    /// A fresh id.
    pub id: String,
    /// The id of the note that is taken over; without, a note is written if there is none.
    pub instead_of: Option<String>,
}

/// The admission of a node's present run under its mature note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmitRequest {
    /// The id of the note.
    pub note: String,
    /// How old the note must be.
    pub age: Duration,
    /// What the record will say.
    pub terms: Terms,
    /// A fresh incarnation.
    pub incarnation: String,
    /// The marks to which the node's rise.
    pub marks: Marks,
}

/// A node that clients can examine and admit. Every future ends when the node answers or its
/// connection ends.
pub trait AdmissionRpc: Node {
    /// The node's label in lists of nodes.
    fn member(&self) -> &Arc<str>;
    /// Whether the node's memory is proven, as far as its connections know; true before the first
    /// connection.
    fn proven(&self) -> bool;
    /// Reads what the node says about itself.
    fn node_info(&self) -> BoxFuture<Result<NodeInfo, NodeReport>>;
    /// Writes a note with the server's time, or takes one over; false if the note or the run is
    /// another, the run is admitted, or the clocks differ (PROTOCOL.md MEM3, MEM4).
    fn note(&self, note: NoteRequest) -> BoxFuture<Result<bool, NodeReport>>;
    /// Gives the node a new incarnation, which ends the rounds in progress on it, and returns its
    /// marks.
    fn barrier(&self, incarnation: &str) -> BoxFuture<Result<Marks, NodeReport>>;
    /// Raises the node's marks and admits its run; false if the note or the run is another, the
    /// clocks differ, or the note is too young (PROTOCOL.md MEM3 to MEM5).
    fn admit(&self, request: AdmitRequest) -> BoxFuture<Result<bool, NodeReport>>;
    /// Writes terms that follow those of the record with the incarnation `found`; false if the run
    /// or the record is another (PROTOCOL.md MEM6).
    fn write_terms(
        &self,
        found: Incarnation,
        terms: &Terms,
        incarnation: &str,
    ) -> BoxFuture<Result<bool, NodeReport>>;
    /// Admits the node's present run at once, on the operator's word; false if its record has
    /// another incarnation than `found` (`None`: if it has a record of the present run).
    fn provision(
        &self,
        found: Option<Incarnation>,
        terms: &Terms,
        incarnation: &str,
    ) -> BoxFuture<Result<bool, NodeReport>>;
    /// Fails if another address of the node may be that of a master whose locks these are, or, if the
    /// node is `new`, of a server that has the record of a cluster (PROTOCOL.md REP4).
    fn stands_alone(&self, new: bool) -> BoxFuture<Result<(), NodeReport>> {
        let _ = new;
        Box::pin(std::future::ready(Ok(())))
    }
    /// The numbers of the server's other databases that have an admission record or a note.
    fn other_databases(&self) -> BoxFuture<Result<Vec<u64>, NodeReport>>;
}

#[cfg(test)]
mod tests;
