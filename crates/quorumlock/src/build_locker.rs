//! What ends a [`Builder`]: it makes a locker on servers.

use std::sync::Arc;
use std::time::Duration;

use quorumlock_core::{Environment, Single};
use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::admission::members::{CLOCK_BOUND, MemberList};
use quorumlock_protocol::telemetry::Mode;
use quorumlock_protocol::{Node, Settings};
use quorumlock_quorum::{Quorum, proven};
use quorumlock_redis::{
    is_sentinel_url, master_list, member_list, redis_cluster, redis_master, redis_nodes,
    redis_sentinel,
};

use crate::admission::{MemberChange, Until};
use crate::builder::{applies, process_label};
use crate::{Admission, Builder, ConfigError, Error, Locker, Wire};

impl Builder {
    /// Locks on the single server at `url`.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an option out of bounds, or one that is for a quorum only.
    pub fn single(self, url: impl AsRef<str>) -> Result<Locker, Error> {
        self.of_one_master(&[url], None, ("a single server", false))
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
        self.of_one_master(&urls, None, ("a master and its replicas", true))
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
        self.of_one_master(&urls, Some(master.as_ref()), ("a master and its replicas", true))
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
        self.only_for_a_quorum("a Redis Cluster")?;
        self.settings.mode = Mode::Cluster;
        let urls: Vec<U> = urls.into_iter().collect();
        self.of_one_node(&urls, None, |urls, wire, settings, environment| {
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
        let strict = self.admission.unwrap_or_default() == Admission::Strict;
        applies([
            (
                "clock_bound",
                !strict && self.clock_bound.is_some(),
                "a quorum with Admission::Redlock",
            ),
            ("replica_timeout", self.settings.replica_timeout.is_some(), "a quorum"),
            ("durable", self.settings.durable, "a quorum"),
            ("all_replicas", self.settings.all_replicas, "a quorum"),
            (
                "tolerate_lost_marks",
                self.lost_marks.is_some() && !self.settings.fencing,
                "a locker without fencing",
            ),
        ])?;
        self.settings.mode = Mode::Quorum;
        self.settings.label.get_or_insert_with(process_label);
        let (prefix, urls) = (self.checked_prefix()?, urls.into_iter().collect::<Vec<U>>());
        let environment = Environment::default();
        let wire = *self.settings.wire.get_or_insert(Wire::Redlock);
        let cluster = self.cluster_of(member_list(&urls)?, false)?;
        let bound = strict.then_some(&cluster);
        let nodes = redis_nodes(&urls, wire, bound, &self.settings, &environment.clock)?;
        self.tls_applies(urls.iter().map(AsRef::as_ref))?;
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
        let nodes = redis_nodes(&all, wire, Some(&cluster), &self.settings, &environment.clock)?;
        let Settings { max_clock_drift, answer_timeout, .. } = self.settings;
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
        let (min, max) = (Duration::from_millis(10), Duration::from_secs(60));
        if !(min..=max).contains(&clock_bound) {
            let what = "clock_bound";
            return Err(ConfigError::BadDuration { what, value: clock_bound, min, max });
        }
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
        (servers, replicated): (&'static str, bool),
    ) -> Result<Locker, Error> {
        let replicated = replicated || matches!(urls, [url] if is_sentinel_url(url.as_ref()));
        self.settings.mode = if replicated { Mode::Replicated } else { Mode::Single };
        let cluster = match self.admission {
            Some(Admission::Strict) => {
                applies([("tolerate_lost_marks", self.lost_marks.is_some(), servers)])?;
                Some(self.cluster_of(master_list(urls, master)?, replicated)?)
            }
            _ => {
                self.only_for_a_quorum(servers)?;
                None
            }
        };
        self.of_one_node(urls, master, |urls, wire, settings, environment| {
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
        single: impl FnOnce(&[U], Wire, &Settings, &Environment) -> Result<Single<N>, ConfigError>,
    ) -> Result<Locker, Error> {
        self.settings.label.get_or_insert_with(process_label);
        let environment = Environment::default();
        let wire = *self.settings.wire.get_or_insert(Wire::Redisson);
        let prefix = self.checked_prefix()?;
        let Settings { replicas, all_replicas, replica_timeout, .. } = self.settings;
        let no_copies = replica_timeout.is_some() && !self.settings.awaits_copies();
        applies([
            ("replicas", replicas > 0 && all_replicas, "a locker with all_replicas"),
            ("replica_timeout", no_copies, "a locker without replicas"),
        ])?;
        let single = single(urls, wire, &self.settings, &environment)?;
        self.tls_applies(urls.iter().map(AsRef::as_ref).chain(master))?;
        let single = single.on_event(self.settings.on_event.clone());
        let locker =
            quorumlock_core::Locker::with_lessor(Arc::new(single), self.settings, environment)?;
        Ok(Locker::new(locker, &prefix))
    }

    /// An option that one server cannot serve is an error, and never ignored.
    pub(crate) fn only_for_a_quorum(&self, servers: &'static str) -> Result<(), ConfigError> {
        applies([
            ("admission", self.admission.is_some(), servers),
            ("clock_bound", self.clock_bound.is_some(), servers),
            ("tolerate_lost_marks", self.lost_marks.is_some(), servers),
        ])
    }

    fn tls_applies<'a>(&self, urls: impl Iterator<Item = &'a str>) -> Result<(), ConfigError> {
        let is_tls = |url: &str| url.get(..6).is_some_and(|s| s.eq_ignore_ascii_case("rediss"));
        let plain = !urls.into_iter().any(is_tls);
        applies([
            ("tls_ca", plain && self.settings.tls_ca.is_some(), "servers without rediss://"),
            (
                "tls_client",
                plain && self.settings.tls_client.is_some(),
                "servers without rediss://",
            ),
        ])
    }
}
