//! What ends a [`Builder`]: it makes a locker on servers.

use std::sync::Arc;

use quorumlock_core::{Environment, Single};
use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::admission::members::{CLOCK_BOUND, MemberList};
use quorumlock_protocol::telemetry::Mode;
use quorumlock_protocol::{Node, Settings, bounds};
use quorumlock_quorum::{Quorum, proven};
use quorumlock_redis::{
    is_sentinel_url, master_list, member_list, redis_cluster, redis_master, redis_nodes,
    redis_sentinel,
};

use crate::admission::{MemberChange, Until};
use crate::builder::process_label;
use crate::options::{On, ServerKind};
use crate::{Admission, Builder, ConfigError, Error, Locker, Wire};

impl Builder {
    /// Locks on the single server at `url`.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an option out of bounds, or one that is for a quorum only.
    pub fn single(self, url: impl AsRef<str>) -> Result<Locker, Error> {
        let sentinels = is_sentinel_url(url.as_ref());
        self.of_one_master(&[url], None, sentinels)
    }

    /// Locks on the master among the servers at `urls`: see [`Locker::replicated`].
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, one address listed twice, an option out of
    /// bounds, or one that is for a quorum only.
    pub fn replicated<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Locker, Error> {
        let urls: Vec<U> = urls.into_iter().collect();
        self.of_one_master(&urls, None, true)
    }

