//! The options that the subcommands share: which nodes, and how to lock on them.

use std::num::ParseIntError;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, fs};

use clap::ValueEnum;
use clap::builder::BoolishValueParser;
use quorumlock::env::{self, parse_duration};
use quorumlock::{Admission, Builder, Error, Locker, Wire};
use quorumlock_command::Failure;
use quorumlock_protocol::admission::members::{CLOCK_BOUND, note_age};
use quorumlock_protocol::{Settings, without_password};
use quorumlock_redis::split_urls;

#[derive(Debug, clap::Args)]
pub(crate) struct Nodes {
    /// A node: redis://, rediss:// or unix://. One is a single node, several are a quorum.
    ///
    /// Repeat the option, or separate URLs by commas. Or one URL of sentinels:
    /// redis-sentinel://HOST:26379,HOST:26379/NAME finds the master NAME and follows its failovers. Put
    /// a password into the environment: every user of the machine can see command lines.
    #[arg(
        long = "node",
        value_name = "URL",
        env = env::NODES,
        hide_env_values = true,
        required = true
    )]
    urls: Vec<NodeUrls>,

    /// The nodes are a master and its replicas, not a quorum; locks are taken on the current
    /// master.
    ///
    /// Best effort: after a failover two clients may hold one lock.
    #[arg(long, env = env::REPLICATED, value_parser = BoolishValueParser::new())]
    pub(crate) replicated: bool,

    /// The nodes are members of one Redis Cluster; a lock is taken on the master of its slot.
    ///
    /// Best effort: after a failover two clients may hold one lock.
    #[arg(long, env = env::CLUSTER, value_parser = BoolishValueParser::new())]
    pub(crate) cluster: bool,

    /// Trust this certificate authority (a PEM file) for rediss://.
    #[arg(long, value_name = "FILE", env = env::TLS_CA)]
    tls_ca: Option<PathBuf>,

    /// Present this certificate (a PEM file) to servers that ask for one; --tls-key is its key.
    #[arg(long, value_name = "FILE", env = env::TLS_CERT, requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key (a PEM file, not encrypted) of --tls-cert.
    #[arg(long, value_name = "FILE", env = env::TLS_KEY, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// URLs separated by commas, or one of sentinels. They may hold passwords.
#[derive(Clone)]
struct NodeUrls(Vec<String>);

impl From<String> for NodeUrls {
    fn from(text: String) -> Self {
        Self(split_urls(&text))
    }
}

impl fmt::Debug for NodeUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|url| without_password(url))).finish()
    }
}

