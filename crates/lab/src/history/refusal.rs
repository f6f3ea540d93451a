use std::fmt;

use quorumlock::{Error, NodeProblem};
use serde::{Deserialize, Serialize};

/// Why nodes refuse a client, as the library's error says. The gravest reason comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// A node belongs to a cluster with another list. It bars the client.
    OtherMembers,
    /// Another database of a node has the cluster.
    OtherDatabase,
    /// A node is new, or has lost its memory, and is not admitted.
    NotAdmitted,
}

impl Refusal {
    /// The gravest of these reasons that a node gave; `None` if no node gave one of them.
    #[must_use]
    pub fn of(error: &Error) -> Option<Self> {
        let Error::Refused(why) = error else { return None };
        why.nodes.iter().filter_map(|node| Self::of_node(&node.problem)).min()
    }

    fn of_node(problem: &NodeProblem) -> Option<Self> {
        match problem {
            NodeProblem::OtherMembers { .. } => Some(Self::OtherMembers),
            NodeProblem::OtherDatabase(_) => Some(Self::OtherDatabase),
            NodeProblem::New | NodeProblem::NotAdmitted => Some(Self::NotAdmitted),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherMembers => "a node belongs to a cluster with another list",
            Self::OtherDatabase => "another database has the cluster",
            Self::NotAdmitted => "a node is not admitted",
        })
    }
}
