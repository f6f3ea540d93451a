use std::fmt;

use serde::Serialize;

/// What the nemesis does. Nodes are numbered: voters first, or the master, then its replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Nothing: a step that only waits.
    None,
    /// `SIGKILL` to a server.
    Kill(usize),
    /// `SIGSTOP` to a server: connections stay, nothing is answered.
    Stop(usize),
    /// `SIGCONT` to a server: it carries out what was sent meanwhile.
    Cont(usize),
    /// Kills a server if it lives, and starts it again with what it has on disk.
    Restart(usize),
    /// Kills a server if it lives, and starts it again with nothing.
    RestartEmpty(usize),
    /// Cuts so many bytes off the end of a dead server's append-only file: what a power loss takes.
    CutTail {
        /// The server.
        node: usize,
        /// How much is lost.
        bytes: u64,
    },
    /// Sends a command to a server: `FLUSHALL`, `SWAPDB 0 1`, `CONFIG SET ...`, `DEL x`.
    Command {
        /// The server.
        node: usize,
        /// Its words.
        words: Vec<String>,
    },
    /// Takes a server off its network: connections stay, nothing gets through.
    Disconnect(usize),
    /// Puts it back.
    Reconnect(usize),
    /// Sets a server's wall clock; the plan's servers must have clocks that can be set.
    Clock {
        /// The server.
        node: usize,
        /// So much later than it is, from now on.
        by_ms: i64,
    },
    /// A server's wall clock shows the same time from now on.
    FreezeClock(usize),
    /// Makes a replica a master (`REPLICAOF NO ONE`). Clients have to find that out.
    Promote(usize),
    /// Writes to a server with little memory until the lock's key is evicted, and makes room again.
    Evict(usize),
    /// A script that runs for so long, in which the server does nothing else. Does not wait for it.
    Busy {
        /// The server.
        node: usize,
        /// How long.
        ms: u64,
    },
    /// An operator takes the lock from whoever holds it, as the library does that.
    ForceUnlock,
    /// Makes a server the replica of another.
    ReplicaOf {
        /// The one that forgets what it knew.
        node: usize,
        /// The other.
        of: usize,
    },
    /// The way of a client to a node. The client must have ways ([`ClientPlan::ways`]).
    ///
    /// [`ClientPlan::ways`]: super::ClientPlan::ways
    Way {
        /// Whose.
        client: String,
        /// Where to.
        node: usize,
        /// What becomes of it.
        state: WayState,
    },
    /// Leads a client's way to a node to another server from now on; its connections end.
    Lead {
        /// Whose.
        client: String,
        /// The node as the client knows it.
        node: usize,
        /// The server that it finds there.
        to: usize,
    },
    /// Switches what stands behind a client's way to a node under its open connections, as a proxy
    /// does that speaks the protocol: the client sees nothing of it.
    Switch {
        /// Whose.
        client: String,
        /// The node as the client knows it.
        node: usize,
        /// The server that answers from now on.
        to: usize,
    },
    /// The way on which a client's writes reach what the lock guards.
    Writes {
        /// Whose.
        client: String,
        /// What becomes of it: open, or requests are held; an answer that is held says nothing.
        state: WayState,
    },
    /// The way on which a replica hears from its master.
    Replication {
        /// The replica.
        replica: usize,
        /// What becomes of it.
        state: WayState,
    },
    /// Lets a client start that does not start at once.
    ClientStart(String),
    /// `SIGSTOP` to a client.
    ClientStop(String),
    /// `SIGCONT` to a client.
    ClientCont(String),
    /// Suspends a client's machine until [`ClientCont`](Self::ClientCont): only clocks that count
    /// suspend go on.
    ClientSuspend(String),
    /// Stops a client and all its clocks, as a virtual machine that is paused, until
    /// [`ClientCont`](Self::ClientCont).
    ClientFreeze(String),
    /// `SIGKILL` to a client.
    ClientKill(String),
    /// Tells a client to give up what it holds and to ask for nothing any more.
    ClientEnd(String),
}

/// What becomes of what is sent on a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WayState {
    /// All passes; what was held comes first.
    Open,
    /// Both directions are held; connections stay.
    Cut,
    /// Requests are held, replies pass.
    HoldRequests,
    /// Replies are held, requests pass.
    HoldReplies,
    /// Requests are lost.
    LoseRequests,
    /// Replies are lost.
    LoseReplies,
    /// Requests on the connections that there are now are held; new ones work.
    HoldOld,
    /// What was held on old connections arrives now, and these connections end.
    DeliverOld,
}

impl Fault {
    /// [`ClientStart`](Self::ClientStart); so with those that follow.
    #[must_use]
    pub fn start(client: &str) -> Self {
        Self::ClientStart(client.to_owned())
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

    /// Whether it is something that breaks or mends, rather than a part of the plot.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::None | Self::ClientStart(_) | Self::ClientEnd(_))
    }

    /// The server that it strikes.
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

    /// The client that it strikes.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        match self {
            Self::Way { client, .. }
            | Self::Lead { client, .. }
            | Self::Switch { client, .. }
            | Self::Writes { client, .. }
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

    /// What lasts from this until its counterpart, in the same words for both; `None` if it takes no
    /// time. True if this is its beginning.
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
            Self::Way { client, state: WayState::Open | WayState::DeliverOld, .. } => {
                (false, format!("way of {client} disturbed"))
            }
            Self::Way { client, .. } => (true, format!("way of {client} disturbed")),
            Self::Writes { client, state } => {
                (*state != WayState::Open, format!("writes of {client} disturbed"))
            }
            Self::Replication { state: WayState::Open | WayState::DeliverOld, .. } => {
                (false, "replication disturbed".to_owned())
            }
            Self::Replication { .. } => (true, "replication disturbed".to_owned()),
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
