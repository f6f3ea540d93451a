//! From a URL to a connection that is ready for scripts, and whose server is known.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::greet::Greeted;
use super::scripts::Scripts;
use super::tls::Tls;
use crate::admission::Charter;
use crate::{ConfigError, Wire};

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

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// May pass: refused, timed out, loading, ...
    Passing(String),
    /// Will not pass by itself.
    Config(ConfigError),
}

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
    /// What somebody should do if this is a replica, after a colon.
    pub(super) advice: &'static str,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passing(what) => f.write_str(what),
            Self::Config(error) => error.fmt(f),
        }
    }
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
            Self::Tcp { host, port } => write!(f, "redis://{host}:{port}"),
            Self::Tls { host, port } => write!(f, "rediss://{host}:{port}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
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
    pub(super) async fn dial(&self) -> Result<Box<dyn Stream>, Trouble> {
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
            Ok(Err(e)) => Err(Trouble::Passing(format!("not connected: {}", describe(&e)))),
            Err(_) => Err(self.timed_out()),
        }
    }

    /// A connection on which the scripts are loaded and whose server is known.
    pub(super) async fn open(&self) -> Result<(Box<dyn Stream>, Greeted), Trouble> {
        let mut stream = self.dial().await?;
        match tokio::time::timeout(self.connect_timeout, self.greet(&mut stream)).await {
            Ok(done) => done.map(|greeted| (stream, greeted)),
            Err(_) => Err(self.timed_out()),
        }
    }

    fn timed_out(&self) -> Trouble {
        Trouble::Passing(format!("not connected within {:?}", self.connect_timeout))
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

fn describe(e: &std::io::Error) -> String {
    match e.kind() {
        std::io::ErrorKind::ConnectionRefused => "connection refused".into(),
        _ => e.to_string(),
    }
}

/// Which server answers at which address, for the nodes of one locker: two addresses of one server
/// would count one memory twice (SAFETY.md A6, H19).
#[derive(Clone, Debug, Default)]
pub(super) struct Roster(Arc<Mutex<Vec<(String, String)>>>);

impl Roster {
    pub(super) fn enter(&self, label: &str, run_id: &str) -> Result<(), Trouble> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if run_id.is_empty() {
            return Ok(());
        }
        if let Some((other, _)) = known.iter().find(|(at, id)| at != label && id == run_id) {
            let (a, b) = (other.clone(), label.to_owned());
            return Err(Trouble::Config(ConfigError::SameServer { a, b }));
        }
        match known.iter_mut().find(|(at, _)| at == label) {
            Some(entry) => run_id.clone_into(&mut entry.1),
            None => known.push((label.to_owned(), run_id.to_owned())),
        }
        Ok(())
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
    fn one_run_id_at_two_addresses_is_a_configuration_error() {
        let roster = Roster::default();
        assert!(roster.enter("redis://a:1", "x").is_ok());
        assert!(roster.enter("redis://a:1", "y").is_ok(), "the same address may restart");
        assert!(roster.enter("redis://b:1", "x").is_ok());
        let clash = roster.enter("redis://b:1", "y");
        assert!(matches!(clash, Err(Trouble::Config(ConfigError::SameServer { .. }))));
    }
}
