//! The addresses of one node, as they were given.

use std::sync::Arc;

use quorumlock_protocol::ConfigError;

use crate::node_addr::NodeAddr;

/// Where a node is, as it was given.
pub(crate) enum Targets {
    /// One server, or a master and its replicas.
    Listed(Vec<NodeAddr>),
    /// Members of one Redis Cluster.
    AnyOf(Vec<NodeAddr>),
    /// Sentinels, and the name of the master that they monitor with the user, password, database and
    /// TLS of its servers.
    Sentinels(Vec<NodeAddr>, (String, NodeAddr)),
}

impl Targets {
    pub(crate) fn replicated(&self) -> bool {
        match self {
            Self::Listed(targets) => targets.len() > 1,
            Self::Sentinels(..) | Self::AnyOf(_) => true,
        }
    }

    /// As the addresses of the node with this label in lists of nodes.
    pub(crate) fn of_member(self, member: &Arc<str>) -> Self {
        let of =
            |targets: Vec<NodeAddr>| targets.into_iter().map(|at| at.of_member(member)).collect();
        match self {
            Self::Listed(targets) => Self::Listed(of(targets)),
            Self::AnyOf(targets) => Self::AnyOf(of(targets)),
            Self::Sentinels(sentinels, (name, server)) => {
                Self::Sentinels(sentinels, (name, server.of_member(member)))
            }
        }
    }

    /// The addresses of servers, at least one.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &NodeAddr> {
        match self {
            Self::Listed(targets) | Self::AnyOf(targets) => targets.iter(),
            Self::Sentinels(_, (_, server)) => std::slice::from_ref(server).iter(),
        }
    }

    /// Fails if the URLs and `credentials` do not give one password together.
    pub(crate) fn check_logins(&self, credentials: bool) -> Result<(), ConfigError> {
        if credentials && self.servers().any(NodeAddr::has_password) {
            let (option, servers) = ("credentials", "URLs with a password");
            return Err(ConfigError::DoesNotApply { option, servers });
        }
        match self.servers().find(|server| !credentials && server.has_user_alone()) {
            None => Ok(()),
            Some(server) => Err(ConfigError::BadUrl {
                url: server.label().to_owned(),
                why: "it has a user and no password: a password alone is written redis://:PASSWORD@HOST"
                    .into(),
            }),
        }
    }

    /// Whether a server or a sentinel is to speak TLS.
    pub(crate) fn any_tls(&self) -> bool {
        let sentinels = match self {
            Self::Sentinels(sentinels, _) => &sentinels[..],
            _ => &[],
        };
        self.servers().chain(sentinels).any(NodeAddr::wants_tls)
    }
}

/// The addresses that the URLs give.
pub(crate) fn parse(urls: &[impl AsRef<str>]) -> Result<Vec<NodeAddr>, ConfigError> {
    distinct(urls.iter().map(|url| NodeAddr::parse(url.as_ref())).collect::<Result<_, _>>()?)
}

/// Refuses an empty list, and two equal addresses.
pub(crate) fn distinct(targets: Vec<NodeAddr>) -> Result<Vec<NodeAddr>, ConfigError> {
    if targets.is_empty() {
        return Err(ConfigError::NoNodes);
    }
    for (i, target) in targets.iter().enumerate() {
        let is_same = |other: &&NodeAddr| {
            other.label() == target.label() || other.member() == target.member()
        };
        if let Some(same) = targets[..i].iter().find(is_same) {
            let (a, b) = (same.label().to_owned(), target.label().to_owned());
            return Err(ConfigError::SameServer { a, b });
        }
    }
    Ok(targets)
}
