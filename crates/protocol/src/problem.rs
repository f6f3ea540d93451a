//! What is wrong with a node. The problems are typed, so that programs can tell who must act; the
//! text is made from the type.

use std::fmt;
use std::time::Duration;

use crate::TlsProblem;
use crate::admission::members::{MemberList, Terms};

/// Why one node gave no vote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeReport {
    /// Its URL, without user and password.
    pub node: String,
    /// What is wrong with it.
    pub problem: NodeProblem,
}

impl NodeReport {
    /// `node` has this `problem`.
    #[doc(hidden)]
    pub fn new(node: impl Into<String>, problem: NodeProblem) -> Self {
        Self { node: node.into(), problem }
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.problem)
    }
}

/// What is wrong with a node. The variants down to [`NodeProblem::TooLate`] mean that the node gave
/// no answer in time. The others mean that it answered, except [`NodeProblem::NoSentinel`], and
/// [`NodeProblem::NoMaster`] and [`NodeProblem::NoClusterMember`] if none of the addresses did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeProblem {
    /// No connection could be opened: the reason.
    #[error("not connected: {0}")]
    NotConnected(String),
    /// No connection could be opened in time, because the way to it takes long.
    #[error("the link is slow: not connected within {within:?}, and one step took {step:?}")]
    SlowLink {
        /// The time that was over.
        within: Duration,
        /// How long the longest step took: a round trip or two.
        step: Duration,
    },
    /// No answer within this time.
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    /// The connection broke before the answer came: the reason.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The request was not sent: the reason.
    #[error("not asked: {0}")]
    NotAsked(String),
    /// The async runtime that drove the connection ended before the answer came.
    #[error("its connection ended with the runtime that drove it")]
    RuntimeEnded,
    /// It granted the lock, but did not say whether it accepts the fencing token.
    #[error("granted, but did not say whether it accepts the fencing token")]
    Unconfirmed,
    /// It did not confirm a renewal.
    #[error("did not confirm the renewal")]
    NotRenewed,
    /// It granted the lock, and its answer came after the lease had ended.
    #[error("answered after the lease had ended")]
    TooLate,
    /// It is new: no client has admitted it yet (`PROTOCOL.md`, Admission).
    #[error("is new and not admitted yet")]
    New,
    /// It has restarted or lost its memory, and counts for nothing until it is admitted again
    /// (`PROTOCOL.md`, Admission).
    #[error("has restarted or lost its memory, and is not admitted again yet")]
    NotAdmitted,
    /// It has no proven memory, and another node of the list has the record of the cluster: the call
    /// that vouches for new servers does not take it (`PROTOCOL.md` ADM11).
    #[error("has restarted or lost its memory, and these nodes are a cluster already")]
    Founded,
    /// Its admission was renewed while it was asked.
    #[error("was verified anew while it was asked")]
    Reverified,
    /// It granted the lock, but other clients moved its fencing mark while it was asked.
    #[error("granted, but others moved its fencing mark on while it was asked")]
    MarkAhead,
    /// It belongs to a cluster with other lists of nodes than this locker's. It bars the locker,
    /// whatever the other nodes say (`PROTOCOL.md`, Members).
    #[error("belongs to the cluster {}, and this program's nodes are [{ours}]", lists(found))]
    OtherMembers {
        /// The lists whose clients it votes for.
        found: Terms,
        /// The list of this locker.
        ours: MemberList,
    },
    /// It belongs to a cluster whose programs lock under strict admission, and this program does not:
    /// the cluster's other nodes may hold what it would be granted here. It bars the locker
    /// (`PROTOCOL.md` ADM9).
    #[error(
        "belongs to the cluster [{list}], by the record \"quorumlock:node\" in its database \
         {database}, and this program locks without strict admission"
    )]
    StrictCluster {
        /// The list of the cluster.
        list: MemberList,
        /// The database of this locker, which has the record.
        database: i64,
    },
    /// It is not admitted, and its wall clock is too far from this program's to be.
    #[error("is not admitted: its clock is {} this program's", apart(*ahead_micros))]
    ClockDiffers {
        /// How far its clock is ahead, in microseconds.
        ahead_micros: i64,
    },
    /// Another database of the server has the record of a cluster, or a note of programs that begin
    /// one: locks there are other locks.
    #[error("is used in its database {0}, whose locks are not those of this database")]
    OtherDatabase(u64),
    /// It was admitted with another longest lease or clock bound than this locker's.
    #[error("was admitted under other terms: its {0}")]
    ConfigMismatch(Mismatch),
    /// Its record is of a newer protocol than this program's, whose locks it might misread. It bars
    /// the program (`PROTOCOL.md`, Admission).
    #[error(
        "was admitted by a newer quorumlock: its protocol is {found}, and this program's is {ours}"
    )]
    NewerProtocol {
        /// That of its record.
        found: u32,
        /// That of this program.
        ours: u32,
    },
    /// Its setup does not allow it to vote.
    #[error("cannot vote as it is set up: its {0}")]
    Unfit(Mismatch),
    /// It is a member of a Redis Cluster: it serves only the names of its own slots.
    #[error("is a member of a Redis Cluster, which serves only the names of its own slots")]
    ClusterMode,
    /// It was given as a member of a Redis Cluster, and is none.
    #[error("is a server without a Redis Cluster")]
    NotACluster,
    /// None of the given members of a Redis Cluster answered as one: what each of them said.
    #[error("none of the given members of the Redis Cluster can be used ({})", list(.0))]
    NoClusterMember(Vec<NodeReport>),
    /// No member of the Redis Cluster serves the slot of the name now: the answer of one of them.
    #[error("the Redis Cluster does not serve the slot of the name now: {0}")]
    SlotNotServed(String),
    /// It is a replica.
    #[error("is a replica of {0}")]
    Replica(String),
    /// Its role is neither that of a master nor that of a replica: the role.
    #[error("has the role {0:?}, which is neither master nor slave")]
    UnknownRole(String),
    /// None of the given addresses is a master: what each of them said.
    #[error("none of its addresses is a master ({})", list(.0))]
    NoMaster(Vec<NodeReport>),
    /// None of the sentinels answered: why each of them did not.
    #[error("none of its sentinels answers ({})", list(.0))]
    NoSentinel(Vec<NodeReport>),
    /// No sentinel that answered knows a master of this name.
    #[error("its sentinels know no master {0:?}")]
    UnknownMaster(String),
    /// Several of the given addresses are masters, and none was promoted over another.
    #[error("its addresses disagree: {0} are masters, and none was promoted over another")]
    MastersDisagree(String),
    /// The sentinels name several servers, each of which says that it is the master, and none of
    /// which continues another.
    #[error("its sentinels disagree: {0} are masters, and none was promoted over another")]
    SentinelsDisagree(String),
    /// It is a sentinel, which holds no locks.
    #[error("is a sentinel, which holds no locks")]
    Sentinel,
    /// It was given as a sentinel, and is none.
    #[error("is a server and no sentinel")]
    NotASentinel,
    /// Too few of its replicas have acknowledged the lock, or follow it: its answer, or the result
    /// of `WAIT`.
    #[error("too few replicas: {0}")]
    NoReplicas(String),
    /// Its disk did not have the lock in time, or it cannot tell: its answer, or the result of `WAITAOF`.
    #[error("not durable: {0}")]
    NotDurable(String),
    /// A key that the lock needs is a lock of another kind or of the other layout: its holders need it.
    #[error("the key {key:?} is {found}: this call is for another kind of lock or another layout")]
    WrongType {
        /// Which key.
        key: String,
        /// What it is, as far as the server tells.
        found: String,
    },
    /// A key that is no lock: it holds data. A waiter does not wait for it, and a forced release does not
    /// delete it.
    #[error(
        "the key {key:?} is no lock but {found}: choose another name for the lock, or, if nobody needs the \
         key, delete it yourself (DEL)"
    )]
    NotALock {
        /// Which key.
        key: String,
        /// What it is.
        found: String,
    },
    /// Its fencing mark cannot rise: it is at the last token ([`FencingToken::MAX`](crate::FencingToken::MAX)),
    /// or it is no mark.
    #[error(
        "the fencing mark {key:?} cannot rise: it must be a sorted set whose member \"m\" has a score below {}; \
         set it (ZADD) to the largest token that was used, or delete it (DEL) if none was",
        crate::FencingToken::FULL
    )]
    BadMark {
        /// Which key.
        key: String,
    },
    /// The counter of Redisson's `RFencedLock` cannot rise: it is no number, or it is at the last
    /// token.
    #[error(
        "the counter {key:?} of Redisson's RFencedLock cannot rise: it must be a whole number below {}; set it \
         (SET) to the largest token that was used",
        crate::FencingToken::FULL
    )]
    BadCounter {
        /// Which key.
        key: String,
    },
    /// Another address of the same locker leads to the same server, whose vote would count twice.
    #[error("is the same server as {0}")]
    SameServer(String),
    /// It did not accept the user or the password: its answer.
    #[error("authentication failed: {0}")]
    Authentication(String),
    /// The user has no permission: its answer.
    #[error("no permission: {0}")]
    Permission(String),
    /// The database number does not exist on this server: its answer.
    #[error("the database cannot be selected: {0}")]
    Database(String),
    /// Its memory is full: its answer.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// It accepts no more clients: its answer.
    #[error("takes no more clients: {0}")]
    TooManyClients(String),
    /// The TLS handshake failed.
    #[error("TLS failed: {0}")]
    Tls(TlsProblem),
    /// It sent something that a Redis server does not send here.
    #[error("gave an answer that fits no question: {0}")]
    Malformed(String),
    /// It refused the command for another reason.
    #[error("refused: {text}")]
    Refused {
        /// The first word of its answer, such as `LOADING` or `MISCONF`.
        code: String,
        /// Its whole answer.
        text: String,
    },
}

