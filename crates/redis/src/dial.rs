//! Connects to the server at a URL: dials, and registers the run id of the server.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use tokio::net::TcpStream;

use super::network::Network;
use super::permissions;
use super::scripts::{LastBound, Scripts};
use super::stream::Stream;
use super::tls::{Tls, tls_problem};
use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::{ConfigError, NodeProblem, Nonce, Wire, without_password};
use quorumlock_watchdog::Clock;

/// The address of a node, with user, password and database.
#[derive(Debug)]
pub(super) struct NodeAddr {
    label: String,
    member: Arc<str>,
    addr: Addr,
    redis: RedisConnectionInfo,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Addr {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix(PathBuf),
}

/// Everything needed to dial one address of a node.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) target: NodeAddr,
    pub(super) tls: Option<Tls>,
    pub(super) client_name: Option<String>,
    pub(super) connect_timeout: Duration,
    /// The kernel closes the connection after this long without an acknowledgement.
    pub(super) user_timeout: Duration,
    pub(super) run_ids: RunIdRegistry,
    pub(super) wire: Wire,
    /// The cluster config on which the node must agree; `None` without admission.
    pub(super) cluster: Option<Arc<ClusterConfig>>,
    pub(super) clock: Clock,
    pub(super) unbound: Arc<Scripts>,
    pub(super) last_bound: LastBound,
    /// Whether this is one address of a master and its replicas.
    pub(super) replicated: bool,
    /// The id of the locker, and the number of its probes: part of their keys.
    pub(super) waiter: Nonce,
    pub(super) probes: AtomicU64,
    /// The refused commands of which the log tells already.
    pub(super) warned: Mutex<BTreeSet<&'static str>>,
    pub(super) network: Network,
}

impl NodeAddr {
    pub(super) fn parse(url: &str) -> Result<Self, ConfigError> {
        let bad = |why: String| ConfigError::BadUrl { url: without_password(url), why };
        if url.find(['?', '#']).is_some_and(|at| url[at..].contains('@')) {
            let why = "in a user or password, @ is written as %40, ? as %3F, # as %23, / as %2F";
            return Err(bad(why.into()));
        }
        let info: ConnectionInfo = url.into_connection_info().map_err(|e| bad(e.to_string()))?;
        check_parameters(url, info.addr()).map_err(bad)?;
        let addr = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Addr::Tcp { host: host.clone(), port: *port },
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(bad("#insecure is not offered: give the CA to tls_ca".into()));
            }
            ConnectionAddr::TcpTls { host, port, .. } => {
                Addr::Tls { host: host.clone(), port: *port }
            }
            ConnectionAddr::Unix(path) if path.to_string_lossy().contains('@') => {
                return Err(bad("user and password of a socket are ?user=...&pass=...".into()));
            }
            ConnectionAddr::Unix(path) => Addr::Unix(path.clone()),
            other => return Err(bad(format!("{other} cannot be dialled"))),
        };
        let label = addr.to_string();
        let member = member_label(url, &addr, info.redis_settings().db()).map_err(bad)?;
        Ok(Self { label, member, addr, redis: info.redis_settings().clone() })
    }

    /// The address, without user and password.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Its name in lists of members: `host:port/db`, or what the URL gives as `label`.
    pub(super) fn member(&self) -> &Arc<str> {
        &self.member
    }

    pub(super) fn wants_tls(&self) -> bool {
        matches!(self.addr, Addr::Tls { .. })
    }

    /// User, password and database.
    pub(super) fn redis(&self) -> &RedisConnectionInfo {
        &self.redis
    }
}

impl std::fmt::Display for Addr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "redis://{}:{port}", bracketed(host)),
            Self::Tls { host, port } => write!(f, "rediss://{}:{port}", bracketed(host)),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

/// Refuses parameters that have no effect. The error shows no value, which may be a secret.
fn check_parameters(url: &str, addr: &ConnectionAddr) -> Result<(), String> {
    let known: &[_] = match addr {
        ConnectionAddr::Unix(_) => &["label", "protocol", "db", "user", "pass"],
        _ => &["label", "protocol"],
    };
    for pair in query(url).split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !known.contains(&name) {
            let known = known.join(", ");
            return Err(format!("the parameter {name:?} is unknown; the known ones are {known}"));
        }
        if name == "protocol" && !["2", "resp2"].contains(&value) {
            return Err("the parameter \"protocol\" can only be resp2".into());
        }
    }
    Ok(())
}

/// The parameters of a URL, encoded.
fn query(url: &str) -> &str {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    url.split_once('?').map_or("", |(_, query)| query)
}

