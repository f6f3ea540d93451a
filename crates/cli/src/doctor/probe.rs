//! Asks one node. What a node refuses to tell (by its ACL) stays unknown and is no error.

use std::time::Duration;

use quorumlock_command::Failure;
use quorumlock_protocol::{CredentialsProvider, Instant, Pem, Settings};
use quorumlock_watchdog::Clock;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, RedisError, RedisResult,
    TlsCertificates, cmd,
};

use super::capabilities::Capabilities;
use super::facts::{Answer, Facts, Info, NodeFacts, RoundTrips};
use super::permissions;
use crate::trial::Trial;

#[derive(Debug)]
pub(crate) struct Probe {
    client: Client,
    node: String,
    /// The PEM texts for rediss://.
    tls: TlsCertificates,
    credentials: Option<CredentialsProvider>,
    timeout: Duration,
    /// How long a lock waits for an answer.
    answer_timeout: Duration,
}

impl Probe {
    pub(crate) fn new(url: &str, settings: &Settings, timeout: Duration) -> Result<Self, Failure> {
        // The redis crate panics at the first rediss:// without a crypto provider. An error means
        // that one is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let root_cert = read(&settings.tls_ca)?;
        let client_tls = read(&settings.tls_cert)?
            .zip(read(&settings.tls_key)?)
            .map(|(client_cert, client_key)| redis::ClientTlsConfig { client_cert, client_key });
        let tls = TlsCertificates { client_tls, root_cert };
        let client = open(url, &tls);
        // The error leaves out the URL, which may hold a password.
        let client =
            client.map_err(|error| Failure::usage(format!("a --node is wrong: {error}")))?;
        let node = client.get_connection_info().addr().to_string();
        let (credentials, answer_timeout) = (settings.credentials.clone(), settings.answer_timeout);
        Ok(Self { client, node, tls, credentials, timeout, answer_timeout })
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

    /// The result of a question to the node. `None`: no answer within the timeout.
    pub(crate) async fn within<T>(&self, question: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(self.timeout, question).await.ok()
    }

    /// Tries the lock of a reserved name, on a connection of its own. `None`: no answer.
    pub(crate) async fn trial(&self) -> Option<Trial> {
        let clock = Clock::system();
        let tried = async { self.try_lock(&mut self.connect().await?, &clock).await };
        self.within(tried).await?.ok()
    }

    /// Tries the lock of a reserved name. The caller limits the time.
    pub(crate) async fn try_lock(
        &self,
        node: &mut MultiplexedConnection,
        clock: &Clock,
    ) -> RedisResult<Trial> {
        Trial::of(node, clock, self.answer_timeout).await
    }

    /// A connection to the node. The caller limits the time.
    pub(crate) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let client = self.client().await?;
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// With the present user and password.
    async fn client(&self) -> RedisResult<Client> {
        let Some(provider) = &self.credentials else { return Ok(self.client.clone()) };
        let failed = |why| (redis::ErrorKind::AuthenticationFailed, "no credentials", why);
        let given = provider.provide(&format!("redis://{}", self.node)).await.map_err(failed)?;
        let info = self.client.get_connection_info();
        let given = given.or_user(info.redis_settings().username());
        let (user, password) = given.parts();
        let mut settings = info.redis_settings().clone().set_password(password);
        if let Some(user) = user {
            settings = settings.set_username(user);
        }
        open(info.clone().set_redis_settings(settings), &self.tls)
    }

    async fn ask(&self, clock: &Clock, start: Instant) -> RedisResult<Facts> {
        let mut node = self.connect().await?;
        let Overview { round_trips, clock: ahead, text } =
            overview(&mut node, clock, start).await?;
        let lock = self.try_lock(&mut node, clock).await?;
        // A server outside a Redis Cluster answers with an error.
        let cluster = cmd("CLUSTER").arg("INFO").query_async::<String>(&mut node).await;
        let cluster = answered(cluster)?.unwrap_or_default();
        let commands = cmd("INFO").arg("commandstats").query_async::<String>(&mut node).await;
        let commands = answered(commands)?.unwrap_or_default();
        let mut info = Info::parse(&format!("{text}\n{cluster}\n{commands}"));
        info.appendfsync = setting(&mut node, "appendfsync").await?;
        info.save = setting(&mut node, "save").await?;
        let ttl = setting(&mut node, "repl-backlog-ttl").await?;
        info.repl_backlog_ttl = ttl.and_then(|seconds| seconds.parse().ok());
        let mut list = cmd("HGET");
        list.arg("quorumlock:node").arg("list");
        info.members = answered(list.query_async::<Option<String>>(&mut node).await)?.flatten();
        let missing_rights = permissions::missing(&self.client().await?, &mut node).await?;
        let capabilities = Capabilities::of(&mut node, &missing_rights).await?;
        Ok(Facts { round_trips, clock: ahead, info, missing_rights, capabilities, lock })
    }
}

fn open(info: impl IntoConnectionInfo, tls: &TlsCertificates) -> RedisResult<Client> {
    let info = info.into_connection_info()?;
    match info.addr() {
        ConnectionAddr::TcpTls { .. } => Client::build_with_tls(info, tls.clone()),
        _ => Client::open(info),
    }
}

fn read(pem: &Option<Pem>) -> Result<Option<Vec<u8>>, Failure> {
    match pem {
        None => Ok(None),
        Some(Pem::Text(text)) => Ok(Some(text.clone())),
        Some(Pem::File(path)) => std::fs::read(path)
            .map(Some)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display()))),
    }
}

/// What a node tells at little cost.
#[derive(Debug)]
pub(crate) struct Overview {
    pub(crate) round_trips: RoundTrips,
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
    let (round_trips, clock) = read_clock(node, clock, start).await?;
    let text = answered(cmd("INFO").query_async::<String>(node).await)?;
    Ok(Overview { round_trips, clock, text: text.unwrap_or_default() })
}

/// Some round trips, and by how much the node's clock was ahead of ours in the shortest.
async fn read_clock(
    node: &mut MultiplexedConnection,
    clock: &Clock,
    start: Instant,
) -> RedisResult<(RoundTrips, Option<i64>)> {
    /// Any single round trip may be delayed; the shortest of a few is close to the truth.
    const SAMPLES: usize = 5;

    let (mut best, mut ahead) = (Duration::MAX, None);
    let mut all = [Duration::ZERO; SAMPLES];
    for sample in &mut all {
        let sent = clock.now();
        let time = answered(cmd("TIME").query_async::<(i64, i64)>(node).await)?;
        let round_trip = clock.now().since(sent);
        *sample = round_trip;
        if round_trip < best {
            let middle = micros(sent.since(start) + round_trip / 2);
            (best, ahead) =
                (round_trip, time.map(|(secs, micros)| secs * 1_000_000 + micros - middle));
        }
    }
    all.sort_unstable();
    let (median, worst) = (all[SAMPLES / 2], all[SAMPLES - 1]);
    Ok((RoundTrips { best, median, worst }, ahead))
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
