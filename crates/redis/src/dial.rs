//! Connects to the server at a URL: dials, and registers the run id of the server.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::happy_eyeballs::{self, AddressMemory};
use super::network::Network;
use super::node_addr::{Addr, NodeAddr};
use super::permissions;
use super::progress::{Progress, Step};
use super::scripts::{LastBound, Scripts};
use super::stream::Stream;
use super::tls::{Tls, tls_problem};
use quorumlock_protocol::admission::{ClusterConfig, SeenIds};
use quorumlock_protocol::{Credentials, CredentialsProvider, Layout, NodeProblem, Nonce};
use quorumlock_watchdog::Clock;

/// Dials one address of a node.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) target: NodeAddr,
    pub(super) options: Arc<DialOptions>,
}

/// What the addresses of one node have in common.
#[derive(Debug)]
pub(super) struct DialOptions {
    pub(super) credentials: Option<CredentialsProvider>,
    pub(super) last_credentials: Mutex<LastCredentials>,
    /// Set if a server is to speak TLS.
    pub(super) tls: Option<Tls>,
    /// The name of the connections.
    pub(super) client_name: Option<String>,
    /// Whether the locker only observes (`Settings::observes`).
    pub(super) observes: bool,
    pub(super) connect_timeout: Duration,
    /// The kernel closes the connection after this long without an acknowledgement. Only Linux has it.
    #[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
    pub(super) user_timeout: Duration,
    /// `None` for a master and its replicas: two addresses may lead to the same server, which is no
    /// mistake.
    pub(super) run_ids: Option<RunIdRegistry>,
    /// Whether the servers are members of one Redis Cluster.
    pub(super) redis_cluster: bool,
    /// Whether the number of the server's replicas must be known.
    pub(super) all_replicas: bool,
    pub(super) layout: Layout,
    /// The cluster config on which the node must agree; `None` without admission.
    pub(super) cluster: Option<Arc<ClusterConfig>>,
    /// Set if the node is the whole lessor: whether a free name goes to the first of its waiters.
    pub(super) one_node: Option<bool>,
    pub(super) clock: Clock,
    pub(super) unbound: Arc<Scripts>,
    pub(super) last_bound: LastBound,
    /// What this locker has read in the record of each run of the servers, the last ones.
    pub(super) seen_ids: Mutex<Vec<(String, SeenIds<String>)>>,
    /// The id of the locker, and the number of its probes: part of their keys.
    pub(super) waiter: Nonce,
    pub(super) probes: AtomicU64,
    /// The refused commands of which the log tells already.
    pub(super) warned: Mutex<BTreeSet<&'static str>>,
    pub(super) network: Network,
    pub(super) address_memory: AddressMemory,
}

/// What the provider of credentials last gave.
#[derive(Debug, Default)]
pub(super) struct LastCredentials {
    given: Option<Credentials>,
    /// The fault of what it said after that, of which the log tells.
    fault: Option<String>,
}

impl LastCredentials {
    /// What is given now, or else what was given last.
    fn or(&mut self, given: Result<Credentials, String>) -> Result<Credentials, String> {
        match (given, &self.given) {
            (Ok(given), _) => {
                *self = Self { given: Some(given.clone()), fault: None };
                Ok(given)
            }
            (Err(fault), None) => Err(fault),
            (Err(fault), Some(last)) => {
                let last = last.clone();
                if self.fault.as_ref() != Some(&fault) {
                    tracing::warn!(%fault, "no new credentials: the last ones are used");
                    self.fault = Some(fault);
                }
                Ok(last)
            }
        }
    }
}

impl Dialer {
    /// The same server's user, password, database and TLS at another address.
    pub(super) fn at(&self, host: &str, port: u16) -> Self {
        Self { target: self.target.at(host, port), options: self.options.clone() }
    }