fn member_label(url: &str, addr: &Addr, db: i64) -> Result<Arc<str>, String> {
    if let Some(label) = query(url).split('&').find_map(|pair| pair.strip_prefix("label=")) {
        let label = percent_decode_str(label).decode_utf8().map_err(|e| e.to_string())?;
        // Lists in records are separated by spaces.
        return match label.is_empty() || label.contains(|c: char| c == ' ' || c.is_control()) {
            true => Err(format!("the label {label:?} is empty, or has a space in it")),
            false => Ok(label.into()),
        };
    }
    Ok(match addr {
        Addr::Tcp { host, port } | Addr::Tls { host, port } => {
            format!("{}:{port}/{db}", bracketed(host)).into()
        }
        Addr::Unix(path) => format!("{}/{db}", path.display()).replace(' ', "%20").into(),
    })
}

/// The host as in a URL: an IPv6 address in brackets, since its colons do not begin the port.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl Dialer {
    /// Opens a byte stream to the server, and sends nothing on it but a TLS handshake.
    pub(super) async fn dial(&self) -> Result<Box<dyn Stream>, NodeProblem> {
        let dialling = async {
            if let Network::Simulated(network) = &self.network {
                return network.open().await;
            }
            Ok(match &self.target.addr {
                Addr::Tcp { host, port } => Box::new(self.tcp(host, *port).await?) as Box<_>,
                Addr::Tls { host, port } => match &self.tls {
                    Some(tls) => tls.wrap(host, self.tcp(host, *port).await?).await?,
                    None => return Err(std::io::Error::other("no TLS was set up")),
                },
                Addr::Unix(path) => {
                    Box::new(tokio::net::UnixStream::connect(path).await?) as Box<dyn Stream>
                }
            })
        };
        match tokio::time::timeout(self.connect_timeout, dialling).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(e)) => Err(problem_of(&e, NodeProblem::NotConnected)),
            Err(_) => Err(self.timed_out()),
        }
    }

    /// Logs that the server refuses a command that locks can do without: once for each command.
    pub(super) fn warn_of(&self, command: &'static str) {
        if self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(command) {
            let (node, lost) =
                (self.target.label(), permissions::lost(command, self.cluster.is_some()));
            tracing::warn!(%node, command, lost, "the server refuses a command");
        }
    }

    pub(super) fn timed_out(&self) -> NodeProblem {
        // A plain-text server waits for the end of a line, and never answers a TLS handshake.
        let hint = match self.target.wants_tls() {
            true => "; if it speaks plain text, its URL begins with redis://",
            false => "",
        };
        NodeProblem::NotConnected(format!("not within {:?}{hint}", self.connect_timeout))
    }

    async fn tcp(&self, host: &str, port: u16) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(10)))?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tcp_user_timeout(Some(self.user_timeout))?;
        Ok(stream)
    }
}

/// The problem behind an error of a stream: a TLS problem, or else `otherwise`.
pub(super) fn problem_of(
    e: &std::io::Error,
    otherwise: impl FnOnce(String) -> NodeProblem,
) -> NodeProblem {
    if let Some(problem) = tls_problem(e) {
        return NodeProblem::Tls(problem);
    }
    otherwise(match e.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".into(),
        _ => e.to_string(),
    })
}

/// The run ids of the servers that the nodes of one locker are connected to, by address: two
/// addresses of one server would count one memory twice (SAFETY.md A6, H19). The address that
/// connects first has the vote, as long as it has a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct RunIdRegistry(Arc<Mutex<Vec<(String, String)>>>);