/// A value of a node that differs from what this client needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found}, expected {expected}")]
#[non_exhaustive]
pub struct Mismatch {
    /// Which value.
    pub what: &'static str,
    /// What it is.
    pub found: String,
    /// What it must be.
    pub expected: String,
}

impl Mismatch {
    /// What to do about another cluster configuration.
    fn agree(&self) -> &'static str {
        match self.what {
            "longest lease" => {
                "give this program the longest lease that the others use (--max-lease, \
                 Builder::max_lease), or stop all programs and run `quorumlock init --force` with the new one"
            }
            _ => {
                "give this program the clock bound that the others use (--clock-bound, \
                 Builder::clock_bound), or stop all programs and run `quorumlock init --force` with \
                 the new one"
            }
        }
    }

    /// What to do about a server that is not set up as it must be.
    fn set_up(&self) -> &'static str {
        match self.what {
            "role" => "give its master's address: a quorum is made of masters",
            "connected replicas" => {
                "detach its replicas, since a node is a lone master, or give the master with its replicas as \
                 `replicated`"
            }
            "maxmemory-policy" => "set it at the server: CONFIG SET maxmemory-policy noeviction",
            "version" => "upgrade the server",
            _ => "set up the server as expected",
        }
    }

    /// What differs, what the node has, and what the client expects.
    #[doc(hidden)]
    pub fn new(what: &'static str, found: String, expected: String) -> Self {
        Self { what, found, expected }
    }
}

