use std::fmt;

use serde::{Deserialize, Serialize};

/// An action of the nemesis. Nodes are numbered: the voters first, or the master and then its
/// replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// No fault: a step that only waits.
    None,
    /// `SIGKILL` to a server.
    Kill(usize),
    /// `SIGSTOP` to a server: connections stay open, nothing is answered.
    Stop(usize),
    /// `SIGCONT` to a server: it executes the requests that arrived meanwhile.
    Cont(usize),
    /// Kills a server if it runs, and starts it again with its data on disk.
    Restart(usize),
    /// Kills a server if it runs, and starts it again without data.
    RestartEmpty(usize),
    /// Cuts bytes off the end of a dead server's append-only file, as a power loss does.
    CutTail {
        /// The server.
        node: usize,
        /// How many bytes are cut off.
        bytes: u64,
    },
    /// Sends a command to a server: `FLUSHALL`, `SWAPDB 0 1`, `CONFIG SET ...`, `DEL x`.
    Command {
        /// The server.
        node: usize,
        /// The command and its arguments.
        words: Vec<String>,
    },
    /// Takes a server off its network: connections stay open, nothing gets through.
    Disconnect(usize),
    /// Puts a disconnected server back on its network.
    Reconnect(usize),
    /// Sets a server's wall clock. The plan's servers must have settable clocks.
    Clock {
        /// The server.
        node: usize,
        /// The offset from the machine's clock from now on, in milliseconds.
        by_ms: i64,
    },
    /// Freezes a server's wall clock at the current second.
    FreezeClock(usize),
    /// Makes a replica a master (`REPLICAOF NO ONE`). Clients are not told.
    Promote(usize),
    /// Fills a server with little memory until the lock's key is evicted, then frees the memory.
    Evict(usize),
    /// Runs a script during which the server does nothing else. Does not wait for its end.
    Busy {
        /// The server.
        node: usize,
        /// The processor time of the script in milliseconds.
        ms: u64,
    },
    /// An operator removes the lock from its holder, with the library's `force_unlock`.
    ForceUnlock,
    /// An operator vouches for the nodes of this client, as `quorumlock init` does. A refusal is
    /// recorded.
    Init(String),
    /// An operator changes the list of nodes by one, as `quorumlock members` does, and waits until
    /// the change has come as far as this.
    ChangeMembers {
        /// The servers of the list that clients have now.
        present: Vec<usize>,
        /// The servers of the list that the change leads to.
        target: Vec<usize>,
        /// How far the change goes.
        until: Until,
    },
    /// Makes a server the replica of another.
    ReplicaOf {
        /// The server that becomes a replica and loses its data.
        node: usize,
        /// The server that becomes its master.
        of: usize,
    },
    /// Changes the state of a client's way to a node. The client must have ways
    /// ([`ClientPlan::ways`]).
    ///
    /// [`ClientPlan::ways`]: super::ClientPlan::ways
    Way {
        /// The client.
        client: String,
        /// The node.
        node: usize,
        /// The new state of the way.
        state: WayState,
    },
    /// Leads a client's way to a node to another server from now on. Its connections are closed.
    Lead {
        /// The client.
        client: String,
        /// The node as the client knows it.
        node: usize,
        /// The server at the end of the way from now on.
        to: usize,
    },
    /// Switches the server behind the open connections of a client's way, as a proxy does that
    /// speaks the protocol: the client does not notice.
    Switch {
        /// The client.
        client: String,
        /// The node as the client knows it.
        node: usize,
        /// The server that answers from now on.
        to: usize,
    },
    /// Changes the state of the way on which a client's writes reach the resource.
    Writes {
        /// The client.
        client: String,
        /// The new state: open, or requests are held. Holding replies would not delay a write.
        state: WayState,
    },
    /// Changes the state of the way from a replica to its master.
    Replication {
        /// The replica.
        replica: usize,
        /// The new state of the way.
        state: WayState,
    },
    /// Starts a client that does not start at once.
    ClientStart(String),
    /// `SIGSTOP` to a client.
    ClientStop(String),
    /// `SIGCONT` to a client.
    ClientCont(String),
    /// Suspends a client's machine until [`ClientCont`](Self::ClientCont): only clocks that count
    /// suspend advance.
    ClientSuspend(String),
    /// Stops a client and all its clocks, like a paused virtual machine, until
    /// [`ClientCont`](Self::ClientCont).
    ClientFreeze(String),
    /// `SIGKILL` to a client.
    ClientKill(String),
    /// Tells a client to release its holds and to stop asking.
    ClientEnd(String),
}