/// The PEM texts for rediss://.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    pub(crate) ca: Option<Vec<u8>>,
    /// A certificate and its key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    pub(crate) fn give_to(&self, mut builder: Builder) -> Builder {
        if let Some(pem) = &self.ca {
            builder = builder.tls_ca(pem);
        }
        if let Some((cert, key)) = &self.client {
            builder = builder.tls_client(cert, key);
        }
        builder
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct LockNodes {
    #[command(flatten)]
    pub(crate) nodes: Nodes,

    /// How locks are stored. All programs that share a lock must agree.
    ///
    /// Without it: redisson on a single node, redlock on a quorum.
    #[arg(long, env = env::WIRE)]
    wire: Option<WireArg>,

    /// Count fencing tokens in the key of Redisson's RFencedLock, so that Java programs and this
    /// one share one order of tokens.
    ///
    /// For one server, in Redisson's layout. All programs that share a lock should agree.
    #[arg(long, env = env::REDISSON_FENCED, value_parser = BoolishValueParser::new())]
    redisson_fenced: bool,

    /// A free lock with waiters goes to the first of them only. For one server. All programs that share
    /// a lock must agree.
    #[arg(long, env = env::STRICT_ORDER, value_parser = BoolishValueParser::new())]
    strict_order: bool,

    /// How long nobody else gets a lock after its holder could last rely on it, unless the holder
    /// unlocked it.
    #[arg(long, value_name = "TIME", env = env::TAKEOVER_DELAY, default_value = "0s", value_parser = parse_duration)]
    takeover_delay: Duration,

    /// How many replicas of a single master must confirm a lock before it counts (WAIT); or "all".
    #[arg(long, value_name = "N", env = env::REPLICAS, default_value = "0")]
    replicas: ReplicasArg,

    /// A lock counts only once it is on the disk of a single master (WAITAOF).
    #[arg(long, env = env::DURABLE, value_parser = BoolishValueParser::new())]
    durable: bool,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// The settings that all programs of one quorum must share. Only given options reach the library,
/// so that it refuses quorum options for a single node.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    /// Which nodes may vote. Default: on a quorum strict, else all. All programs that share a lock must
    /// agree.
    #[arg(long, env = env::ADMISSION)]
    admission: Option<AdmissionArg>,

    /// The longest lease that any lock may have; all programs must agree.
    #[arg(long, value_name = "TIME", env = env::MAX_LEASE, default_value = "60s", value_parser = parse_duration)]
    pub(crate) max_lease: Duration,

    /// How far the clocks of a server and of a program may be apart [default: 5s]; all programs must
    /// agree.
    #[arg(long, value_name = "TIME", env = env::CLOCK_BOUND, value_parser = parse_duration)]
    clock_bound: Option<Duration>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AdmissionArg {
    /// Only nodes whose memory is proven.
    Strict,
    /// All nodes that answer: plain Redlock.
    Redlock,
}

#[derive(Debug, Clone, Copy)]
enum ReplicasArg {
    Exactly(usize),
    All,
}

impl FromStr for ReplicasArg {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        if text == "all" { Ok(Self::All) } else { text.parse().map(Self::Exactly) }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WireArg {
    /// A hash with a hold count, as Redisson's RLock uses.
    Redisson,
    /// A string, as redsync, node-redlock, rslock and redis-py use.
    Redlock,
}

impl Nodes {
    /// The URLs, at least one. An empty entry is refused: dropping it could turn a quorum into a
    /// single node.
    pub(crate) fn urls(&self) -> Result<Vec<&str>, Failure> {
        let urls =
            self.urls.iter().flat_map(|urls| &urls.0).map(String::as_str).collect::<Vec<_>>();
        match urls.iter().position(|url| url.is_empty()) {
            None => Ok(urls),
            Some(_) if urls.len() == 1 => {
                Err(Failure::usage("no node is given: use --node or QUORUMLOCK_NODES"))
            }
            Some(empty) => Err(Failure::usage(format!(
                "node {} of {} is empty in --node or QUORUMLOCK_NODES: a comma too many, or a URL \
                 that is missing",
                empty + 1,
                urls.len(),
            ))),
        }
    }

    /// A locker on these nodes; it does not connect yet.
    pub(crate) fn locker(&self, builder: Builder) -> Result<Result<Locker, Error>, Failure> {
        let urls = self.urls()?;
        if self.replicated && self.cluster {
            return Err(Failure::usage(
                "--replicated and --cluster exclude each other (QUORUMLOCK_REPLICATED, QUORUMLOCK_CLUSTER)",
            ));
        }
        Ok(match urls[..] {
            _ if self.replicated => builder.replicated(urls),
            _ if self.cluster => builder.cluster(urls),
            [url] => builder.single(url),
            _ => builder.quorum(urls),
        })
    }

    /// A locker on nodes under strict admission: those of a quorum, or with `--admission strict` one
    /// server, or a master with its replicas. `timeout` is for connecting, and for each answer.
    pub(crate) fn strict(
        &self,
        cluster: &ClusterArgs,
        timeout: Duration,
    ) -> Result<Locker, Failure> {
        if self.cluster {
            return Err(Failure::usage(
                "the masters of a Redis Cluster need no admission: leave out --cluster \
                 (QUORUMLOCK_CLUSTER) to admit other servers",
            ));
        }
        let independent = if self.replicated { 1 } else { self.urls()?.len() };
        if independent < 2 && !cluster.strict_with(independent) {
            return Err(Failure::usage(
                "one server, or a master with its replicas, needs no admission, unless all programs that \
                 lock use --admission strict (QUORUMLOCK_ADMISSION): give it here, too. For a quorum give \
                 all nodes, each with --node",
            ));
        }
        if !cluster.strict() {
            return Err(Failure::usage("with --admission redlock there is nothing to admit"));
        }
        let builder = cluster.builder().connect_timeout(timeout).answer_timeout(timeout);
        Ok(self.locker(self.tls()?.give_to(builder))??)
    }

    /// The URLs of a quorum under strict admission, and a builder for it.
    pub(crate) fn strict_quorum(
        &self,
        cluster: &ClusterArgs,
    ) -> Result<(Vec<&str>, Builder), Failure> {
        let urls = self.urls()?;
        if urls.len() < 2 || self.replicated || self.cluster {
            return Err(Failure::usage(
                "this is for quorums: give all nodes, each with --node, without --replicated or \
                 --cluster",
            ));
        }
        if !cluster.strict() {
            return Err(Failure::usage("with --admission redlock there is nothing to admit"));
        }
        Ok((urls, self.tls()?.give_to(cluster.builder())))
    }

    /// Reads the PEM files that were given.
    pub(crate) fn tls(&self) -> Result<Tls, Failure> {
        let read = |option: &str, file: &Option<PathBuf>| {
            let Some(file) = file else { return Ok(None) };
            let unreadable =
                |error| Failure::usage(format!("{option} {}: {error}", file.display()));
            fs::read(file).map(Some).map_err(unreadable)
        };
        let ca = read("--tls-ca", &self.tls_ca)?;
        let (cert, key) = (read("--tls-cert", &self.tls_cert)?, read("--tls-key", &self.tls_key)?);
        Ok(Tls { ca, client: cert.zip(key) })
    }
}

impl ClusterArgs {
    pub(crate) fn strict(&self) -> bool {
        !matches!(self.admission, Some(AdmissionArg::Redlock))
    }

    /// Whether so many independent nodes must prove their memory: one only if it is said.
    pub(crate) fn strict_with(&self, nodes: usize) -> bool {
        match self.admission {
            Some(AdmissionArg::Strict) => true,
            Some(AdmissionArg::Redlock) => false,
            None => nodes > 1,
        }
    }

    pub(crate) fn clock_bound(&self) -> Duration {
        self.clock_bound.unwrap_or(CLOCK_BOUND)
    }

    /// How old the note on a node must be before the node is admitted.
    pub(crate) fn note_age(&self) -> Duration {
        note_age(self.max_lease, Settings::default().max_clock_drift, self.clock_bound())
    }

    pub(crate) fn builder(&self) -> Builder {
        let mut builder = Locker::builder()
            .lease(self.max_lease.min(Duration::from_secs(30)))
            .max_lease(self.max_lease);
        if let Some(admission) = self.admission {
            builder = builder.admission(match admission {
                AdmissionArg::Strict => Admission::Strict,
                AdmissionArg::Redlock => Admission::Redlock,
            });
        }
        if let Some(bound) = self.clock_bound {
            builder = builder.clock_bound(bound);
        }
        builder
    }
}

impl LockNodes {
    /// Makes the locker; it does not connect yet.
    pub(crate) fn locker(&self) -> Result<Locker, Failure> {
        let mut builder = self.cluster.builder().durable(self.durable);
        builder = match self.replicas {
            ReplicasArg::Exactly(replicas) => builder.replicas(replicas),
            ReplicasArg::All => builder.all_replicas(),
        };
        if let Some(wire) = self.wire {
            builder = builder.wire(match wire {
                WireArg::Redisson => Wire::Redisson,
                WireArg::Redlock => Wire::Redlock,
            });
        }
        builder = self.nodes.tls()?.give_to(builder).redisson_fenced(self.redisson_fenced);
        builder = builder.strict_order(self.strict_order).takeover_delay(self.takeover_delay);
        Ok(self.nodes.locker(builder)??)
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