/// The entry of one connection in the registry, removed when this is dropped.
#[derive(Clone, Debug)]
pub(super) struct Presence(#[expect(dead_code, reason = "dropped with the connection")] Arc<Entry>);

#[derive(Debug)]
struct Entry {
    registry: RunIdRegistry,
    label: String,
    run_id: String,
}

impl RunIdRegistry {
    /// Registers a connection to the server with this run id (empty: the server does not tell one).
    pub(super) fn register(
        &self,
        label: &str,
        run_id: &str,
    ) -> Result<Option<Presence>, NodeProblem> {
        if run_id.is_empty() {
            return Ok(None);
        }
        let mut known = self.entries();
        if let Some((other, _)) = known.iter().find(|(at, id)| at != label && id == run_id) {
            tracing::warn!(node = label, %other, "two addresses are one server: it has one vote");
            return Err(NodeProblem::SameServer(other.clone()));
        }
        let (label, run_id) = (label.to_owned(), run_id.to_owned());
        known.push((label.clone(), run_id.clone()));
        Ok(Some(Presence(Arc::new(Entry { registry: self.clone(), label, run_id }))))
    }

    fn entries(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut known = self.registry.entries();
        let is_this = |(at, id): &(String, String)| *at == self.label && *id == self.run_id;
        if let Some(place) = known.iter().position(is_this) {
            known.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_hide_user_and_password() {
        let target = NodeAddr::parse("redis://me:secret@10.0.0.1:7000/3").unwrap();
        assert_eq!(target.label(), "redis://10.0.0.1:7000");
        assert_eq!(target.redis().db(), 3);
        for url in ["redis://[::1]:7000", "rediss://[2001:db8::7]:7000", "redis://host:7000"] {
            assert_eq!(NodeAddr::parse(url).unwrap().label(), url);
        }
        assert_eq!(
            NodeAddr::parse("unix:///run/redis.sock").unwrap().label(),
            "unix:///run/redis.sock"
        );
    }

    #[test]
    fn bad_urls_are_named_without_their_password() {
        for url in ["", "http://x", "redis://", "redis://u:secret@h:99999", "rediss://h/#insecure"]
        {
            let Err(ConfigError::BadUrl { url: named, .. }) = NodeAddr::parse(url) else {
                panic!("{url:?} was taken");
            };
            assert!(!named.contains("secret"), "{named}");
        }
    }

    #[test]
    fn unknown_parameters_are_refused_and_the_known_ones_are_named() {
        let why = |url: &str| match NodeAddr::parse(url) {
            Err(ConfigError::BadUrl { url, why }) => format!("{url} {why}"),
            parsed => panic!("{url} was taken: {parsed:?}"),
        };
        for url in ["redis://h?timeout=secret", "rediss://u:secret@h?label=a&timeout=5"] {
            let why = why(url);
            assert!(why.contains("\"timeout\"") && why.contains("label, protocol"), "{why}");
            assert!(!why.contains("secret"), "{why}");
        }
        assert!(why("unix:///s?passwd=secret").contains("db, user, pass"));
        assert!(!why("unix:///s?passwd=secret").contains("secret"));
        assert!(why("redis://h?protocol=resp3").contains("resp2"));
        assert!(why("unix://localhost/:secret@/s").contains("?user=...&pass=..."));
        for url in ["redis://h?", "redis://h?protocol=resp2", "unix:///s?db=1&user=u&pass=p"] {
            NodeAddr::parse(url).expect(url);
        }
    }

    proptest::proptest! {
        /// Forgotten and doubled characters, and passwords of any characters.
        #[test]
        fn no_mangled_url_shows_its_password(
            scheme in "(redis|rediss|unix|http|valkey|)", colon in "(://|:/|:|//|/|)",
            user in "[a-z]{0,3}", odd in "[@/?#%:&= ]{0,3}", tail in "(h|h:1|\\[::1\\]:1|h/0|/s|)",
            query in "(|\\?label=a|\\?timeout=1|#insecure)",
        ) {
            let secret = format!("geheim{odd}wort");
            let url = format!("{scheme}{colon}{user}:{secret}@{tail}{query}");
            let shown = match NodeAddr::parse(&url) {
                Ok(addr) => format!("{addr:?} {} {}", addr.label(), addr.member()),
                Err(error) => format!("{error} {error:?}"),
            };
            proptest::prop_assert!(!shown.contains("geheim"), "{} in {}", url, shown);
            proptest::prop_assert!(!shown.contains("wort"), "{} in {}", url, shown);
        }
    }

    #[test]
    fn a_label_is_the_address_and_the_database_or_what_the_url_says() {
        let label = |url: &str| NodeAddr::parse(url).map(|addr| addr.member().to_string());
        for (url, expected) in [
            ("redis://me:secret@a:7000/3", "a:7000/3"),
            ("rediss://a:7000", "a:7000/0"),
            ("redis://[::1]:7000", "[::1]:7000/0"),
            ("redis://a:7000?label=north", "north"),
            ("redis://a:7000?protocol=resp2&label=n%2Forth", "n/orth"),
            ("unix:///run/redis.sock", "/run/redis.sock/0"),
        ] {
            assert_eq!(label(url).as_deref(), Ok(expected), "{url}");
        }
        for url in ["redis://a:7000?label=", "redis://a:7000?label=a%20b"] {
            assert!(matches!(label(url), Err(ConfigError::BadUrl { .. })), "{url}");
        }
    }

    #[test]
    fn one_run_id_at_two_addresses_gives_one_vote() {
        let roster = RunIdRegistry::default();
        let enter = |label: &str, run_id: &str| roster.register(label, run_id);
        let first = enter("redis://a:1", "x").unwrap();
        let restarted = enter("redis://a:1", "y").expect("the same address may restart");
        let twin = enter("redis://b:1", "y").map(|_| ());
        assert_eq!(twin, Err(NodeProblem::SameServer("redis://a:1".into())));
        enter("redis://b:1", "x").expect_err("an old connection leads there");
        drop(first);
        enter("redis://b:1", "x").expect("nobody is there any more");
        drop(restarted);
        enter("redis://b:1", "y").expect("nobody is there any more");
    }
}
