/// The version of what keys, records and messages mean to clients. It grows only by a change after
/// which clients of the version before must not lock beside those of the new one (PROTOCOL.md ADM8).
pub const PROTOCOL: u32 = 1;

/// The layout: how a node stores a held lock.
///
/// Locks of the two formats exclude each other only by an error: a name that is held in the other
/// format is reported as [`NodeProblem::WrongType`](crate::NodeProblem::WrongType), and a waiter
/// does not wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Redisson's RLock: a hash at the lock's name, field `<uuid>:<id>`, value = hold count. Rust
    /// and Java processes exclude and notify each other. The default on a single node.
    Redisson,
    /// The canonical Redlock layout: a string, `SET name nonce NX PX ttl`. Excludes redsync,
    /// node-redlock, rslock and redis-py on the same keys. The default on a quorum.
    Redlock,
}