/// How far a change of members goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// All nodes vote for the clients of both lists.
    BothVote,
    /// All nodes vote for the clients of the target only.
    OnlyTarget,
}

/// How a way treats the bytes sent on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WayState {
    /// All bytes pass; held bytes are delivered first.
    Open,
    /// Both directions are held; connections stay open.
    Cut,
    /// Requests are held, replies pass.
    HoldRequests,
    /// Replies are held, requests pass.
    HoldReplies,
    /// Requests are lost.
    LoseRequests,
    /// Replies are lost.
    LoseReplies,
    /// Requests on existing connections are held; new connections work.
    HoldOld,
    /// Requests held on old connections are delivered now, and these connections end.
    DeliverOld,
}

impl WayState {
    /// Whether bytes are still held or lost after the way was set to this.
    fn disturbs(self) -> bool {
        !matches!(self, Self::Open | Self::DeliverOld)
    }
}

impl Fault {
    /// [`ClientStart`](Self::ClientStart). The functions below build other variants in the same
    /// way.
    #[must_use]
    pub fn start(client: &str) -> Self {
        Self::ClientStart(client.to_owned())
    }

    /// [`ClientEnd`](Self::ClientEnd).
    #[must_use]
    pub fn end(client: &str) -> Self {
        Self::ClientEnd(client.to_owned())
    }

    /// [`ClientStop`](Self::ClientStop).
    #[must_use]
    pub fn stop(client: &str) -> Self {
        Self::ClientStop(client.to_owned())
    }

    /// [`ClientCont`](Self::ClientCont).
    #[must_use]
    pub fn cont(client: &str) -> Self {
        Self::ClientCont(client.to_owned())
    }

