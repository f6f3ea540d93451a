//! The nodes that a subcommand works on, and how to lock on them.

use std::time::Duration;

use quorumlock::{Builder, ConfigError, Error, Locker, Servers};
use quorumlock_command::Failure;
use quorumlock_protocol::Settings;
use quorumlock_protocol::admission::members::note_age;

use crate::options::Options;

/// The nodes, and what all programs with these nodes must agree on.
pub(crate) type Nodes = Options<false>;
/// These, and how locks are taken.
pub(crate) type LockNodes = Options<true>;

impl<const LOCKS: bool> Options<LOCKS> {
    /// The servers that are named.
    pub(crate) fn servers(&self) -> Result<Servers, Failure> {
        self.builder.servers().map_err(|error| match error {
            ConfigError::BadVariable { .. } => Failure::usage(
                "no node is given: add --node redis://HOST:6379, or set QUORUMLOCK_NODES to it; of a quorum \
                 all URLs, separated by commas",
            ),
            error => Failure::usage(format!("--node or QUORUMLOCK_NODES: {error}")),
        })
    }

    /// A locker that only looks; it does not connect yet.
    pub(crate) fn observer(&self) -> Result<Locker, Failure> {
        Ok(self.build((*self.builder).clone().observes())??)
    }

    /// A locker, or what the library says of the options.
    pub(crate) fn build(&self, builder: Builder) -> Result<Result<Locker, Error>, Failure> {
        self.servers()?;
        Ok(builder.build())
    }

    /// Whether so many independent nodes must prove their memory: one only if it is said.
    pub(crate) fn strict_with(&self, nodes: usize) -> bool {
        self.builder.is_strict(nodes)
    }

    pub(crate) fn settings(&self) -> Settings {
        self.builder.settings()
    }

    /// The lease of each lock.
    pub(crate) fn lease(&self) -> Duration {
        self.builder.lease_or_default()
    }

    /// The limit of each hold.
    pub(crate) fn hold_at_most(&self) -> Option<Duration> {
        self.builder.settings().hold_at_most
    }

    pub(crate) fn max_lease(&self) -> Duration {
        self.builder.settings().max_lease
    }

    pub(crate) fn clock_bound(&self) -> Duration {
        self.builder.clock_bound_or_default()
    }

    /// How old the note on a node must be before the node is admitted.
    pub(crate) fn note_age(&self) -> Duration {
        let Settings { max_lease, max_clock_drift, .. } = self.builder.settings();
        note_age(max_lease, max_clock_drift, self.clock_bound())
    }

    /// A builder of lockers that only look. Connecting, and each answer, may take `timeout`, where no option
    /// says otherwise.
    pub(crate) fn patient(&self, timeout: Duration) -> Builder {
        let mut builder = (*self.builder).clone().observes();
        if !self.has("connect_timeout") {
            builder = builder.connect_timeout(timeout);
        }
        if !self.has("answer_timeout") {
            builder = builder.answer_timeout(timeout);
        }
        builder
    }

    /// A locker on nodes under strict admission: those of a quorum, or with `--admission strict` one
    /// server, or a master with its replicas.
    pub(crate) fn strict(&self, timeout: Duration) -> Result<Locker, Failure> {
        let servers = self.servers()?;
        if servers.is_cluster() {
            return Err(Failure::usage(
                "the masters of a Redis Cluster need no admission: leave out cluster: before the URLs to \
                 admit other servers",
            ));
        }
        let independent = if servers.is_replicated() { 1 } else { servers.urls().len() };
        if independent < 2 && !self.strict_with(independent) {
            return Err(Failure::usage(
                "one server, or a master with its replicas, needs no admission, unless all programs that \
                 lock use --admission strict (QUORUMLOCK_ADMISSION): give it here, too. For a quorum give \
                 all nodes, each with --node",
            ));
        }
        self.something_to_admit()?;
        Ok(self.build(self.patient(timeout))??)
    }

    /// The URLs of a quorum under strict admission, and a builder for lockers that only look at it.
    pub(crate) fn strict_quorum(&self) -> Result<(Vec<String>, Builder), Failure> {
        let servers = self.servers()?;
        let urls = servers.urls().to_vec();
        if urls.len() < 2 || servers.is_replicated() || servers.is_cluster() {
            return Err(Failure::usage(
                "this is for quorums: give all nodes, each with --node, without replicated: or cluster: \
                 before them",
            ));
        }
        self.something_to_admit()?;
        Ok((urls, (*self.builder).clone().observes()))
    }

    fn something_to_admit(&self) -> Result<(), Failure> {
        match self.strict_with(2) {
            true => Ok(()),
            false => Err(Failure::usage("with --admission redlock there is nothing to admit")),
        }
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
