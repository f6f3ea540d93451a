//! Which nodes, and how to lock on them: the options that the subcommands share.

use std::fs;
use std::path::PathBuf;

use std::time::Duration;

use clap::ValueEnum;
use quorumlock::{Admission, Builder, Locker, Wire};

use crate::exit::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Nodes {
    /// A node: redis://, rediss:// or unix://. One is a single node, several are a quorum.
    ///
    /// Repeat it, or separate URLs by commas. A password is safer in the environment, since
    /// everybody on the machine can see command lines.
    #[arg(
        long = "node",
        value_name = "URL",
        env = "QUORUMLOCK_NODES",
        hide_env_values = true,
        value_delimiter = ',',
        required = true
    )]
    urls: Vec<String>,

    /// Trust this certificate authority (a PEM file) for rediss://.
    #[arg(long, value_name = "FILE", env = "QUORUMLOCK_TLS_CA")]
    tls_ca: Option<PathBuf>,

    /// Show this certificate (a PEM file) to servers that want one; --tls-key has its key.
    #[arg(long, value_name = "FILE", env = "QUORUMLOCK_TLS_CERT", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key (a PEM file, not encrypted) of --tls-cert.
    #[arg(long, value_name = "FILE", env = "QUORUMLOCK_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// PEM texts for rediss://.
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
    nodes: Nodes,

    /// How locks are stored. All programs that share a lock must agree.
    ///
    /// Without it: redisson on a single node, redlock on a quorum.
    #[arg(long)]
    wire: Option<WireArg>,

    /// The nodes are a master and its replicas, not a quorum: whichever is the master is locked on.
    ///
    /// Best effort: after a failover two may hold one lock.
    #[arg(long, env = "QUORUMLOCK_REPLICATED")]
    replicated: bool,

    /// So many replicas of a single master must have a lock before it counts (WAIT).
    #[arg(long, value_name = "N", env = "QUORUMLOCK_REPLICAS", default_value_t = 0)]
    replicas: usize,

    #[command(flatten)]
    charter: CharterArgs,
}

/// What all programs must agree on that lock on a quorum. Only what is given is handed on, so that
/// the library refuses what is for a quorum only.
#[derive(Debug, clap::Args)]
pub(crate) struct CharterArgs {
    /// Which nodes of a quorum may vote [default: strict]. All programs that share a lock must
    /// agree.
    #[arg(long, env = "QUORUMLOCK_ADMISSION")]
    admission: Option<AdmissionArg>,

    /// The longest lease that any lock may have; all programs must agree.
    #[arg(long, value_name = "DURATION", env = "QUORUMLOCK_MAX_LEASE", default_value = "60s", value_parser = humantime::parse_duration)]
    pub(crate) max_lease: Duration,

    /// The quorum's name [default: quorumlock]; all programs must agree.
    #[arg(long, env = "QUORUMLOCK_CLUSTER")]
    cluster: Option<String>,

    /// Raised at each change of membership [default: 1]; all programs must agree.
    #[arg(long, env = "QUORUMLOCK_EPOCH")]
    epoch: Option<u64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AdmissionArg {
    /// Those whose memory is proven.
    Strict,
    /// All that answer: plain Redlock.
    Redlock,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WireArg {
    /// A hash with a hold count, as Redisson's RLock.
    Redisson,
    /// A string, as redsync, node-redlock, rslock and redis-py.
    Redlock,
}

impl Nodes {
    /// At least one. An empty entry is refused: without it a quorum could become a single node.
    pub(crate) fn urls(&self) -> Result<Vec<&str>, Failure> {
        let urls = self.urls.iter().map(|url| url.trim()).collect::<Vec<_>>();
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

    /// The texts of the files that were given.
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

impl CharterArgs {
    pub(crate) fn strict(&self) -> bool {
        !matches!(self.admission, Some(AdmissionArg::Redlock))
    }

    /// The quorum's name and epoch.
    pub(crate) fn cluster(&self) -> (&str, u64) {
        (self.cluster.as_deref().unwrap_or("quorumlock"), self.epoch.unwrap_or(1))
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
        if self.cluster.is_some() || self.epoch.is_some() {
            let (name, epoch) = self.cluster();
            builder = builder.cluster(name, epoch);
        }
        builder
    }
}

impl LockNodes {
    /// Connects to nothing yet.
    pub(crate) fn locker(&self) -> Result<Locker, Failure> {
        // A command is told to end well before its lease does: it needs a whole one from the start.
        let mut builder = self.charter.builder().replicas(self.replicas).handover(false);
        if let Some(wire) = self.wire {
            builder = builder.wire(match wire {
                WireArg::Redisson => Wire::Redisson,
                WireArg::Redlock => Wire::Redlock,
            });
        }
        builder = self.nodes.tls()?.give_to(builder);
        let urls = self.nodes.urls()?;
        Ok(match urls[..] {
            [url] => builder.single(url)?,
            _ if self.replicated => builder.replicated(urls)?,
            _ => builder.quorum(urls)?,
        })
    }
}
