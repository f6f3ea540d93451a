/// What runs in a container.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Server,
    Sentinel,
    /// A member of a Redis Cluster.
    Member,
}
