use std::fmt;
use std::str::FromStr;

use quorumlock_protocol::without_password;
use quorumlock_redis::split_urls;

use crate::ConfigError;
#[cfg(feature = "testing")]
use crate::testing::MemoryServer;

/// The servers on which a locker takes its locks, and what they are to each other. Making one does no
/// I/O and checks nothing: [`Builder::build`](crate::Builder::build) does.
///
/// ```no_run
/// # fn doc() -> Result<(), quorumlock::Error> {
/// use quorumlock::{Locker, Servers};
///
/// let locker = Locker::new(Servers::quorum(["redis://a", "redis://b", "redis://c"]))?;
/// let locker = Locker::new(Servers::sentinel(["redis://s1", "redis://s2"], "mymaster"))?;
/// let locker = Locker::new("cluster:redis://a:7000,redis://b:7000".parse()?)?;
/// # Ok(()) }
/// ```
///
/// # As text
/// One text names servers in `QUORUMLOCK_NODES` and in configurations ([`FromStr`], [`Display`](fmt::Display)):
/// one URL is a single server, several with commas between them are a quorum, and
/// `redis-sentinel://S1:26379,S2:26379/NAME` is the master NAME of sentinels. `replicated:` before a
/// list says that the servers are a master and its replicas, `cluster:` that they are members of a Redis
/// Cluster. What is displayed has no password.
#[derive(Clone)]
pub struct Servers(pub(crate) Topology);

#[derive(Clone)]
pub(crate) enum Topology {
    /// One server, or a master behind sentinels, by its URL.
    Single(String),
    Replicated(Vec<String>),
    /// The URLs of the sentinels, and the name of the master, or a URL with the name as its host.
    Sentinel(Vec<String>, String),
    Cluster(Vec<String>),
    Quorum(Vec<String>),
    #[cfg(feature = "testing")]
    Memory(MemoryServer),
}

impl Servers {
    /// The server at `url`: `redis://`, `rediss://` or `unix://`. Locks have Redisson's layout.
    ///
    /// At most one guard of a lock is valid at a time while that server keeps its data and its clock; a
    /// failover to a replica may break that. Use [`Servers::quorum`], or check the fencing token. A
    /// replica grants no locks, and the error says so; [`Servers::replicated`] finds the master.
    ///
    /// With [`Admission::Strict`](crate::Admission::Strict) the server proves its memory: after a
    /// restart, a flush or the promotion of another server behind its address it grants no lock for the
    /// longest lease and twice the clock bound, so that no lock has two holders.
    pub fn single(url: impl AsRef<str>) -> Self {
        Self(Topology::Single(url.as_ref().to_owned()))
    }

    /// A master and its replicas: locks are taken on the current master, in Redisson's layout.
    ///
    /// The locker asks all servers for their role while it has no connection to a master: at first,
    /// after a connection broke, when a master has become a replica (`READONLY`), and when too few
    /// replicas acknowledge ([`Builder::replicas`](crate::Builder::replicas)). All waiting requests
    /// share one such search. If several servers say that they are the master, the locker passes by a
    /// server that another one was promoted over (`master_replid2`). Of the servers left it takes the
    /// previous master, else the first in the list, and logs a warning (`tracing`). The locker promotes
    /// no server: that is the task of Sentinel, an orchestrator or an operator.
    ///
    /// **Best effort.** Replication is asynchronous: after a failover two guards of one lock may be
    /// valid at once, and a token may be issued twice, with [`Builder::replicas`](crate::Builder::replicas)
    /// too (docs/SAFETY.md, Replicated master). Use [`Servers::quorum`] where that must not happen.
    pub fn replicated<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Self {
        Self(Topology::Replicated(owned(urls)))
    }

