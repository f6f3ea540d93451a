//! A master with replicas behind real sentinels: which addresses the locker takes, and what it does
//! when they fail over (`docs/PROTOCOL.md`, REP5).

mod containers;
mod failover;
mod heard;
mod logins;
mod refusals;

use std::collections::HashMap;
use std::time::Duration;

use quorumlock::{Builder, Locker};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, builder, eventually};

/// The name of the master.
const MASTER: &str = "my_Master-1";
/// The lock that all clients want.
const NAME: &str = "x";
const SENTINELS: usize = 3;
/// How long a server is silent before a sentinel takes it for dead.
const DOWN_AFTER: &str = "2000";
/// Sentinels whose votes were split elect again after twice this time.
const FAILOVER_TIMEOUT: &str = "3000";

/// A master, its replicas and three sentinels.
struct Fleet {
    servers: Servers,
    plain: Vec<Plain>,
    sentinels: Servers,
    sentinel_plain: Vec<Plain>,
}

impl Fleet {
    /// Starts the servers and the sentinels; `None` if this machine has no server program.
    async fn start(replicas: usize) -> Option<Self> {
        Self::start_with(replicas, &ServerOptions::default(), None).await
    }

    /// `password`: that of the sentinels.
    async fn start_with(
        replicas: usize,
        options: &ServerOptions,
        password: Option<&str>,
    ) -> Option<Self> {
        let mut options = options.clone();
        if let Some(password) = &options.password {
            options.args.extend(["--masterauth".to_owned(), password.clone()]);
        }
        let servers = for_test(1 + replicas, &options)?;
        let mut plain = Vec::new();
        for url in servers.urls() {
            plain.push(Plain::to(&url).await);
        }
        let port = servers[0].addr().expect("ours").port().to_string();
        for copy in &plain[1..] {
            copy.ask::<String>(&["REPLICAOF", "127.0.0.1", &port]).await;
        }
        for copy in &plain[1..] {
            eventually("synchronised", async || {
                let info: String = copy.ask(&["INFO", "replication"]).await;
                info.contains("master_link_status:up").then_some(())
            })
            .await;
        }
        let sentinel = ServerOptions {
            sentinel: true,
            password: password.map(str::to_owned),
            ..Default::default()
        };
        let sentinels = for_test(SENTINELS, &sentinel)?;
        let mut sentinel_plain = Vec::new();
        for url in sentinels.urls() {
            let sentinel = Plain::to(&url).await;
            monitor(&sentinel, MASTER, ("127.0.0.1", &port), &options).await;
            sentinel_plain.push(sentinel);
        }
        let fleet = Self { servers, plain, sentinels, sentinel_plain };
        knows_all(&fleet.sentinel_plain, replicas).await;
        Some(fleet)
    }

    fn builder(&self) -> Builder {
        builder().connect_timeout(Duration::from_secs(2))
    }

    fn locker(&self) -> Locker {
        self.builder()
            .on(quorumlock::Servers::sentinel(self.sentinels.urls(), MASTER))
            .expect("good URLs")
    }

    /// Waits until another server than the one at `old` is a master; returns its index.
    async fn promoted(&self, old: usize) -> usize {
        eventually("promoted", async || {
            for at in (0..self.servers.len()).filter(|at| *at != old) {
                if self.role(at).await.as_deref() == Some("master") {
                    return Some(at);
                }
            }
            None
        })
        .await
    }

    /// A fresh connection: sentinels kill those of a server whose role they change.
    async fn anew(&self, at: usize) -> Plain {
        Plain::to(self.servers[at].url()).await
    }

    /// The role of a server that runs; `None` if it has just ended the connection.
    async fn role(&self, at: usize) -> Option<String> {
        let client = redis::Client::open(self.servers[at].url()).expect("a good URL");
        let mut connection = client.get_multiplexed_async_connection().await.ok()?;
        let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut connection).await.ok()?;
        redis::from_redis_value(role[0].clone()).ok()
    }
}

/// Waits until each sentinel knows the replicas and the other sentinels.
async fn knows_all(sentinels: &[Plain], replicas: usize) {
    let others = (sentinels.len() - 1).to_string();
    for sentinel in sentinels {
        eventually("the sentinels know each other", async || {
            let known: HashMap<String, String> =
                sentinel.ask(&["SENTINEL", "MASTER", MASTER]).await;
            let good = known["num-slaves"] == replicas.to_string()
                && known["num-other-sentinels"] == others;
            good.then_some(())
        })
        .await;
    }
}

/// Lets a sentinel monitor a master.
async fn monitor(
    sentinel: &Plain,
    name: &str,
    (host, port): (&str, &str),
    options: &ServerOptions,
) {
    sentinel.ask::<String>(&["SENTINEL", "MONITOR", name, host, port, "2"]).await;
    let mut set = vec!["SENTINEL", "SET", name, "down-after-milliseconds", DOWN_AFTER];
    set.extend(["failover-timeout", FAILOVER_TIMEOUT]);
    if let Some(password) = &options.password {
        set.extend(["auth-pass", password]);
    }
    sentinel.ask::<String>(&set).await;
}
