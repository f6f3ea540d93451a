use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use quorumlock_protocol::telemetry::EventHandler;
use quorumlock_protocol::{CredentialsProvider, Settings};

use crate::env::{Nodes, Places};
use crate::secrets;
use crate::telemetry::Event;
use crate::{ConfigError, Credentials, Layout, Name, Pem, Servers};

/// Servers, and options of a [`Locker`](crate::Locker) on them. [`Builder::build`] checks the bounds of
/// all options and makes the locker. An option that does not apply to the servers or to the other
/// options is an error ([`ConfigError::DoesNotApply`](crate::ConfigError::DoesNotApply)).
///
/// [`Locker::builder`](crate::Locker::builder) and [`Builder::from_env`] begin one. It has no other
/// constructor: a locker without servers is no locker.
#[derive(Clone, Debug, Default)]
#[must_use = "end it with `build`"]
pub struct Builder {
    pub(crate) servers: Option<Servers>,
    /// The texts of the environment, or of arguments, that name servers.
    pub(crate) nodes: Nodes,
    pub(crate) places: Places,
    pub(crate) prefix: Option<String>,
    pub(crate) admission: Option<Admission>,
    pub(crate) clock_bound: Option<Duration>,
    pub(crate) lost_marks: Option<usize>,
    pub(crate) lease: Option<Duration>,
    /// The options that give credentials.
    pub(crate) credentials_from: Vec<&'static str>,
    pub(crate) settings: Settings,
}

/// Which nodes may vote: of a quorum, or the one server, or the master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admission {
    /// Only nodes that have proven their memory. A node that restarted, was flushed or was replaced
    /// counts for nothing for `max_lease` and twice [`Builder::clock_bound`]. Exclusion then
    /// survives any number of restarts; only availability needs a majority of admitted nodes.
    /// A node admits the clients of one list of nodes only (the labels of their URLs: `host:port/db`
    /// or `?label=`), or of two during a change ([`MemberChange`](crate::admission::MemberChange)).
    ///
    /// New nodes are admitted by `quorumlock init` or [`Locker::admit_nodes`](crate::Locker), or by
    /// lockers after the same time.
    ///
    /// A single server and a master with replicas are proven in the same way, if a builder says so. A
    /// promoted replica has not proven its memory, whatever it has copied: nobody is granted a lock for
    /// that time (docs/SAFETY.md, Proven memory).
    #[default]
    Strict,
    /// Every node of a quorum that answers: plain Redlock. A node that restarts empty can break
    /// exclusion.
    Redlock,
}

/// How many replicas must acknowledge: see [`Builder::replicas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replicas {
    /// So many: at most the number of further addresses, or 32 if there is only one address.
    AtLeast(usize),
    /// Those that the master has when a connection to it begins. A master without a replica grants
    /// nothing (`NodeProblem::NoReplicas`). The number is looked at again about once a minute, and at a
    /// new connection, which the locker makes when too few acknowledge: a replica that is down then is
    /// not waited for.
    All,
}

impl Builder {
    /// Without servers: for [`Builder::on`].
    #[doc(hidden)]
    pub fn without_servers() -> Self {
        Self::default()
    }

