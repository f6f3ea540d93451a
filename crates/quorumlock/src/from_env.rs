//! A [`Builder`] from environment variables.

use crate::builder::Admission;
use crate::env::{self, Servers, Variable};
use crate::{Builder, ConfigError, Error, Locker, Wire};

impl Builder {
    /// A builder with the options that the environment sets. The variables are those of the command
    /// `quorumlock`: see [`env`](crate::env). It reads the PEM files that they name. Options set in
    /// the program replace those of the environment.
    ///
    /// End it with [`Builder::build`], which uses the servers of the environment.
    ///
    /// ```no_run
    /// # fn doc() -> Result<(), quorumlock::Error> {
    /// use std::time::Duration;
    /// use quorumlock::{Builder, Locker};
    ///
    /// let locker = Locker::from_env()?; // or, with an option of the program's own:
    /// let locker = Builder::from_env()?.answer_timeout(Duration::from_secs(1)).build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::BadVariable`](crate::ConfigError::BadVariable) with the variable, its value
    /// and what it must be.
    pub fn from_env() -> Result<Self, Error> {
        let (mut builder, read) = (Self::default(), Variable::read);
        if let Some(nodes) = read(env::NODES)? {
            builder.servers.urls = nodes.urls()?;
        }
        if let Some(replicated) = read(env::REPLICATED)? {
            builder.servers.replicated = replicated.flag()?;
        }
        if let Some(cluster) = read(env::CLUSTER)? {
            builder.servers.cluster = cluster.flag()?;
            if builder.servers.cluster && builder.servers.replicated {
                return Err(cluster.wrong("QUORUMLOCK_REPLICATED is set, too").into());
            }
        }
        if let Some(replicas) = read(env::REPLICAS)? {
            builder = match replicas.is("all") {
                true => builder.all_replicas(),
                false => builder.replicas(replicas.number()?),
            };
        }
        if let Some(durable) = read(env::DURABLE)? {
            builder = builder.durable(durable.flag()?);
        }
        if let Some(wire) = read(env::WIRE)? {
            let values = [("redisson", Wire::Redisson), ("redlock", Wire::Redlock)];
            builder = builder.wire(wire.one_of(&values)?);
        }
        if let Some(fenced) = read(env::REDISSON_FENCED)? {
            builder = builder.redisson_fenced(fenced.flag()?);
        }
        if let Some(strict) = read(env::STRICT_ORDER)? {
            builder = builder.strict_order(strict.flag()?);
        }
        if let Some(delay) = read(env::TAKEOVER_DELAY)? {
            builder = builder.takeover_delay(delay.duration()?);
        }
        if let Some(ca) = read(env::TLS_CA)? {
            builder = builder.tls_ca(ca.file()?);
        }
        match (read(env::TLS_CERT)?, read(env::TLS_KEY)?) {
            (Some(cert), Some(key)) => builder = builder.tls_client(cert.file()?, key.file()?),
            (Some(alone), None) => {
                return Err(alone.wrong("it needs QUORUMLOCK_TLS_KEY, too").into());
            }
            (None, Some(alone)) => {
                return Err(alone.wrong("it needs QUORUMLOCK_TLS_CERT, too").into());
            }
            (None, None) => {}
        }
        builder.quorum_from_env()
    }

    /// What all programs of one quorum must share.
    fn quorum_from_env(mut self) -> Result<Self, Error> {
        let read = Variable::read;
        if let Some(admission) = read(env::ADMISSION)? {
            let values = [("strict", Admission::Strict), ("redlock", Admission::Redlock)];
            self = self.admission(admission.one_of(&values)?);
        }
        if let Some(variable) = read(env::MAX_LEASE)? {
            let (max_lease, lease) = (variable.duration()?, self.settings.lease);
            self = self.max_lease(max_lease).lease(lease.min(max_lease));
            self.settings.check().map_err(|error| variable.wrong(error.to_string()))?;
        }
        if let Some(bound) = read(env::CLOCK_BOUND)? {
            self = self.clock_bound(bound.duration()?);
        }
        Ok(self)
    }

    /// Locks on the servers that [`Builder::from_env`] has found: on a single server, if there is
    /// one URL; on the master, if they are replicated, or if the URL is one of sentinels; on the Redis
    /// Cluster, if they are its members; else on a quorum.
    ///
    /// # Errors
    /// [`Error::Config`] if there are none, and as [`Builder::single`], [`Builder::replicated`],
    /// [`Builder::cluster`] or [`Builder::quorum`].
    pub fn build(mut self) -> Result<Locker, Error> {
        let Servers { urls, replicated, cluster } = std::mem::take(&mut self.servers);
        match &urls[..] {
            [] => {
                let why = "it is not set, and `build` uses the servers that it names".into();
                Err(ConfigError::BadVariable { variable: env::NODES, value: None, why }.into())
            }
            _ if replicated => self.replicated(urls),
            _ if cluster => self.cluster(urls),
            [url] => self.single(url),
            _ => self.quorum(urls),
        }
    }
}
