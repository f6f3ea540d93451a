//! Which nodes, and how to lock on them: the options that the subcommands share.

use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;
use quorumlock::{Locker, Wire};

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

impl LockNodes {
    /// Connects to nothing yet.
    pub(crate) fn locker(&self) -> Result<Locker, Failure> {
        let mut builder = Locker::builder();
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
            _ => builder.quorum(urls)?,
        })
    }
}