impl NodeProblem {
    /// The problem that an error reply of the server states.
    #[doc(hidden)]
    pub fn from_reply(text: &str) -> Self {
        // A transaction or a script puts its own words before the cause.
        let cause = text.split_once("because of: ").map_or(text, |(_, cause)| cause);
        let code = cause.split_whitespace().next().unwrap_or_default();
        let told = || text.to_owned();
        match code {
            "NOAUTH" | "WRONGPASS" => Self::Authentication(told()),
            "NOPERM" => Self::Permission(told()),
            "OOM" => Self::OutOfMemory(told()),
            "NOREPLICAS" => Self::NoReplicas(told()),
            "NOTDURABLE" => Self::NotDurable(told()),
            "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" => Self::ClusterMode,
            "NOINFO" => {
                let why = cause.split_once(' ').map_or("", |(_, why)| why);
                Self::Permission(format!("strict admission needs INFO inside scripts: {why}"))
            }
            "BADMARK" => {
                let key = cause.split(' ').nth(1).unwrap_or_default().to_owned();
                Self::BadMark { key }
            }
            // The key contains the lock's name, which may contain spaces.
            "BADCOUNTER" => {
                let key = cause.split_once(' ').map_or("", |(_, key)| key).to_owned();
                Self::BadCounter { key }
            }
            _ if cause.contains("ACL failure") || cause.contains(REFUSED_IN_SCRIPT) => {
                Self::Permission(told())
            }
            _ if cause.contains("max number of clients") => Self::TooManyClients(told()),
            _ => Self::Refused { code: code.to_owned(), text: told() },
        }
    }

