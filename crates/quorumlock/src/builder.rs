use std::sync::Arc;
use std::time::Duration;

use quorumlock_core::admission::Charter;
use quorumlock_core::{ClientCertificate, Settings, World, redis_nodes};
use quorumlock_quorum::Quorum;

use crate::{ConfigError, Error, Locker, Wire};

/// Options of a [`Locker`]; [`Builder::single`], [`Builder::replicated`] or [`Builder::quorum`] ends
/// it. Bounds are checked there, and nothing is dialled.
#[derive(Clone, Debug, Default)]
#[must_use = "end it with `single`, `replicated` or `quorum`"]
pub struct Builder {
    wire: Option<Wire>,
    admission: Option<Admission>,
    cluster: Option<Cluster>,
    lost_marks: Option<usize>,
    settings: Settings,
}

/// Which nodes of a quorum may vote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Only nodes that have proven their memory: one that restarted, was flushed or replaced counts
    /// for nothing until a client has watched it for `max_lease`. Exclusion then survives any
    /// number of restarts; only availability needs a majority of admitted nodes.
    ///
    /// New nodes are admitted by `quorumlock init` or [`Locker::provision`](crate::Locker), or once a
    /// locker has watched them for `max_lease`.
    #[default]
    Strict,
    /// Every node that answers: plain Redlock. A node that restarts empty can break exclusion.
    Redlock,
}

#[derive(Clone, Debug)]
struct Cluster {
    name: String,
    epoch: u64,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { name: "quorumlock".into(), epoch: 1 }
    }
}

