//! The end of a [`Builder`]: it makes a locker on its servers.

use std::sync::Arc;

use quorumlock_core::{Environment, Lessor, Single};
use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::admission::members::{CLOCK_BOUND, MemberList};
use quorumlock_protocol::telemetry::Mode;
use quorumlock_protocol::{Node, bounds};
use quorumlock_quorum::{Quorum, proven};
use quorumlock_redis::{
    is_sentinel_url, master_list, member_list, redis_cluster, redis_master, redis_nodes,
    redis_sentinel,
};

use crate::builder::process_label;
use crate::options::{On, ServerKind};
use crate::servers::Topology;
#[cfg(feature = "testing")]
use crate::testing::MemoryServer;
use crate::{Admission, Builder, ConfigError, Error, Layout, Locker, Servers};

impl Builder {
    /// Makes the locker. Does no I/O.
    ///
    /// # Errors
    /// [`Error::Config`] for bad servers (a bad URL, an empty list, one server listed twice), an option
    /// out of bounds, or one that does not apply to the servers or to the other options
    /// ([`ConfigError::DoesNotApply`](crate::ConfigError::DoesNotApply)). What an environment variable
    /// has set, the error names by the variable.
    pub fn build(mut self) -> Result<Locker, Error> {
        let places = std::mem::take(&mut self.places);
        self.made().map_err(|error| match error {
            Error::Config(error) => places.name(error).into(),
            error => error,
        })
    }

    /// [`Builder::build`] on these servers.
    #[doc(hidden)]
    pub fn on(self, servers: Servers) -> Result<Locker, Error> {
        self.with_servers(servers).build()
    }

    /// On these servers in place of those that it has.
    #[doc(hidden)]
    pub fn with_servers(mut self, servers: Servers) -> Self {
        self.servers = Some(servers);
        self
    }

    fn made(self) -> Result<Locker, Error> {
        let servers = self.servers()?;
        match &servers.0 {
            Topology::Single(url) => {
                let urls = std::slice::from_ref(url);
                self.of_one_master(&servers, (urls, None), is_sentinel_url(url))
            }
            Topology::Replicated(urls) => self.of_one_master(&servers, (urls, None), true),
            Topology::Sentinel(urls, master) => {
                self.of_one_master(&servers, (urls, Some(master)), true)
            }
            Topology::Cluster(urls) => self.of_cluster(&servers, urls),
            Topology::Quorum(urls) => self.of_quorum(&servers, urls),
            #[cfg(feature = "testing")]
            Topology::Memory(server) => self.of_memory(server),
        }
    }

    fn of_quorum(mut self, servers: &Servers, urls: &[String]) -> Result<Locker, Error> {
        let strict = self.admission.unwrap_or_default() == Admission::Strict;
        let kind = if strict { ServerKind::Quorum } else { ServerKind::PlainQuorum };
        let prefix = self.settle(On::new(kind, servers.addresses()))?;
        self.settings.mode = Mode::Quorum;
        let environment = Environment::default();
        let layout = *self.settings.layout.get_or_insert(Layout::Redlock);
        let cluster = self.cluster_of(member_list(urls)?, false)?;
        let bound = strict.then_some(&cluster);
        let nodes = redis_nodes(urls, layout, bound, &self.settings, &environment.clock)?;
        let (clock, timeout) = (environment.clock.clone(), self.settings.answer_timeout);
        let quorum = if strict {
            let entropy = environment.entropy.clone();
            Quorum::strict(nodes, clock, entropy, timeout, self.settings.max_clock_drift, cluster)?
        } else {
            Quorum::new(nodes, clock, timeout)?
        };
        let quorum = quorum.tolerate_lost_marks(self.lost_marks.unwrap_or(0))?;
        let quorum = quorum.on_event(self.settings.on_event.clone());
        self.over(Arc::new(quorum), environment, &prefix)
    }

