//! In which order the nodes of a name are asked. The first one is its home node, which contenders ask
//! before the others. Advice, never safety (PROTOCOL.md W7, MAJ1).
//!
//! The order is the same for all clients that have reached the same servers, whatever the order and
//! the addresses in their lists (rendezvous hashing).

use std::cmp::Reverse;
use std::sync::Arc;

use quorumlock_protocol::{Name, Node, fnv1a};

/// The index of the home node of a name.
pub(crate) fn home_of<N: Node>(nodes: &[Arc<N>], name: &Name) -> Option<usize> {
    (0..nodes.len()).max_by_key(|at| rank(&*nodes[*at], name))
}

/// All nodes in the order of the name, those that are not `usable` after the others.
pub(crate) fn order_of<N: Node>(
    nodes: &[Arc<N>],
    name: &Name,
    usable: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let key = |at| (!usable(at), Reverse(rank(&*nodes[at], name)), Reverse(at));
    let mut order: Vec<_> = (0..nodes.len()).map(|at| (key(at), at)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

fn rank<N: Node>(node: &N, name: &Name) -> u64 {
    mix(fnv1a(node.identity(), name.as_str()))
}

/// Spreads the last bytes of a name over all bits: FNV alone leaves them in the low bits.
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}