    /// The present user and password: those of the provider, or else those of the URL, if it has any.
    pub(super) async fn credentials(&self) -> Result<Option<Credentials>, NodeProblem> {
        let Some(provider) = &self.options.credentials else {
            return Ok(self.target.credentials());
        };
        let asked = provider.provide(self.target.label());
        let limit = self.options.connect_timeout;
        let given = match tokio::time::timeout(limit, asked).await {
            Ok(given) => given,
            Err(_) => Err(format!("not within {limit:?}")),
        };
        let given = given.and_then(|given| given.fault().map_or(Ok(given), Err));
        let mut last = self.options.last_credentials.lock().unwrap_or_else(PoisonError::into_inner);
        match last.or(given) {
            Ok(given) => Ok(Some(given.or_user(self.target.redis().username()))),
            Err(fault) => Err(NodeProblem::Authentication(format!("no credentials: {fault}"))),
        }
    }

    /// How far an attempt to connect has come that begins now.
    pub(super) fn progress(&self) -> Progress {
        Progress::new(&self.options.clock, self.options.connect_timeout)
    }

    /// Opens a byte stream to the server, and sends nothing on it but a TLS handshake.
    pub(super) async fn dial(
        &self,
        progress: &mut Progress,
    ) -> Result<Box<dyn Stream>, NodeProblem> {
        if let Network::Simulated(network) = &self.options.network {
            return progress.step(Step::Connect, network.open()).await?.map_err(not_connected);
        }
        match &self.target.addr {
            Addr::Tcp { host, port } => Ok(Box::new(self.tcp(host, *port, progress).await?)),
            Addr::Tls { host, port } => {
                let Some(tls) = &self.options.tls else {
                    return Err(NodeProblem::NotConnected("no TLS was set up".into()));
                };
                let stream = self.tcp(host, *port, progress).await?;
                progress.step(Step::Tls, tls.wrap(host, stream)).await?.map_err(not_connected)
            }
            #[cfg(unix)]
            Addr::Unix(path) => {
                let connecting = tokio::net::UnixStream::connect(path);
                let stream = progress.step(Step::Connect, connecting).await?;
                Ok(Box::new(stream.map_err(not_connected)?))
            }
            #[cfg(not(unix))]
            Addr::Unix(_) => {
                let why = "unix:// needs a Unix system; use redis://";
                Err(NodeProblem::NotConnected(why.into()))
            }
        }
    }

    /// Logs that the server refuses a command that locks can do without: once for each command.
    pub(super) fn warn_of(&self, command: &'static str) {
        if self.options.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(command) {
            let (node, lost) =
                (self.target.label(), permissions::lost(command, self.options.cluster.is_some()));
            tracing::warn!(%node, command, lost, "the server refuses a command");
        }
    }

    async fn tcp(
        &self,
        host: &str,
        port: u16,
        progress: &mut Progress,
    ) -> Result<TcpStream, NodeProblem> {
        let (memory, name) = (&self.options.address_memory, self.target.label());
        let resolving = tokio::net::lookup_host((host, port));
        let resolved = progress.step(Step::Name, resolving).await?.map_err(not_connected)?;
        let addresses = memory.in_order(name, resolved.collect());
        let pause = happy_eyeballs::pause(addresses.len(), self.options.connect_timeout);
        let connecting = async {
            let stream = happy_eyeballs::connect(&addresses, pause).await?;
            if addresses.len() > 1 {
                memory.connected(name, stream.peer_addr()?);
            }
            self.set_up(&stream)?;
            Ok(stream)
        };
        progress.step(Step::Connect, connecting).await?.map_err(not_connected)
    }

    fn set_up(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let socket = SockRef::from(stream);
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(10)))?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tcp_user_timeout(Some(self.options.user_timeout))?;
        Ok(())
    }
}

fn not_connected(e: std::io::Error) -> NodeProblem {
    problem_of(&e, NodeProblem::NotConnected)
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
    fn one_run_id_at_two_addresses_gives_one_vote() {
        let registry = RunIdRegistry::default();
        let enter = |label: &str, run_id: &str| registry.register(label, run_id);
        let first = enter("redis://a:1", "x").unwrap();
        let restarted = enter("redis://a:1", "y").expect("the same address may restart");
        let again = enter("redis://b:1", "y").map(|_| ());
        assert_eq!(again, Err(NodeProblem::SameServer("redis://a:1".into())));
        enter("redis://b:1", "x").expect_err("an old connection leads there");
        drop(first);
        enter("redis://b:1", "x").expect("nobody is there any more");
        drop(restarted);
        enter("redis://b:1", "y").expect("nobody is there any more");
    }
}
