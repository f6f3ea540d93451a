//! Which nodes of a quorum may vote ([`Locker::node_status`](crate::Locker::node_status)), and the
//! change of their list ([`MemberChange`]).

use quorumlock_redis::RedisNode;

pub use quorumlock_protocol::admission::members::{
    ChangeRefused, ChangeStep, MemberList, NoteStep, Terms, Until,
};
pub use quorumlock_protocol::admission::{NodeStatus, NodeStatusReport};
pub use quorumlock_quorum::ChangeProgress;

/// A change of a quorum's list of nodes by one server, made by
/// [`Builder::change_members`](crate::Builder::change_members).
///
/// It goes on by [`step`](Self::step)s and keeps nothing: another process may finish it. Locks stay
/// held and can be taken during the whole change.
///
/// 1. With [`Until::BothVote`], the nodes vote for clients of both lists at the end. Then give all
///    programs the new list.
/// 2. With [`Until::OnlyTarget`], the nodes vote for clients of the new list only.
///
/// ```no_run
/// # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
/// use quorumlock::Locker;
/// use quorumlock::admission::{ChangeStep, Until};
/// # use std::time::Duration;
///
/// let urls = ["redis://a", "redis://b", "redis://c"];
/// let target = ["redis://a", "redis://b", "redis://c", "redis://d"];
/// let mut change = Locker::builder().change_members(urls, target, Until::BothVote)?;
/// while let Some(progress) = change.step().await?
///     && progress.step != ChangeStep::Done
/// {
///     println!("{:?}", progress.step);
///     tokio::time::sleep(Duration::from_millis(500)).await;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct MemberChange(pub(crate) quorumlock_quorum::MemberChange<RedisNode>);

impl MemberChange {
    /// The list to which the change leads.
    pub fn target(&self) -> &MemberList {
        self.0.target()
    }

    /// Looks at all nodes once, writes what may be written, and says what comes next. `None`: no
    /// node of the cluster answers, or none is admitted.
    ///
    /// # Errors
    /// [`ChangeRefused`]: nothing was written.
    ///
    /// # Cancel safety
    /// Once polled, some nodes may have been written even if the future is dropped. The next step
    /// goes on from there.
    pub async fn step(&mut self) -> Result<Option<ChangeProgress>, ChangeRefused> {
        self.0.step().await
    }
}