impl Builder {
    /// What a held lock looks like on a node. Default: [`Wire::Redisson`] on a single node,
    /// [`Wire::Redlock`] on a quorum. All clients of a name must agree.
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = Some(wire);
        self
    }

    /// What Redis keeps without news from us, unless a lock says otherwise. Default 30 s, at least
    /// 10 ms. Shorter frees a dead holder's lock sooner and costs more renewals.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// The longest lease that a lock may ask for. Default 60 s. A node of a
    /// quorum that lost its memory counts for nothing for so long; all clients must agree on it.
    pub fn max_lease(mut self, max_lease: Duration) -> Self {
        self.settings.max_lease = max_lease;
        self
    }

    /// Which nodes of a quorum may vote. Default [`Admission::Strict`]. For a quorum only.
    pub fn admission(mut self, admission: Admission) -> Self {
        self.admission = Some(admission);
        self
    }

    /// The cluster's name and epoch, on which all clients of its nodes must agree under
    /// [`Admission::Strict`]. Default `quorumlock`, 1. Raise the epoch at each change of membership.
    /// For a quorum under strict admission only.
    pub fn cluster(mut self, name: &str, epoch: u64) -> Self {
        self.cluster = Some(Cluster { name: name.to_owned(), epoch });
        self
    }

    /// How much faster a node's clock may run than ours: 0 to 0.5. Default 0.01. Larger makes every
    /// lease end earlier for its holder; chrony may slew a clock by 0.083 unless told otherwise.
    pub fn rho(mut self, rho: f64) -> Self {
        self.settings.rho = rho;
        self
    }

    /// How long a request may stay unanswered, from when it could be sent: 1 ms to 1 min. Default
    /// 500 ms. A dead or hung minority costs nothing; this bounds how long the loss of the majority
    /// takes to be told.
    ///
    /// Connecting comes before that and is bounded by [`Builder::connect_timeout`], so that a call
    /// ends within the sum of both. `unlock` takes twice the answer timeout at most: where a
    /// connection breaks its release is asked again.
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.settings.answer_timeout = timeout;
        self
    }

    /// How many replicas of a single master must have a grant, or a renewal, before it counts:
    /// `WAIT`. Default 0; at most as many as there are further addresses, and none on a quorum, whose
    /// nodes have no replicas.
    ///
    /// A grant that too few acknowledge is given back, and the call ends with
    /// [`Error::Refused`] with [`NodeProblem::NoReplicas`](crate::NodeProblem::NoReplicas): look at the replicas. A renewal that too
    /// few acknowledge lengthens nothing, so the lock is lost in the end if that goes on: a replica
    /// that never heard of it would free the lock too early.
    ///
    /// `WAIT` blocks its whole connection: what else this locker asks waits meanwhile, at most
    /// [`Builder::replica_timeout`] for each batch. Its user needs `+wait`.
    ///
    /// Give all the replicas that may be promoted: if one acknowledges and another is promoted, there
    /// are two holders (docs/SAFETY.md, H12). Best effort even then: "WAIT does not make Redis a
    /// strongly consistent store", "it is possible to still lose a write synchronously replicated to
    /// multiple replicas" (<https://redis.io/docs/latest/commands/wait/>).
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.settings.replicas = replicas;
        self
    }

    /// How long replicas may take to acknowledge: 1 ms to the answer timeout. Default a quarter of
    /// that, since a request may have to wait for the batch before it, too. Not for a quorum, as
    /// [`Builder::replicas`].
    pub fn replica_timeout(mut self, timeout: Duration) -> Self {
        self.settings.replica_timeout = Some(timeout);
        self
    }

    /// How long dialling and greeting a server may take together: 1 ms to 1 min. Default 1 s.
    /// Longer for far or busy servers; a server that refuses connections ends a call at once.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How many nodes of a quorum may lose their fencing marks, before they are repaired, without a token
    /// being given twice: 0 to all but one. Default 0. It costs availability: `(N + losses + 1) / 2` nodes,
    /// rounded up, must grant; of 5, 4 for 1 or 2. (docs/SAFETY.md A7) For a quorum only.
    pub fn tolerate_lost_marks(mut self, losses: usize) -> Self {
        self.lost_marks = Some(losses);
        self
    }

    /// Takes every lock by script, never by a transaction of plain commands. Default false: a transaction takes
    /// a free lock for half of the servers' time. For comparison, and for servers or proxies without `MULTI`,
    /// which a locker also notices by itself.
    pub fn scripts_only(mut self, scripts_only: bool) -> Self {
        self.settings.scripts_only = scripts_only;
        self
    }

    /// Whether whoever releases a name on a single node may hand it over to us when we wait for it: a trip and
    /// a request less. Default true.
    ///
    /// Such a lease begins with a tenth of itself, a second at least, so that nobody waits for long if we were
    /// stopped before we heard; the watchdog makes a whole one of it a moment later. False for whoever needs a
    /// whole lease from the start, as `quorumlock run` does, whose commands get time to end before it does.
    pub fn handover(mut self, handover: bool) -> Self {
        self.settings.handover = handover;
        self
    }

    /// Whether grants carry fencing tokens. Default true.
    ///
    /// Without them a lock costs its servers less, as much as that of plain libraries, and protects
    /// nothing from a holder that was paused (docs/SAFETY.md, G4):
    /// [`Guard::fence`](crate::Guard::fence) is [`Fence::NONE`](crate::Fence::NONE), which a
    /// [`FenceGate`](crate::fencing::FenceGate) refuses. All clients of a name must agree.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.settings.fencing = fencing;
        self
    }

    /// What `CLIENT LIST` shows for our connections; no spaces. Default `quorumlock`.
    pub fn client_name(mut self, name: &str) -> Self {
        self.settings.client_name = Some(name.to_owned());
        self
    }

    /// Verifies `rediss://` servers by these CA certificates (PEM). Default: the Mozilla roots.
    pub fn tls_ca(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.settings.tls_ca = Some(pem.as_ref().to_vec());
        self
    }

    /// Shows this client certificate and private key (PEM) to `rediss://` servers that want one
    /// (`tls-auth-clients yes`). Default: none. The key must not be encrypted.
    pub fn tls_client(mut self, cert: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        let (cert, key) = (cert.as_ref().to_vec(), key.as_ref().to_vec());
        self.settings.tls_client = Some(ClientCertificate { cert, key });
        self
    }

    /// Locks on the single server at `url`.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an option out of bounds, or one that is for a quorum only.
    pub fn single(self, url: impl AsRef<str>) -> Result<Locker, Error> {
        self.only_for_a_quorum("a single server")?;
        let locker = quorumlock_core::Locker::single(url.as_ref(), self.wire, self.settings)?;
        Ok(Locker::new(locker))
    }

    /// Locks on whichever of the servers at `urls` is the master of the others: see
    /// [`Locker::replicated`].
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, one address twice, an option out of bounds, or
    /// one that is for a quorum only.
    pub fn replicated<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U>,
    ) -> Result<Locker, Error> {
        self.only_for_a_quorum("a master and its replicas")?;
        let urls: Vec<U> = urls.into_iter().collect();
        let locker = quorumlock_core::Locker::replicated(&urls, self.wire, self.settings)?;
        Ok(Locker::new(locker))
    }

    /// Locks on a majority of the independent servers at `urls`.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, one server listed twice, an option out of
    /// bounds, or one that is not for a quorum.
    pub fn quorum<U: AsRef<str>>(self, urls: impl IntoIterator<Item = U>) -> Result<Locker, Error> {
        let strict = self.admission.unwrap_or_default() == Admission::Strict;
        let absent = |option, servers| Err(ConfigError::DoesNotApply { option, servers }.into());
        if !strict && self.cluster.is_some() {
            return absent("cluster", "a quorum with Admission::Redlock");
        }
        if self.settings.replica_timeout.is_some() {
            return absent("replica_timeout", "a quorum");
        }
        let urls: Vec<U> = urls.into_iter().collect();
        let world = World::default();
        let wire = self.wire.unwrap_or(Wire::Redlock);
        let Cluster { name, epoch } = self.cluster.unwrap_or_default();
        let charter = Charter {
            prefix: "quorumlock".into(),
            cluster: name,
            epoch,
            nodes: urls.len(),
            longest: self.settings.max_lease,
        };
        let bound = strict.then_some(&charter);
        let nodes = redis_nodes(&urls, wire, bound, &self.settings, &world.clock)?;
        let (clock, timeout) = (world.clock.clone(), self.settings.answer_timeout);
        let quorum = if strict {
            let chance = world.chance.clone();
            Quorum::strict(nodes, clock, chance, timeout, self.settings.rho, charter)?
        } else {
            Quorum::new(nodes, clock, timeout)?
        };
        let quorum = quorum.tolerate_lost_marks(self.lost_marks.unwrap_or(0))?;
        let locker = quorumlock_core::Locker::over(Arc::new(quorum), self.settings, world)?;
        Ok(Locker::new(locker))
    }

    /// What one server cannot do is refused, and not ignored.
    fn only_for_a_quorum(&self, servers: &'static str) -> Result<(), ConfigError> {
        let given = [
            ("admission", self.admission.is_some()),
            ("cluster", self.cluster.is_some()),
            ("tolerate_lost_marks", self.lost_marks.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(ConfigError::DoesNotApply { option, servers }),
            None => Ok(()),
        }
    }
}
