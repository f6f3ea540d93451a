//! Which nodes of a quorum may vote ([`Locker::node_status`](crate::Locker::node_status)), and the
//! change of their list ([`MemberChange`]).

use quorumlock_core::Environment;
use quorumlock_protocol::Settings;
use quorumlock_redis::{RedisNode, member_list, redis_nodes};

use crate::options::{On, ServerKind};
use crate::servers::Topology;
use crate::{Admission, Builder, ConfigError, Error, Layout};

pub use quorumlock_protocol::admission::members::{
    ChangeRefused, ChangeStep, MemberList, NoteStep, Terms, Until,
};
pub use quorumlock_protocol::admission::{NodeStatus, NodeStatusReport};
pub use quorumlock_quorum::ChangeProgress;

/// A change of a quorum's list of nodes by one server, which is added or removed. Under strict
/// admission, for an operator.
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
/// use quorumlock::admission::{ChangeStep, MemberChange, Until};
/// use quorumlock::{Locker, Servers};
/// # use std::time::Duration;
///
/// let urls = ["redis://a", "redis://b", "redis://c"];
/// let target = ["redis://a", "redis://b", "redis://c", "redis://d"];
/// let present = Locker::builder(Servers::quorum(urls));
/// let mut change = MemberChange::new(present, target, Until::BothVote)?;
/// while let Some(progress) = change.step().await?
///     && progress.step != ChangeStep::Done
/// {
///     println!("{:?}", progress.step);
///     tokio::time::sleep(Duration::from_millis(500)).await;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct MemberChange(quorumlock_quorum::MemberChange<RedisNode>);

impl MemberChange {
    /// A change from the list of the builder's servers, which all clients use now, to `target`. The
    /// builder says how to reach the servers, and what all clients agree on. Does no I/O.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an option out of bounds, one that says how locks are taken, or
    /// ([`ConfigError::NoAdmission`]) servers that are no quorum under strict admission.
    pub fn new<U: AsRef<str>>(
        present: Builder,
        target: impl IntoIterator<Item = U>,
        until: Until,
    ) -> Result<Self, Error> {
        let servers = present.servers()?;
        let is_quorum = matches!(servers.0, Topology::Quorum(_));
        if !is_quorum || present.admission == Some(Admission::Redlock) {
            return Err(ConfigError::NoAdmission.into());
        }
        present.check_options(On::new(ServerKind::Members, servers.addresses()))?;
        let mut all = servers.urls().to_vec();
        let (members, target) = (member_list(&all)?, target.into_iter().collect::<Vec<_>>());
        let cluster = present.cluster_of(member_list(&target)?, false)?;
        for url in target {
            if !members.contains(&member_list(&[&url])?.labels()[0]) {
                all.push(url.as_ref().to_owned());
            }
        }
        let environment = Environment::default();
        let settings = present.settings();
        let nodes =
            redis_nodes(&all, Layout::Redlock, Some(&cluster), &settings, &environment.clock)?;
        let Settings { max_clock_drift, answer_timeout, .. } = settings;
        Ok(Self(quorumlock_quorum::MemberChange::new(
            nodes,
            cluster,
            until,
            max_clock_drift,
            answer_timeout,
            environment,
        )))
    }

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
