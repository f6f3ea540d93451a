//! From a URL to a connection that is ready for scripts, and whose server is known.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::greet::Greeted;
use super::scripts::Scripts;
use super::tls::{Tls, tls_problem};
use crate::admission::Charter;
use crate::{ConfigError, NodeProblem, Wire};

/// Where a node is and how to enter.
#[derive(Debug)]
pub(super) struct Target {
    label: String,
    addr: Addr,
    redis: RedisConnectionInfo,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Addr {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix(PathBuf),
}

/// Any byte stream to a server.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// How to dial.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) target: Target,
    pub(super) tls: Option<Tls>,
    pub(super) client_name: Option<String>,
    pub(super) connect_timeout: Duration,
    /// After so long without an acknowledgement the kernel gives the connection up.
    pub(super) user_timeout: Duration,
    pub(super) roster: Roster,
    pub(super) wire: Wire,
    /// With admission: what the node must agree on.
    pub(super) charter: Option<Arc<Charter>>,
    pub(super) unbound: Arc<Scripts>,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, ConfigError> {
        let bad = |why: String| ConfigError::BadUrl { url: without_password(url), why };
        let info: ConnectionInfo = url.into_connection_info().map_err(|e| bad(e.to_string()))?;
        let addr = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Addr::Tcp { host: host.clone(), port: *port },
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(bad("#insecure is not offered: give the CA to tls_ca".into()));
            }
            ConnectionAddr::TcpTls { host, port, .. } => {
                Addr::Tls { host: host.clone(), port: *port }
            }
            ConnectionAddr::Unix(path) => Addr::Unix(path.clone()),
            other => return Err(bad(format!("{other} cannot be dialled"))),
        };
        let label = addr.to_string();
        Ok(Self { label, addr, redis: info.redis_settings().clone() })
    }

    /// The address, without user and password.
    pub(super) fn label(&self) -> &str {
        &self.label
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

/// As in a URL: the colons of an IPv6 address are not that of the port.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}://***{}", &url[..scheme], &url[at..])
        }
        _ => url.to_owned(),
    }
}

impl Dialer {
    /// A byte stream to the server, nothing said on it yet.
    pub(super) async fn dial(&self) -> Result<Box<dyn Stream>, NodeProblem> {
        let dialling = async {
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

    /// A connection on which the scripts are loaded and whose server is known.
    pub(super) async fn open(&self) -> Result<(Box<dyn Stream>, Greeted), NodeProblem> {
        let opening = async {
            match self.attempt().await {
                // A healthy server may cut a connection that it has just taken (`CLIENT KILL`).
                Err(NodeProblem::Broken(_)) => self.attempt().await,
                done => done,
            }
        };
        match tokio::time::timeout(self.connect_timeout, opening).await {
            Ok(done) => done,
            Err(_) => Err(self.timed_out()),
        }
    }

    async fn attempt(&self) -> Result<(Box<dyn Stream>, Greeted), NodeProblem> {
        let mut stream = self.dial().await?;
        let greeted = self.greet(&mut stream).await?;
        Ok((stream, greeted))
    }

    fn timed_out(&self) -> NodeProblem {
        // A server that waits for the end of a line says nothing to a TLS greeting.
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

/// What an error of a stream says: of TLS, or `otherwise`.
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

/// Which server answers at which address now, for the nodes of one locker: two addresses of one server
/// would count one memory twice (SAFETY.md A6, H19). Of two such addresses the one that connects first
/// has the vote, as long as it has a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster(Arc<Mutex<Vec<(String, String)>>>);

/// One connection in the roster, until it is dropped.
#[derive(Clone, Debug)]
pub(super) struct Presence(#[expect(dead_code, reason = "dropped with the connection")] Arc<Entry>);

#[derive(Debug)]
struct Entry {
    roster: Roster,
    label: String,
    run_id: String,
}

impl Roster {
    pub(super) fn enter(&self, label: &str, run_id: &str) -> Result<Option<Presence>, NodeProblem> {
        if run_id.is_empty() {
            return Ok(None);
        }
        let mut known = self.known();
        if let Some((other, _)) = known.iter().find(|(at, id)| at != label && id == run_id) {
            tracing::warn!(node = label, %other, "two addresses are one server: it has one vote");
            return Err(NodeProblem::SameServer(other.clone()));
        }
        let (label, run_id) = (label.to_owned(), run_id.to_owned());
        known.push((label.clone(), run_id.clone()));
        Ok(Some(Presence(Arc::new(Entry { roster: self.clone(), label, run_id }))))
    }

    fn known(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut known = self.roster.known();
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
        let target = Target::parse("redis://me:secret@10.0.0.1:7000/3").unwrap();
        assert_eq!(target.label(), "redis://10.0.0.1:7000");
        assert_eq!(target.redis().db(), 3);
        for url in ["redis://[::1]:7000", "rediss://[2001:db8::7]:7000", "redis://host:7000"] {
            assert_eq!(Target::parse(url).unwrap().label(), url);
        }
        assert_eq!(
            Target::parse("unix:///run/redis.sock").unwrap().label(),
            "unix:///run/redis.sock"
        );
    }

    #[test]
    fn bad_urls_are_named_without_their_password() {
        for url in ["", "http://x", "redis://", "redis://u:secret@h:99999", "rediss://h/#insecure"]
        {
            let Err(ConfigError::BadUrl { url: named, .. }) = Target::parse(url) else {
                panic!("{url:?} was taken");
            };
            assert!(!named.contains("secret"), "{named}");
        }
    }

    #[test]
    fn one_run_id_at_two_addresses_gives_one_vote() {
        let roster = Roster::default();
        let enter = |label: &str, run_id: &str| roster.enter(label, run_id);
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