    /// Begins every name of a lock: with `prefix("app:")`, `locker.lock("x")` takes the lock
    /// `app:x`. Default: none.
    ///
    /// The prefix belongs to the name, in all calls of the locker: the key on the nodes, the name
    /// of guards and errors and the name that Java or `quorumlock status` must use are `app:x`. So
    /// the rules of names hold for the whole name, and so do Redisson's channels, the hash tag (a
    /// `{tag}` in the prefix gives all names one hash slot) and fencing marks and counters. The
    /// nodes' admission has nothing to do with it.
    ///
    /// [`Error::Config`](crate::Error::Config) if no name can begin so: the prefix is empty, reserved, or leaves no room
    /// for a name.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.to_owned());
        self
    }

    /// The layout of a held lock on a node. Default: [`Layout::Redisson`] on a single node,
    /// [`Layout::Redlock`] on a quorum. All clients of a name must use the same.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.settings.layout = Some(layout);
        self
    }

    /// How long Redis keeps a lock without a renewal, unless the request sets its own lease.
    /// At least 10 ms. Default 30 s, or [`Builder::max_lease`] where that is shorter. A shorter lease
    /// frees a dead holder's lock sooner and costs more renewals.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// How long a hold may last at most, unless its request sets [`hold_at_most`] itself. Default: without limit.
    /// A lock that nobody gives back, by a bug or a job that hangs, then ends by itself, and its holder is told.
    ///
    /// [`hold_at_most`]: crate::LockRequest::hold_at_most
    pub fn hold_at_most(mut self, limit: Duration) -> Self {
        self.settings.hold_at_most = Some(limit);
        self
    }

    /// A hold that lasts longer is told, once: as a warning in the log, as
    /// [`Event::LongHoldBegan`](crate::telemetry::Event::LongHoldBegan), and in the metric
    /// `quorumlock.held.long`. The watchdog finds it at its next renewal, a third of the lease later at most.
    /// Default: none is told.
    pub fn long_hold(mut self, limit: Duration) -> Self {
        self.settings.long_hold = Some(limit);
        self
    }

    /// The longest lease that a request may set. Default 60 s. A node of a quorum that lost its
    /// memory counts for nothing for this long and twice the clock bound. All clients must use the
    /// same value.
    pub fn max_lease(mut self, max_lease: Duration) -> Self {
        self.settings.max_lease = max_lease;
        self
    }

    /// Which nodes may vote. Default: of a quorum [`Admission::Strict`]; a single server and a master
    /// with replicas always vote, unless this is [`Admission::Strict`]. Not for a Redis Cluster.
    pub fn admission(mut self, admission: Admission) -> Self {
        self.admission = Some(admission);
        self
    }

    /// How far the wall clocks of a node and of a client may be apart: 10 ms to 1 min. Default 5 s.
    /// A node that restarted may vote again after `max_lease` and twice this, and only a client
    /// whose clock agrees admits it. All clients must use the same value. Under strict admission only.
    pub fn clock_bound(mut self, bound: Duration) -> Self {
        self.clock_bound = Some(bound);
        self
    }

    /// How much faster a node's clock may run than ours: a fraction, 0 to 0.5. Default 0.01. A
    /// larger bound makes every lease end earlier for its holder. By default chrony may slew a
    /// clock by 0.083.
    pub fn max_clock_drift(mut self, bound: f64) -> Self {
        self.settings.max_clock_drift = bound;
        self
    }

    /// How long a request may stay unanswered, from when it could be sent: 1 ms to 1 min. Default
    /// 500 ms. A dead or hung minority costs nothing; this bounds how long it takes to report that
    /// the majority does not answer.
    ///
    /// Connecting comes before that: a server that stays silent is given up after
    /// [`Builder::connect_timeout`], so an attempt ends within the sum of both, and one over a slow link
    /// within five connect timeouts more. `unlock` takes at most twice the answer timeout, because its
    /// release is sent again if a connection breaks.
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.settings.answer_timeout = timeout;
        self
    }

    /// How many replicas of a single master must acknowledge a grant or a renewal (`WAIT`) before
    /// it counts. Default: none. Not for a quorum, whose nodes have no replicas.
    ///
    /// A grant that too few replicas acknowledge is released, and the call fails with
    /// [`Error::Refused`](crate::Error::Refused) and [`NodeProblem::NoReplicas`](crate::NodeProblem::NoReplicas): check
    /// the replicas. A renewal that too few replicas acknowledge does not extend the lease, because
    /// a replica that has not received it would free the lock too early. If that goes on, the lock
    /// is lost.
    ///
    /// `WAIT` blocks its whole connection: the locker's other requests wait meanwhile, at most
    /// [`Builder::replica_timeout`] for each batch. The Redis user needs `+wait`.
    ///
    /// Give the number of all replicas that may be promoted: if one replica acknowledges and
    /// another one is promoted, there are two holders (docs/SAFETY.md, H12). Best effort even then:
    /// "WAIT does not make Redis a strongly consistent store", "it is possible to still lose a
    /// write synchronously replicated to multiple replicas"
    /// (<https://redis.io/docs/latest/commands/wait/>).
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        (self.settings.replicas, self.settings.all_replicas) = match replicas {
            Replicas::AtLeast(count) => (count, false),
            Replicas::All => (0, true),
        };
        self
    }

    /// Lets a grant or a renewal of a single master count only once it is on the master's disk
    /// (`WAITAOF`), and on those of [`Builder::replicas`]. Default false. A server that loses its power
    /// then has all locks when it is back (docs/SAFETY.md, H10). Not for a quorum, whose nodes prove
    /// their memory.
    ///
    /// The server needs `appendonly yes`, and Redis 7.2 or later, or Valkey; the Redis user needs
    /// `+waitaof`. With `appendfsync always` the disk has a grant when the server answers. With
    /// `everysec` a grant takes up to a second: set [`Builder::answer_timeout`] above that. Otherwise calls fail with
    /// [`NodeProblem::NotDurable`](crate::NodeProblem::NotDurable), and what was granted is released.
    pub fn durable(mut self, durable: bool) -> Self {
        self.settings.durable = durable;
        self
    }

    /// How long replicas and disks may take to acknowledge: 1 ms to the answer timeout.
    /// Default: a quarter of the answer timeout, since a request may also have to wait for the batch
    /// before it; with [`Builder::durable`] all of it. Not for a quorum, as [`Builder::replicas`].
    pub fn replica_timeout(mut self, timeout: Duration) -> Self {
        self.settings.replica_timeout = Some(timeout);
        self
    }

    /// How long each step of connecting to a server may take: 1 ms to 1 min. Default 1 s. The steps are
    /// the name, TCP, TLS, and the next bytes of each reply; all steps together may take five times as
    /// long. Use a longer timeout where a round trip takes longer than half of it, and for busy
    /// servers. A server that refuses connections is not waited for.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How many nodes of a quorum may have lost their fencing marks, and not be repaired yet,
    /// without a token being issued twice: 0 to all but one. Default 0. It costs availability:
    /// `(N + losses + 1) / 2` nodes, rounded up, must grant; of 5 nodes, 4 for 1 or 2 losses
    /// (docs/SAFETY.md A7, docs/PROTOCOL.md MARK2). For a quorum only.
    pub fn tolerate_lost_marks(mut self, losses: usize) -> Self {
        self.lost_marks = Some(losses);
        self
    }

    /// Takes every lock by script, never by a transaction of plain commands. Default false: a
    /// transaction takes a free lock for half of the servers' time. For comparison, and for servers
    /// or proxies without `MULTI`, which a locker also detects itself.
    pub fn scripts_only(mut self, scripts_only: bool) -> Self {
        self.settings.scripts_only = scripts_only;
        self
    }

    /// The locker only looks, for an operator: a change of the list of nodes waits for no such locker.
    #[doc(hidden)]
    pub fn observes(mut self) -> Self {
        self.settings.observes = true;
        self
    }

    /// Whether a queued waiter asks without a message, too. Default true. For tests of messages: without
    /// polls a waiter whose message is lost sleeps until the lease in its way ends.
    #[doc(hidden)]
    pub fn polls(mut self, polls: bool) -> Self {
        self.settings.polls = polls;
        self
    }

    /// Whether grants carry fencing tokens. Default true.
    ///
    /// Without tokens a lock costs its servers less, as much as a lock of plain libraries, and
    /// protects nothing from a holder that was paused (docs/SAFETY.md, G4):
    /// [`Guard::token`](crate::Guard::token) is [`FencingToken::NONE`](crate::FencingToken::NONE), which a
    /// [`FenceGate`](crate::fencing::FenceGate) refuses. All clients of a name must use the same
    /// setting.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.settings.fencing = fencing;
        self
    }

    /// Whether fencing tokens are counted in the key of Redisson's `RFencedLock`. Default false.
    ///
    /// With it, [`Guard::token`](crate::Guard::token) and Java's `lockAndGetToken` return numbers
    /// of one sequence, which a resource can compare. All clients of a name should use the same
    /// setting: the tokens of lockers with and without it are in order among themselves, but Java's
    /// numbers stay below those of a locker without it. A re-entrant hold keeps its token, where
    /// Java counts another.
    ///
    /// Its cost: each lock is taken by script, no release hands a lock off, and the server forgets
    /// no counter (as with Redisson: one key for each name). For a single server with
    /// [`Layout::Redisson`] only.
    pub fn redisson_fenced(mut self, redisson_fenced: bool) -> Self {
        self.settings.redisson_fenced = redisson_fenced;
        self
    }

    /// Whether a free name with waiters goes to the first of them only. Default false: a call that finds
    /// the name free takes it, also before those that wait, which costs less and uses the name better.
    ///
    /// The server gives the name to its waiters in the order in which they began to wait. `try_lock` of
    /// a name with waiters returns `None`. A waiter that does not come within a second is passed over,
    /// and one whose process ended, at once. Calls of one locker wait in a queue of their own: its
    /// first call is in the server's queue.
    ///
    /// All clients of a name must use the same setting: a client without it, or of another library,
    /// overtakes. It is an order, not a promise of safety. Each lock is then taken by script, and no
    /// lease passes from task to task inside a process.
    ///
    /// Not for a quorum: its nodes see callers in different orders, so that no vote can enforce one.
    pub fn strict_order(mut self, strict_order: bool) -> Self {
        self.settings.strict_order = strict_order;
        self
    }

    /// How long nobody else gets a lock after its holder could last rely on it, unless the holder
    /// unlocked it: 0 to [`Builder::max_lease`], less the lease. Default 0.
    ///
    /// The nodes keep the lock for the lease and this time; the holder counts on the lease alone. So
    /// a holder that was paused, cut off or killed has this time to stop, and its last writes have it
    /// to arrive, before the next holder begins (docs/SAFETY.md, H1, H2, H5, H6, H8). It is a margin
    /// for what checks no tokens, and no promise: a longer pause still breaks exclusion of effects.
    /// Chubby and Consul call this lock-delay.
    ///
    /// A lock that is unlocked, or whose valid guard is dropped, is free at once. A lost one is not
    /// released early. [`Mutex::force_unlock`](crate::Mutex::force_unlock) skips the delay. What
    /// [`Holder::remaining`](crate::Holder) reports includes it.
    pub fn takeover_delay(mut self, delay: Duration) -> Self {
        self.settings.takeover_delay = delay;
        self
    }

    /// Who this locker is, for people who ask who holds a lock: `quorumlock status` and
    /// [`Holder::label`](crate::Holder) show it. At most 128 bytes, without control characters, and
    /// without secrets: everybody who may read on the servers can read it. Default: the name of the
    /// machine and the number of the process, as `web-3:4711`. `""` writes no label.
    ///
    /// The locker writes it to each server beside its first lock, and again while it holds locks, in the
    /// key `quorumlock:owner:ID`, where `ID` is how all its nonces end.
    /// [`LockRequest::label`](crate::LockRequest::label) gives one hold a label of its own.
    pub fn label(mut self, label: &str) -> Self {
        self.settings.label = Some(label.to_owned());
        self
    }

    /// Calls `handle` with each [`Event`]: for the metrics and logs of the program. It is called on
    /// the thread on which the event happens, the watchdog's included: it must not block, or locks are
    /// renewed late. A handler that panics is not called again. Default: none.
    ///
    /// With the feature `metrics`, [`telemetry::record_metrics`](crate::telemetry) is such a handler.
    ///
    /// ```
    /// # use quorumlock::{Locker, Servers, telemetry::{Event, HoldEnd}};
    /// let builder = Locker::builder(Servers::single("redis://127.0.0.1")).on_event(|event| {
    ///     if let Event::HoldEnded { lock, end: HoldEnd::Lost(why), .. } = event {
    ///         eprintln!("{} is lost: {why}", lock.name);
    ///     }
    /// });
    /// ```
    pub fn on_event(mut self, handle: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.settings.on_event = Some(EventHandler::new(handle));
        self
    }

    /// Whether the spans of `tracing` have the names of locks. Default true. Errors, events and
    /// warnings of the log have names in any case.
    pub fn names_in_spans(mut self, names: bool) -> Self {
        self.settings.names_in_spans = names;
        self
    }

    /// The name that `CLIENT LIST` shows for the locker's connections; no spaces. The
    /// default, `quorumlock:1`, has the number of the protocol.
    pub fn client_name(mut self, name: &str) -> Self {
        self.settings.client_name = Some(name.to_owned());
        self
    }

    /// Asks the program for the user and the password at each dial, in place of those in URLs: for
    /// passwords that are rotated, and for tokens that end (IAM of AWS, Entra ID). `provider` is given
    /// the URL of a server; it must answer within the connect timeout. Default: none.
    ///
    /// If credentials end ([`Credentials::valid_for`]), the locker replaces each connection that they
    /// opened before that, between two requests, and loses no lock. Sentinels are no servers: their
    /// credentials are in their URLs.
    ///
    /// ```no_run
    /// # async fn token() -> std::io::Result<String> { Ok(String::new()) }
    /// # use quorumlock::{Credentials, Locker, Servers};
    /// # use std::time::Duration;
    /// let builder = Locker::builder(Servers::single("redis://127.0.0.1")).credentials(|_server| async {
    ///     let half_a_day = Duration::from_secs(12 * 3_600);
    ///     token().await.map(|token| Credentials::new("app", token).valid_for(half_a_day))
    /// });
    /// ```
    ///
    /// If the provider fails or hangs, the last credentials that it gave count, and a warning names the
    /// fault; without any, the dial fails with
    /// [`NodeProblem::Authentication`](crate::NodeProblem::Authentication).
    /// [`Error::Config`](crate::Error::Config) if a URL has a password, too.
    pub fn credentials<F, E>(self, provider: impl Fn(&str) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: fmt::Display,
    {
        let provider = CredentialsProvider::new(move |server| {
            let asked = provider(server);
            Box::pin(async { asked.await.map_err(|error| error.to_string()) })
        });
        self.asks("credentials", provider)
    }

    /// Reads the password from this file at each dial, for passwords that are rotated: the text of the
    /// file, without the end of its line. The user is that of the URL. Default: none.
    ///
    /// As with [`Builder::credentials`], a file that is gone or empty at a dial changes nothing.
    pub fn password_file(self, path: impl Into<PathBuf>) -> Self {
        self.asks("password_file", secrets::of_file(path.into()))
    }

    /// Runs this command line (`sh -c`) at each dial. It prints the password, or the user in a first
    /// line and the password in a second one, within the connect timeout. It finds the URL of the
    /// server in the environment variable `QUORUMLOCK_SERVER`. Default: none.
    ///
    /// As with [`Builder::credentials`], a command that fails or hangs changes nothing.
    pub fn credentials_command(self, command: impl Into<String>) -> Self {
        self.asks("credentials_command", secrets::of_command(command.into()))
    }

    fn asks(mut self, option: &'static str, provider: CredentialsProvider) -> Self {
        self.settings.credentials = Some(provider);
        self.credentials_from.push(option);
        self
    }

    /// Verifies `rediss://` servers with these CA certificates (PEM). Default: those that the system
    /// trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others), or the Mozilla roots where it has none.
    ///
    /// A text is PEM, and a path is a file, which the locker reads again at each dial. A file that
    /// cannot be used then, because it is half written or gone, changes nothing: the last good one
    /// counts, and a warning names the fault.
    ///
    /// ```
    /// # use std::path::Path;
    /// # use quorumlock::{Locker, Servers};
    /// let builder = Locker::builder(Servers::single("redis://127.0.0.1")).tls_ca(Path::new("/etc/ssl/redis-ca.pem"));
    /// ```
    pub fn tls_ca(mut self, ca: impl Into<Pem>) -> Self {
        self.settings.tls_ca = Some(ca.into());
        self
    }

    /// Presents this client certificate with its private key (PEM) to `rediss://` servers that
    /// require one (`tls-auth-clients yes`). Default: none. The key must not be encrypted. Files are
    /// read again at each dial, as those of [`Builder::tls_ca`].
    pub fn tls_client(mut self, cert: impl Into<Pem>, key: impl Into<Pem>) -> Self {
        self.settings.tls_cert = Some(cert.into());
        self.settings.tls_key = Some(key.into());
        self
    }

    /// The name that the certificates of `rediss://` servers must be for, in place of the host of each
    /// URL. Default: that host. For certificates that all have one name in common, and servers that are
    /// known by their addresses only, as most sentinels tell them.
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.settings.tls_server_name = Some(name.into());
        self
    }

    /// The prefix, if a name can begin with it; empty if there is none.
    pub(crate) fn checked_prefix(&self) -> Result<String, ConfigError> {
        let Some(prefix) = &self.prefix else { return Ok(String::new()) };
        // With the shortest name.
        match Name::new(&format!("{prefix}x")) {
            _ if prefix.is_empty() => Err("it is empty: leave it out".to_owned()),
            Ok(_) => Ok(prefix.clone()),
            Err(error) => Err(error.to_string()),
        }
        .map_err(|why| ConfigError::BadPrefix { prefix: prefix.clone(), why })
    }
}

/// The name of the machine and the number of the process.
pub(crate) fn process_label() -> String {
    let host = gethostname::gethostname().to_string_lossy().into_owned();
    let host: String = host.chars().filter(|c| !c.is_control()).take(64).collect();
    format!("{host}:{}", std::process::id())
}