    /// The master that the sentinels at `urls` monitor under the name `master`, in Redisson's layout.
    ///
    /// The sentinels tell where the master and its replicas are; the locker asks all of them, and then
    /// does what [`Servers::replicated`] does with these addresses. It believes the role of a server
    /// from that server alone. When a sentinel tells of a failover (`+switch-master`), the locker looks
    /// for the new master at once, so that it leaves an old one that it still reaches. The port of a
    /// sentinel is 26379 unless its URL has another one.
    ///
    /// A URL of a sentinel has the sentinel's own user, password and TLS. Those of the servers are in
    /// `master`, which is the name, or a URL with the name in place of the host:
    ///
    /// ```
    /// # use quorumlock::Servers;
    /// let sentinels = ["redis://s1", "redis://s2", "redis://s3"];
    /// let servers = Servers::sentinel(sentinels, "mymaster");
    /// let servers = Servers::sentinel(sentinels, "rediss://app:secret@mymaster/2");
    /// // The same as one URL:
    /// let servers = Servers::single("redis-sentinel://s1,s2,s3/mymaster");
    /// ```
    ///
    /// **Best effort**, as [`Servers::replicated`].
    pub fn sentinel<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
        master: impl AsRef<str>,
    ) -> Self {
        Self(Topology::Sentinel(owned(urls), master.as_ref().to_owned()))
    }

    /// The Redis Cluster of which the servers at `urls` are members, in Redisson's layout. One member
    /// that answers is enough to begin: the members tell which of them serves which names.
    ///
    /// The master that serves the slot of a name has the vote on it, as a single server has. The locker
    /// follows slots that move (`MOVED`, `ASK`) and masters that fail over. While the slot of a free name
    /// is on its way to another member, the members grant the name to nobody (`TRYAGAIN`), and a caller
    /// waits; a lock that is held goes on. A name with a brace needs a hash tag, as `{user}:x`
    /// ([`ConfigError::NameInCluster`](crate::ConfigError::NameInCluster)).
    ///
    /// **Best effort**, as [`Servers::replicated`], for each master with its replicas.
    pub fn cluster<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Self {
        Self(Topology::Cluster(owned(urls)))
    }

    /// Independent servers: a majority of them decides, in Redlock's layout.
    ///
    /// Give all clients the same list of 3 or 5 servers that fail independently and have no
    /// replicas. A new server votes once it is admitted (`quorumlock init`, or
    /// [`admit_nodes`](crate::Locker::admit_nodes)), or after the longest lease and twice the clock bound:
    /// see [`Admission`](crate::Admission).
    pub fn quorum<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Self {
        Self(Topology::Quorum(owned(urls)))
    }

    /// A server in this process, for tests. Needs the feature `testing`. The options that such a server
    /// does not have are errors: `replicas`, `durable`, `strict_order`, `takeover_delay`.
    #[cfg(feature = "testing")]
    pub fn memory(server: &MemoryServer) -> Self {
        Self(Topology::Memory(server.clone()))
    }
}

/// For the command `quorumlock`, which also speaks to servers without a locker.
impl Servers {
    #[doc(hidden)]
    pub fn urls(&self) -> &[String] {
        match &self.0 {
            Topology::Single(url) => std::slice::from_ref(url),
            Topology::Replicated(urls)
            | Topology::Sentinel(urls, _)
            | Topology::Cluster(urls)
            | Topology::Quorum(urls) => urls,
            #[cfg(feature = "testing")]
            Topology::Memory(_) => &[],
        }
    }

    #[doc(hidden)]
    pub fn is_replicated(&self) -> bool {
        matches!(self.0, Topology::Replicated(_))
    }

    #[doc(hidden)]
    pub fn is_cluster(&self) -> bool {
        matches!(self.0, Topology::Cluster(_))
    }

    /// All texts that may be URLs of a server or a sentinel.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        let master = match &self.0 {
            Topology::Sentinel(_, master) => Some(&**master),
            _ => None,
        };
        self.urls().iter().map(String::as_str).chain(master)
    }
}

impl FromStr for Servers {
    type Err = ConfigError;

