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

/// What all programs must agree on that lock on a quorum.
#[derive(Debug, clap::Args)]
pub(crate) struct CharterArgs {
    /// Which nodes of a quorum may vote. All programs that share a lock must agree.
    #[arg(long, env = "QUORUMLOCK_ADMISSION", default_value = "strict")]
    admission: AdmissionArg,

    /// The longest lease that any lock on a quorum may have; all programs must agree.
    #[arg(long, value_name = "DURATION", env = "QUORUMLOCK_MAX_LEASE", default_value = "60s", value_parser = humantime::parse_duration)]
    pub(crate) max_lease: Duration,

    /// The quorum's name; all programs must agree.
    #[arg(long, env = "QUORUMLOCK_CLUSTER", default_value = "quorumlock")]
    pub(crate) cluster: String,

    /// Raised at each change of membership; all programs must agree.
    #[arg(long, env = "QUORUMLOCK_EPOCH", default_value_t = 1)]
    pub(crate) epoch: u64,
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
    pub(crate) fn urls(&self) -> impl Iterator<Item = &str> {
        self.urls.iter().map(|url| url.trim()).filter(|url| !url.is_empty())
    }

    /// The certificate authority's PEM text, if one was given.
    pub(crate) fn tls_ca(&self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(file) = &self.tls_ca else { return Ok(None) };
        let unreadable = |error| Failure::usage(format!("--tls-ca {}: {error}", file.display()));
        fs::read(file).map(Some).map_err(unreadable)
    }
}

impl CharterArgs {
    pub(crate) fn strict(&self) -> bool {
        matches!(self.admission, AdmissionArg::Strict)
    }

    pub(crate) fn builder(&self) -> Builder {
        Locker::builder()
            .admission(match self.admission {
                AdmissionArg::Strict => Admission::Strict,
                AdmissionArg::Redlock => Admission::Redlock,
            })
            .cluster(&self.cluster, self.epoch)
            .lease(self.max_lease.min(Duration::from_secs(30)))
            .max_lease(self.max_lease)
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
        if let Some(pem) = self.nodes.tls_ca()? {
            builder = builder.tls_ca(pem);
        }
        let urls = self.nodes.urls().collect::<Vec<_>>();
        Ok(match urls[..] {
            [url] => builder.single(url)?,
            _ if self.replicated => builder.replicated(urls)?,
            _ => builder.quorum(urls)?,
        })
    }
}
