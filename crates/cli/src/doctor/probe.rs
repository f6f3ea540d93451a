//! Asks one node. What a node refuses to tell (by its ACL) stays unknown and is no error.

use std::time::Duration;

use quorumlock_command::Failure;
use quorumlock_protocol::Instant;
use quorumlock_watchdog::Clock;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult, TlsCertificates, cmd};

use super::capabilities::Capabilities;
use super::facts::{Answer, Facts, Info, NodeFacts};
use super::permissions;
use crate::nodes::Tls;

#[derive(Debug)]
pub(crate) struct Probe {
    client: Client,
    node: String,
    timeout: Duration,
}

impl Probe {
    pub(crate) fn new(url: &str, tls: &Tls, timeout: Duration) -> Result<Self, Failure> {
        // The redis crate panics at the first rediss:// without a crypto provider. An error means
        // that one is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = match tls {
            Tls { ca: None, client: None } => Client::open(url),
            Tls { ca, client } => {
                let client_tls = client.clone().map(|(client_cert, client_key)| {
                    redis::ClientTlsConfig { client_cert, client_key }
                });
                Client::build_with_tls(url, TlsCertificates { client_tls, root_cert: ca.clone() })
            }
        };
        // The error leaves out the URL, which may hold a password.
        let client =
            client.map_err(|error| Failure::usage(format!("a --node is wrong: {error}")))?;
        let node = client.get_connection_info().addr().to_string();
        Ok(Self { client, node, timeout })
    }

    /// Never fails and ends within the timeout. `start` is the same for all nodes.
    pub(super) async fn examine(&self, clock: &Clock, start: Instant) -> NodeFacts {
        let answer = match tokio::time::timeout(self.timeout, self.ask(clock, start)).await {
            Ok(Ok(facts)) => Answer::Given(Box::new(facts)),
            Ok(Err(error)) => Answer::Silent { error: error.to_string() },
            Err(_) => Answer::Silent { error: format!("no answer within {:?}", self.timeout) },
        };
        NodeFacts { node: self.node.clone(), answer }
    }

    /// Its address, without password.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// A connection to the node. The caller limits the time.
    pub(crate) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    async fn ask(&self, clock: &Clock, start: Instant) -> RedisResult<Facts> {
        let mut node = self.connect().await?;
        let Overview { round_trip, clock, text } = overview(&mut node, clock, start).await?;
        // A server outside a Redis Cluster answers with an error.
        let cluster = cmd("CLUSTER").arg("INFO").query_async::<String>(&mut node).await;
        let cluster = answered(cluster)?.unwrap_or_default();
        let mut info = Info::parse(&format!("{}\n{cluster}", text));
        info.appendfsync = setting(&mut node, "appendfsync").await?;
        info.save = setting(&mut node, "save").await?;
        let ttl = setting(&mut node, "repl-backlog-ttl").await?;
        info.repl_backlog_ttl = ttl.and_then(|seconds| seconds.parse().ok());
        let missing_rights = permissions::missing(&self.client, &mut node).await?;
        let capabilities = Capabilities::of(&mut node, &missing_rights).await?;
        Ok(Facts { round_trip, clock, info, missing_rights, capabilities })
    }
}

/// What a node tells at little cost.
#[derive(Debug)]
pub(crate) struct Overview {
    pub(crate) round_trip: Duration,
    /// As [`Facts::clock`].
    pub(crate) clock: Option<i64>,
    /// The answer to `INFO`; empty if the node refuses it.
    pub(crate) text: String,
}

/// Asks for the time and `INFO`. `start` is the same for all nodes.
pub(crate) async fn overview(
    node: &mut MultiplexedConnection,
    clock: &Clock,
    start: Instant,
) -> RedisResult<Overview> {
    let (round_trip, clock) = read_clock(node, clock, start).await?;
    let text = answered(cmd("INFO").query_async::<String>(node).await)?;
    Ok(Overview { round_trip, clock, text: text.unwrap_or_default() })
}

/// The shortest of some round trips, and by how much the node's clock was ahead of ours in it.
async fn read_clock(
    node: &mut MultiplexedConnection,
    clock: &Clock,
    start: Instant,
) -> RedisResult<(Duration, Option<i64>)> {
    /// Any single round trip may be delayed; the shortest of a few is close to the truth.
    const SAMPLES: usize = 5;

    let mut best = (Duration::MAX, None);
    for _ in 0..SAMPLES {
        let sent = clock.now();
        let time = answered(cmd("TIME").query_async::<(i64, i64)>(node).await)?;
        let round_trip = clock.now().since(sent);
        if round_trip < best.0 {
            let middle = micros(sent.since(start) + round_trip / 2);
            best = (round_trip, time.map(|(secs, micros)| secs * 1_000_000 + micros - middle));
        }
    }
    Ok(best)
}

async fn setting(node: &mut MultiplexedConnection, name: &str) -> RedisResult<Option<String>> {
    let pair = cmd("CONFIG").arg("GET").arg(name).query_async::<Vec<String>>(node).await;
    Ok(answered(pair)?.and_then(|pair| pair.into_iter().nth(1)))
}

/// `None` if the server answers with a refusal.
pub(crate) fn answered<T>(answer: RedisResult<T>) -> Result<Option<T>, RedisError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_io_error() => Err(error),
        Err(_) => Ok(None),
    }
}

fn micros(time: Duration) -> i64 {
    time.as_micros().try_into().unwrap_or(i64::MAX)
}