    /// [`Command`](Self::Command).
    #[must_use]
    pub fn command(node: usize, words: &[&str]) -> Self {
        Self::Command { node, words: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    /// Whether it breaks or repairs something, rather than directs a client.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::None | Self::ClientStart(_) | Self::ClientEnd(_))
    }

    /// The server that the fault affects.
    #[must_use]
    pub fn node(&self) -> Option<usize> {
        match self {
            Self::Kill(node)
            | Self::Stop(node)
            | Self::Cont(node)
            | Self::Restart(node)
            | Self::RestartEmpty(node)
            | Self::CutTail { node, .. }
            | Self::Command { node, .. }
            | Self::Promote(node)
            | Self::Evict(node)
            | Self::Busy { node, .. }
            | Self::Clock { node, .. }
            | Self::FreezeClock(node)
            | Self::Disconnect(node)
            | Self::Reconnect(node)
            | Self::ReplicaOf { node, .. }
            | Self::Way { node, .. }
            | Self::Lead { node, .. }
            | Self::Switch { node, .. } => Some(*node),
            Self::Replication { replica, .. } => Some(*replica),
            _ => None,
        }
    }

    /// The client that the fault affects.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::Way { client, .. }
            | Self::Lead { client, .. }
            | Self::Switch { client, .. }
            | Self::Writes { client, .. }
            | Self::Init(client)
            | Self::ClientStart(client)
            | Self::ClientStop(client)
            | Self::ClientCont(client)
            | Self::ClientSuspend(client)
            | Self::ClientFreeze(client)
            | Self::ClientKill(client)
            | Self::ClientEnd(client) => Some(client),
            _ => None,
        }
    }

    /// The name of the lasting condition that this fault begins (`true`) or ends (`false`), the
    /// same for both; `None` if the fault takes no time.
    #[must_use]
    pub fn window(&self) -> Option<(bool, String)> {
        Some(match self {
            Self::Stop(_) => (true, "stopped".to_owned()),
            Self::Cont(_) => (false, "stopped".to_owned()),
            Self::Disconnect(_) => (true, "off the network".to_owned()),
            Self::Reconnect(_) => (false, "off the network".to_owned()),
            Self::Kill(_) => (true, "dead".to_owned()),
            Self::Restart(_) | Self::RestartEmpty(_) => (false, "dead".to_owned()),
            Self::ClientStop(client) | Self::ClientSuspend(client) | Self::ClientFreeze(client) => {
                (true, format!("client {client} stopped"))
            }
            Self::ClientCont(client) => (false, format!("client {client} stopped")),
            Self::Way { client, state, .. } => {
                (state.disturbs(), format!("way of {client} disturbed"))
            }
            Self::Writes { client, state } => {
                (state.disturbs(), format!("writes of {client} disturbed"))
            }
            Self::Replication { state, .. } => {
                (state.disturbs(), "replication disturbed".to_owned())
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "wait"),
            Self::Kill(node) => write!(f, "kill node {node}"),
            Self::Stop(node) => write!(f, "stop node {node}"),
            Self::Cont(node) => write!(f, "continue node {node}"),
            Self::Restart(node) => write!(f, "restart node {node}"),
            Self::RestartEmpty(node) => write!(f, "restart node {node} empty"),
            Self::CutTail { node, bytes } => {
                write!(f, "cut {bytes} bytes off node {node}'s append-only file")
            }
            Self::Command { node, words } => write!(f, "{} on node {node}", words.join(" ")),
            Self::Clock { node, by_ms } => write!(f, "set node {node}'s clock by {by_ms:+} ms"),
            Self::Disconnect(node) => write!(f, "take node {node} off the network"),
            Self::Reconnect(node) => write!(f, "put node {node} back on the network"),
            Self::FreezeClock(node) => write!(f, "freeze node {node}'s clock"),
            Self::Promote(node) => write!(f, "promote node {node}"),
            Self::Evict(node) => write!(f, "fill node {node} until the lock is evicted"),
            Self::Busy { node, ms } => write!(f, "keep node {node} busy for {ms} ms"),
            Self::ForceUnlock => write!(f, "take the lock away by force"),
            Self::Init(client) => write!(f, "vouch for the nodes of client {client}"),
            Self::ChangeMembers { present, target, until } => {
                let end = match until {
                    Until::BothVote => "both lists vote",
                    Until::OnlyTarget => "only the new list votes",
                };
                write!(f, "change the nodes from {present:?} to {target:?} until {end}")
            }
            Self::ReplicaOf { node, of } => write!(f, "make node {node} a replica of node {of}"),
            Self::Way { client, node, state } => {
                write!(f, "way of client {client} to node {node}: {state:?}")
            }
            Self::Lead { client, node, to } => {
                write!(f, "lead client {client} from node {node} to node {to}")
            }
            Self::Switch { client, node, to } => {
                write!(f, "switch client {client} from node {node} to node {to}, unseen")
            }
            Self::Writes { client, state } => write!(f, "writes of client {client}: {state:?}"),
            Self::Replication { replica, state } => {
                write!(f, "replication to node {replica}: {state:?}")
            }
            Self::ClientStart(client) => write!(f, "start client {client}"),
            Self::ClientStop(client) => write!(f, "stop client {client}"),
            Self::ClientSuspend(client) => write!(f, "suspend client {client}"),
            Self::ClientFreeze(client) => write!(f, "freeze client {client} and its clocks"),
            Self::ClientCont(client) => write!(f, "continue client {client}"),
            Self::ClientKill(client) => write!(f, "kill client {client}"),
            Self::ClientEnd(client) => write!(f, "end client {client}"),
        }
    }
}