    /// Locks on the master that the sentinels at `urls` monitor: see [`Locker::sentinel`].
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, one sentinel listed twice, a bad name, an option
    /// out of bounds, or one that is for a quorum only.
    pub fn sentinel<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
        master: impl AsRef<str>,
    ) -> Result<Locker, Error> {
        let urls: Vec<U> = urls.into_iter().collect();
        self.of_one_master(&urls, Some(master.as_ref()), true)
    }

    /// Locks on the Redis Cluster of which the servers at `urls` are members: see [`Locker::cluster`].
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, one address listed twice, a database number, an
    /// option out of bounds, or one that is for a quorum only.
    pub fn cluster<U: AsRef<str>>(
        mut self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Locker, Error> {
        self.settings.mode = Mode::Cluster;
        let urls: Vec<U> = urls.into_iter().collect();
        self.of_one_node(&urls, None, ServerKind::Cluster, |urls, wire, settings, environment| {
            let node = redis_cluster(urls, wire, settings, &environment.clock)?;
            Ok(Single::new(node, environment.clock.clone(), settings.answer_timeout))
        })
    }

    /// Locks on a majority of the independent servers at `urls`.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, one server listed twice, an option out of
    /// bounds, or one that is not for a quorum.
    pub fn quorum<U: AsRef<str>>(
        mut self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Locker, Error> {
        let urls: Vec<U> = urls.into_iter().collect();
        let strict = self.admission.unwrap_or_default() == Admission::Strict;
        let kind = if strict { ServerKind::Quorum } else { ServerKind::PlainQuorum };
        let prefix = self.settle(On::new(kind, urls.iter().map(AsRef::as_ref)))?;
        self.settings.mode = Mode::Quorum;
        let environment = Environment::default();
        let wire = *self.settings.wire.get_or_insert(Wire::Redlock);
        let cluster = self.cluster_of(member_list(&urls)?, false)?;
        let bound = strict.then_some(&cluster);
        let nodes = redis_nodes(&urls, wire, bound, &self.settings, &environment.clock)?;
        let (clock, timeout) = (environment.clock.clone(), self.settings.answer_timeout);
        let quorum = if strict {
            let entropy = environment.entropy.clone();
            Quorum::strict(nodes, clock, entropy, timeout, self.settings.max_clock_drift, cluster)?
        } else {
            Quorum::new(nodes, clock, timeout)?
        };
        let quorum = quorum.tolerate_lost_marks(self.lost_marks.unwrap_or(0))?;
        let quorum = quorum.on_event(self.settings.on_event.clone());
        let locker =
            quorumlock_core::Locker::with_lessor(Arc::new(quorum), self.settings, environment)?;
        Ok(Locker::new(locker, &prefix))
    }

    /// Changes the list of a quorum's nodes by one server that is added or removed: from the list of
    /// `urls`, which all clients use now, to that of `target`. Under strict admission, for an
    /// operator: see [`MemberChange`]. Does no I/O.
    ///
    /// # Errors
    /// As [`Builder::quorum`].
    pub fn change_members<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
        target: impl IntoIterator<Item = U>,
        until: Until,
    ) -> Result<MemberChange, Error> {
        let mut all: Vec<U> = urls.into_iter().collect();
        let (present, target) = (member_list(&all)?, target.into_iter().collect::<Vec<_>>());
        let cluster = self.cluster_of(member_list(&target)?, false)?;
        for url in target {
            if !present.contains(&member_list(&[&url])?.labels()[0]) {
                all.push(url);
            }
        }
        let environment = Environment::default();
        let wire = self.settings.wire.unwrap_or(Wire::Redlock);
        let settings = self.settings();
        let nodes = redis_nodes(&all, wire, Some(&cluster), &settings, &environment.clock)?;
        let Settings { max_clock_drift, answer_timeout, .. } = settings;
        Ok(MemberChange(quorumlock_quorum::MemberChange::new(
            nodes,
            cluster,
            until,
            max_clock_drift,
            answer_timeout,
            environment,
        )))
    }

    /// What all clients of these nodes must agree on.
    fn cluster_of(
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

    /// The one server, or the master with replicas: see [`Self::of_one_node`].
    fn of_one_master<U: AsRef<str>>(
        mut self,
        urls: &[U],
        master: Option<&str>,
        replicated: bool,
    ) -> Result<Locker, Error> {
        self.settings.mode = if replicated { Mode::Replicated } else { Mode::Single };
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
        self.of_one_node(urls, master, kind, |urls, wire, settings, environment| {
            let (clock, wire) = (&environment.clock, (wire, cluster.as_ref()));
            let node = match master {
                None => redis_master(urls, wire, settings, clock)?,
                Some(master) => redis_sentinel(urls, master, wire, settings, clock)?,
            };
            let (clock, within) = (clock.clone(), settings.answer_timeout);
            let entropy = environment.entropy.clone();
            Ok(match cluster {
                None => Single::new(node, clock, within),
                Some(cluster) => {
                    proven(node, clock, entropy, within, settings.max_clock_drift, cluster)
                }
            })
        })
    }

    /// One vote is the lock: the vote of the node over which `single` makes a lessor. `urls` are its
    /// addresses, or those of the sentinels that monitor `master`.
    fn of_one_node<U: AsRef<str>, N: Node>(
        mut self,
        urls: &[U],
        master: Option<&str>,
        kind: ServerKind,
        single: impl FnOnce(&[U], Wire, &Settings, &Environment) -> Result<Single<N>, ConfigError>,
    ) -> Result<Locker, Error> {
        let prefix = self.settle(On::new(kind, urls.iter().map(AsRef::as_ref).chain(master)))?;
        let environment = Environment::default();
        let wire = *self.settings.wire.get_or_insert(Wire::Redisson);
        let single = single(urls, wire, &self.settings, &environment)?;
        let single = single.on_event(self.settings.on_event.clone());
        let locker =
            quorumlock_core::Locker::with_lessor(Arc::new(single), self.settings, environment)?;
        Ok(Locker::new(locker, &prefix))
    }

    /// Checks the options, sets those that have no fixed default, and returns the prefix of names.
    pub(crate) fn settle(&mut self, on: On) -> Result<String, ConfigError> {
        self.check_options(on)?;
        self.settings.label.get_or_insert_with(process_label);
        self.settings.lease = self.lease_or_default();
        self.checked_prefix()
    }
}