    /// Whether the problem may go away without intervention.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::ConfigMismatch(_)
            | Self::NewerProtocol { .. }
            | Self::OtherMembers { .. }
            | Self::StrictCluster { .. }
            | Self::OtherDatabase(_)
            | Self::Unfit(_)
            | Self::ClusterMode
            | Self::NotACluster
            | Self::Sentinel
            | Self::NotASentinel
            | Self::UnknownRole(_)
            | Self::UnknownMaster(_)
            | Self::WrongType { .. }
            | Self::NotALock { .. }
            | Self::BadMark { .. }
            | Self::BadCounter { .. }
            | Self::Authentication(_)
            | Self::Permission(_)
            | Self::Database(_)
            | Self::Tls(_)
            | Self::Malformed(_) => false,
            Self::Refused { code, .. } => {
                ["LOADING", "BUSY", "TRYAGAIN", "MASTERDOWN", "READONLY", "MISCONF"]
                    .contains(&code.as_str())
            }
            Self::NoClusterMember(members) => members.iter().any(|each| each.problem.may_pass()),
            _ => true,
        }
    }

    /// Whether the server refuses a password or a certificate.
    pub(crate) fn is_of_secrets(&self) -> bool {
        matches!(self, Self::Authentication(_) | Self::Tls(_))
    }

    /// Who must do what about the problem.
    #[doc(hidden)]
    #[expect(clippy::too_many_lines, reason = "an arm for each problem")]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotConnected(_) | Self::NoAnswer(_) | Self::Broken(_) | Self::NotRenewed => {
                "check that the server runs and can be reached from here"
            }
            Self::SlowLink { .. } => {
                "raise the connect timeout (--connect-timeout, Builder::connect_timeout)"
            }
            Self::New => {
                "if all servers are new, run `quorumlock init` once; else wait: programs that lock \
                 admit it after the longest lease and twice the clock bound, unless another of its \
                 databases has the record of a cluster"
            }
            Self::NotAdmitted => {
                "programs that lock admit it after the longest lease and twice the clock bound; \
                 `quorumlock members` shows what it waits for"
            }
            Self::Founded => {
                "programs that lock admit it after the longest lease and twice the clock bound; only if \
                 every program has been stopped for the longest lease: `quorumlock init --force`, \
                 Locker::force_admit_nodes"
            }
            Self::OtherMembers { .. } => {
                "give all programs the same nodes, and to a server with two addresses one label in \
                 both URLs (?label=NAME); `quorumlock members` changes the list of a cluster"
            }
            Self::StrictCluster { .. } => {
                "give this program all nodes of that cluster, and strict admission \
                 (Builder::admission, --admission strict); if the cluster is no more, delete its record \
                 in that database of each server: DEL quorumlock:node"
            }
            Self::ClockDiffers { .. } => {
                "set the clock that is wrong: the server's, or, if all servers differ, this \
                 machine's"
            }
            Self::OtherDatabase(_) => {
                "give all programs one database number; to use both, run `quorumlock init --force`"
            }
            Self::ConfigMismatch(mismatch) => mismatch.agree(),
            Self::NewerProtocol { .. } => {
                "upgrade this program; to go back to its version, stop all programs and run its \
                 `quorumlock init --force`"
            }
            Self::Unfit(unfit) => unfit.set_up(),
            Self::Replica(_) => {
                "locks are taken at masters: give its address, or all addresses to a replicated \
                 locker"
            }
            Self::ClusterMode => {
                "say that it is one (Servers::cluster, or cluster: before its URL), or give a server \
                 outside of a cluster"
            }
            Self::NotACluster => "give members of a cluster, or the server itself to another mode",
            Self::NoClusterMember(_) => {
                "check that the cluster runs and can be reached from here, and that these are its members"
            }
            Self::SlotNotServed(_) => {
                "look at the cluster (redis-cli --cluster check): a master without a successor, or slots \
                 without a member (CLUSTER ADDSLOTS)"
            }
            Self::UnknownRole(_) => {
                "locks are taken at a master that alone takes writes: switch off active replication there, \
                 or give another server"
            }
            Self::NoMaster(addresses) => {
                let tls = |each: &NodeReport| match &each.problem {
                    Self::Tls(problem) => problem.hint(),
                    _ => None,
                };
                addresses.iter().find_map(tls).unwrap_or("promote one of them")
            }
            Self::NoSentinel(_) => "check that the sentinels run and can be reached from here",
            Self::UnknownMaster(_) => {
                "give the name under which they monitor it: SENTINEL MASTERS shows all"
            }
            Self::MastersDisagree(_) => {
                "make the one that has no locks a replica of the other one (REPLICAOF), or take it out of \
                 the addresses"
            }
            Self::SentinelsDisagree(_) => {
                "give sentinels of one deployment, or remove the name at those of the other \
                 (SENTINEL REMOVE)"
            }
            Self::Sentinel => {
                "give it to Locker::sentinel, or in a URL redis-sentinel://host:26379/NAME"
            }
            Self::NotASentinel => {
                "give the port of a sentinel, or the server itself to another mode"
            }
            Self::NoReplicas(_) => "look at the replicas",
            Self::NotDurable(_) => {
                "use a server that has WAITAOF (Redis 7.2, Valkey) with appendonly yes; with appendfsync \
                 everysec the answer timeout must be longer than a second"
            }
            Self::WrongType { .. } => {
                "use another name, or the kind of lock and the layout of the programs that hold it"
            }
            Self::SameServer(_) => "give each server once: a quorum needs independent servers",
            Self::Authentication(_) => "check user and password in the URL",
            Self::Permission(_) => "allow the user what it lacks: ACL SETUSER at the server",
            Self::Database(_) => "check the database number in the URL",
            Self::OutOfMemory(_) => "make room at the server, or raise its maxmemory",
            Self::TooManyClients(_) => "close connections to the server, or raise its maxclients",
            Self::Tls(problem) => return problem.hint(),
            _ => return None,
        })
    }

    /// Whether no call may go on, whatever the other nodes say (`PROTOCOL.md` MEM2, ADM9).
    pub fn bars(&self) -> bool {
        matches!(self, Self::OtherMembers { .. } | Self::StrictCluster { .. })
    }

    /// Whether the node answered in time, whatever its answer was.
    pub fn answered(&self) -> bool {
        match self {
            Self::NotConnected(_)
            | Self::SlowLink { .. }
            | Self::NoAnswer(_)
            | Self::Broken(_)
            | Self::NotAsked(_)
            | Self::RuntimeEnded
            | Self::Unconfirmed
            | Self::NotRenewed
            | Self::TooLate => false,
            Self::NoSentinel(_) => false,
            Self::NoMaster(addresses) | Self::NoClusterMember(addresses) => {
                addresses.iter().any(|each| each.problem.answered())
            }
            _ => true,
        }
    }
}