    /// Reads the text that stands for servers.
    ///
    /// # Errors
    /// [`ConfigError::NoNodes`] for no text, [`ConfigError::EmptyUrl`] if a URL of the list is empty:
    /// without it a quorum could turn into a single server.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let text = text.trim();
        let (kind, list) = match text.split_once(':') {
            Some((kind @ ("replicated" | "cluster"), list)) => (kind, list),
            _ => ("", text),
        };
        let urls = match list.is_empty() {
            true => return Err(ConfigError::NoNodes),
            false => split_urls(list),
        };
        if let Some(empty) = urls.iter().position(String::is_empty) {
            return Err(ConfigError::EmptyUrl { at: empty + 1, of: urls.len() });
        }
        Ok(Self(match (kind, &urls[..]) {
            ("replicated", _) => Topology::Replicated(urls),
            ("cluster", _) => Topology::Cluster(urls),
            (_, [url]) => Topology::Single(url.clone()),
            _ => Topology::Quorum(urls),
        }))
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<_> = self.urls().iter().map(|url| without_password(url)).collect();
        let urls = urls.join(",");
        match &self.0 {
            Topology::Single(_) | Topology::Quorum(_) => f.write_str(&urls),
            Topology::Replicated(_) => write!(f, "replicated:{urls}"),
            Topology::Cluster(_) => write!(f, "cluster:{urls}"),
            Topology::Sentinel(_, master) => {
                let hosts: Vec<_> = self.urls().iter().map(|url| host(url)).collect();
                let scheme = if master.starts_with("rediss://") { "rediss" } else { "redis" };
                write!(f, "{scheme}-sentinel://{}/{}", hosts.join(","), host(master))
            }
            #[cfg(feature = "testing")]
            Topology::Memory(_) => f.write_str("memory"),
        }
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Servers({self})")
    }
}

/// What follows the scheme and the login.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    rest.rsplit_once('@').map_or(rest, |(_, host)| host)
}

fn owned<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Vec<String> {
    urls.into_iter().map(|url| url.as_ref().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_says_what_servers_are_to_each_other() {
        for (text, shown) in [
            ("redis://a", "redis://a"),
            (" redis://a , redis://b ", "redis://a,redis://b"),
            ("replicated:redis://a", "replicated:redis://a"),
            ("cluster:redis://a:7000,redis://b:7000", "cluster:redis://a:7000,redis://b:7000"),
        ] {
            let servers: Servers = text.parse().expect(text);
            assert_eq!(servers.to_string(), shown);
            assert_eq!(shown.parse::<Servers>().expect(shown).to_string(), shown);
        }
        let quorum: Servers = "redis://a,redis://b".parse().expect("two");
        assert!(matches!(quorum.0, Topology::Quorum(_)));
        let sentinels: Servers = "redis-sentinel://a,b/m".parse().expect("sentinels");
        assert!(matches!(sentinels.0, Topology::Single(_)), "one URL");
    }

    #[test]
    fn an_empty_url_is_refused() {
        assert_eq!("".parse::<Servers>().expect_err("none"), ConfigError::NoNodes);
        assert_eq!("cluster:".parse::<Servers>().expect_err("none"), ConfigError::NoNodes);
        for text in ["redis://a,,redis://b", "redis://a,", "replicated:,redis://a"] {
            let error = text.parse::<Servers>().expect_err(text);
            assert!(matches!(error, ConfigError::EmptyUrl { .. }), "{error:?}");
        }
    }

    #[test]
    fn nothing_shown_is_a_password() {
        let all = [
            Servers::single("redis://:secret@a"),
            Servers::quorum(["redis://u:secret@a", "redis://:secret@b"]),
            Servers::replicated(["redis://:secret@a"]),
            Servers::cluster(["redis://:secret@a"]),
            Servers::sentinel(["redis://:secret@s"], "rediss://u:secret@m/2"),
            Servers::single("redis-sentinel://:secret@s/m?sentinel_password=secret"),
        ];
        for servers in all {
            assert!(!format!("{servers} {servers:?}").contains("secret"), "{servers}");
        }
        let sentinel = Servers::sentinel(["redis://s1", "redis://s2:1"], "rediss://u:secret@m/2");
        assert_eq!(sentinel.to_string(), "rediss-sentinel://s1,s2:1/m/2");
    }
}
