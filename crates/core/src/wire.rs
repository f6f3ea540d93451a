/// What a held lock looks like on a node.
///
/// Both exclude each other only by an error: a name held in the other format is reported as
/// [`NodeProblem::WrongType`](crate::NodeProblem::WrongType), never waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wire {
    /// Redisson's RLock: a hash at the lock's name, field `<uuid>:<id>`, value = hold count. Rust
    /// and Java processes exclude and wake each other. The default on a single node.
    Redisson,
    /// The canonical Redlock layout: a string, `SET name nonce NX PX ttl`. Excludes with redsync,
    /// node-redlock, rslock, redis-py on the same keys. The default on a quorum.
    Redlock,
}