/// Writes the nodes of `reports`, grouped by problem, each group after `before`.
pub fn write_groups(
    f: &mut fmt::Formatter<'_>,
    reports: &[NodeReport],
    before: &str,
) -> fmt::Result {
    for (i, NodeReport { problem, .. }) in reports.iter().enumerate() {
        let alike = |other: &&NodeReport| other.problem == *problem;
        if reports[..i].iter().any(|other| other.problem == *problem) {
            continue;
        }
        let nodes: Vec<_> = reports[i..].iter().filter(alike).map(|each| &*each.node).collect();
        write!(f, "{before}{}: {problem}", nodes.join(", "))?;
        if let Some(hint) = problem.hint() {
            write!(f, " ({hint})")?;
        }
    }
    Ok(())
}

/// How Redis 7 says in a script that the user has no permission.
const REFUSED_IN_SCRIPT: &str = "The user executing the script can't";

/// The lists of a record: one, or two during a change.
fn lists(terms: &Terms) -> String {
    match &terms.next {
        Some(next) => format!("[{}] or [{next}]", terms.list),
        None => format!("[{}]", terms.list),
    }
}

fn apart(ahead_micros: i64) -> String {
    let by = Duration::from_millis(ahead_micros.unsigned_abs() / 1_000);
    format!("{by:?} {}", if ahead_micros < 0 { "behind" } else { "ahead of" })
}

fn list(reports: &[NodeReport]) -> String {
    reports.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_servers_are_told_apart() {
        type Is = fn(&NodeProblem) -> bool;
        let cases: [(&str, Is); 11] = [
            ("NOAUTH Authentication required.", |p| matches!(p, NodeProblem::Authentication(_))),
            ("WRONGPASS invalid pair", |p| matches!(p, NodeProblem::Authentication(_))),
            ("NOPERM no permissions", |p| matches!(p, NodeProblem::Permission(_))),
            ("ERR ACL failure in script: no", |p| matches!(p, NodeProblem::Permission(_))),
            (
                "ERR The user executing the script can't run this command or subcommand script: a",
                |p| matches!(p, NodeProblem::Permission(_)),
            ),
            ("MOVED 15495 127.0.0.1:7002", |p| matches!(p, NodeProblem::ClusterMode)),
            (
                "NOINFO NOPERM no",
                |p| matches!(p, NodeProblem::Permission(text) if text.ends_with("scripts: NOPERM no")),
            ),
            ("OOM command not allowed", |p| matches!(p, NodeProblem::OutOfMemory(_))),
            ("EXECABORT Transaction discarded because of: OOM command not allowed", |p| {
                matches!(p, NodeProblem::OutOfMemory(_))
            }),
            ("ERR max number of clients reached", |p| matches!(p, NodeProblem::TooManyClients(_))),
            (
                "LOADING dataset",
                |p| matches!(p, NodeProblem::Refused { code, .. } if code == "LOADING"),
            ),
        ];
        for (text, is) in cases {
            let problem = NodeProblem::from_reply(text);
            assert!(is(&problem), "{text}: {problem:?}");
        }
    }
}