    fn of_cluster(mut self, servers: &Servers, urls: &[String]) -> Result<Locker, Error> {
        let prefix = self.settle(On::new(ServerKind::Cluster, servers.addresses()))?;
        self.settings.mode = Mode::Cluster;
        let environment = Environment::default();
        let layout = *self.settings.layout.get_or_insert(Layout::Redisson);
        let node = redis_cluster(urls, layout, &self.settings, &environment.clock)?;
        let single = Single::new(node, environment.clock.clone(), self.settings.answer_timeout);
        self.over_one(single, environment, &prefix)
    }

    /// One server, or a master with replicas: at `urls`, or told by the sentinels there that monitor
    /// `master`.
    fn of_one_master(
        mut self,
        servers: &Servers,
        (urls, master): (&[String], Option<&str>),
        replicated: bool,
    ) -> Result<Locker, Error> {
        let strict = self.admission == Some(Admission::Strict);
        let kind = match (replicated, strict) {
            (false, false) => ServerKind::Single,
            (false, true) => ServerKind::ProvenSingle,
            (true, false) => ServerKind::Replicated,
            (true, true) => ServerKind::ProvenReplicated,
        };
        let cluster = match strict {
            true => Some(self.cluster_of(master_list(urls, master)?, replicated)?),
            false => None,
        };
        let prefix = self.settle(On::new(kind, servers.addresses()))?;
        self.settings.mode = if replicated { Mode::Replicated } else { Mode::Single };
        let environment = Environment::default();
        let layout = *self.settings.layout.get_or_insert(Layout::Redisson);
        let (clock, settings) = (environment.clock.clone(), &self.settings);
        let layout = (layout, cluster.as_ref());
        let node = match master {
            None => redis_master(urls, layout, settings, &clock)?,
            Some(master) => redis_sentinel(urls, master, layout, settings, &clock)?,
        };
        let (within, drift) = (settings.answer_timeout, settings.max_clock_drift);
        let single = match cluster {
            None => Single::new(node, clock, within),
            Some(cluster) => {
                proven(node, clock, environment.entropy.clone(), within, drift, cluster)
            }
        };
        self.over_one(single, environment, &prefix)
    }

    #[cfg(feature = "testing")]
    fn of_memory(mut self, server: &MemoryServer) -> Result<Locker, Error> {
        let prefix = self.settle(On::new(ServerKind::Memory, []))?;
        let label = self.settings.label.clone().filter(|label| !label.is_empty());
        let environment = server.environment();
        let lessor = server.lessor(environment.clock.clone(), label);
        self.over(lessor, environment, &prefix)
    }

    fn over_one<N: Node>(
        self,
        single: Single<N>,
        environment: Environment,
        prefix: &str,
    ) -> Result<Locker, Error> {
        let single = single.on_event(self.settings.on_event.clone());
        self.over(Arc::new(single), environment, prefix)
    }

    fn over(
        self,
        lessor: Arc<dyn Lessor>,
        environment: Environment,
        prefix: &str,
    ) -> Result<Locker, Error> {
        let inner = quorumlock_core::Locker::with_lessor(lessor, self.settings, environment)?;
        Ok(Locker::of(inner, prefix))
    }

    /// What all clients of these nodes must agree on.
    pub(crate) fn cluster_of(
        &self,
        members: MemberList,
        replicated: bool,
    ) -> Result<ClusterConfig, ConfigError> {
        let clock_bound = self.clock_bound.unwrap_or(CLOCK_BOUND);
        bounds::CLOCK_BOUND.check(clock_bound)?;
        Ok(ClusterConfig {
            prefix: "quorumlock".into(),
            members,
            longest: self.settings.max_lease,
            clock_bound,
            replicated,
        })
    }

    /// Checks the options, sets those that have no fixed default, and returns the prefix of names.
    fn settle(&mut self, on: On) -> Result<String, ConfigError> {
        self.check_options(on)?;
        self.settings.label.get_or_insert_with(process_label);
        self.settings.lease = self.lease_or_default();
        self.checked_prefix()
    }
}
