use super::list::MemberList;
use super::record::{Membership, NodeMemory, membership};

/// A record of the present run in the form that had no list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierRecord {
    /// The cluster's name.
    pub cluster: String,
    /// Its epoch.
    pub epoch: u64,
    /// The number of its nodes.
    pub nodes: usize,
}

/// Whether records without a list become records of `list`: all its nodes show one, of one cluster
/// with that many nodes, or have been converted (PROTOCOL.md MEM7). With fewer of them a wrong list
/// that comes first would take nodes from the cluster.
pub fn converts(
    list: &MemberList,
    nodes: &[Option<(&NodeMemory, Option<&EarlierRecord>)>],
) -> bool {
    let mut cluster = None;
    let mut agrees = |earlier: &EarlierRecord| {
        let same = cluster.get_or_insert_with(|| earlier.clone()) == earlier;
        same && earlier.nodes == list.labels().len()
    };
    let fits = |node: &Option<(&NodeMemory, Option<&EarlierRecord>)>| match node {
        Some((_, Some(earlier))) => agrees(earlier),
        Some((memory, None)) => match membership(memory, list) {
            Membership::Votes(terms) => terms.phase == 1 && terms.admit_only(list),
            _ => false,
        },
        None => false,
    };
    nodes.len() == list.labels().len() && nodes.iter().all(fits) && cluster.is_some()
}
