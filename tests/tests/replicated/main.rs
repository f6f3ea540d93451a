//! One master with replicas, and failovers by hand: what a replicated locker does, and what it cannot
//! do (`docs/SAFETY.md`, Replicated master). The ids (`L16`, ...) are used wherever the project
//! speaks of these scenarios.

mod acks;
mod failover;
mod l16_promotion;
mod l17_another_promoted;
mod l18_old_expiry;
mod roles;

use std::time::Duration;

use quorumlock::{Builder, Error, Guard, Locker, NodeProblem};
use quorumlock_lab::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, Proxy, Way, builder, eventually, within};

/// The lock that everybody wants.
const NAME: &str = "x";
/// Nothing that is tested takes so long.
const LONG: Duration = Duration::from_secs(60);

/// A locker that a loaded machine cannot make believe that its nodes are gone.
fn patient() -> Builder {
    let builder = builder().lease(LONG).connect_timeout(Duration::from_secs(2));
    builder.answer_timeout(Duration::from_secs(5))
}

/// The first server is the master of the others; each follows it by a way that can be cut.
struct Fleet {
    servers: Servers,
    plain: Vec<Plain>,
    ways: Vec<Proxy>,
}

impl Fleet {
    /// `None` if there is no server here.
    async fn start(replicas: usize, more: &[&str]) -> Option<Self> {
        // A synchronisation need not wait for more replicas to come.
        let args = ["--repl-diskless-sync-delay", "0"].iter().chain(more);
        let args = args.map(|arg| (*arg).to_owned()).collect();
        let servers = for_test(1 + replicas, &ServerOptions { args, ..Default::default() })?;
        let (mut plain, mut ways) = (Vec::new(), Vec::new());
        for url in servers.urls() {
            plain.push(Plain::to(&url).await);
        }
        for copy in &plain[1..] {
            let way = Proxy::to(servers[0].addr().expect("ours"));
            follow(copy, way.addr().port()).await;
            ways.push(way);
        }
        Some(Self { servers, plain, ways })
    }

    fn urls(&self) -> Vec<String> {
        self.servers.urls()
    }

    fn locker(&self) -> Locker {
        patient().replicated(self.urls()).expect("good URLs")
    }

    /// Nothing that happens from now on is copied to the replica.
    fn cut(&self, replica: usize) {
        self.ways[replica - 1].hold(Way::Replies);
    }

    /// All is copied again.
    fn heal(&self, replica: usize) {
        self.ways[replica - 1].heal();
    }

    async fn promote(&self, replica: usize) {
        self.plain[replica].ask::<String>(&["REPLICAOF", "NO", "ONE"]).await;
    }

    /// The master dies, and a replica is promoted.
    async fn fail_over(&self, replica: usize) {
        self.servers[0].kill().expect("ours");
        self.promote(replica).await;
    }

    async fn copied(&self, key: &str, replica: usize) {
        eventually("copied", async || self.plain[replica].exists(key).await.then_some(())).await;
    }

    fn port(&self, server: usize) -> u16 {
        self.servers[server].addr().expect("ours").port()
    }
}

async fn follow(copy: &Plain, port: u16) {
    copy.ask::<String>(&["REPLICAOF", "127.0.0.1", &port.to_string()]).await;
    eventually("synchronised", async || {
        let info: String = copy.ask(&["INFO", "replication"]).await;
        info.contains("master_link_status:up").then_some(())
    })
    .await;
}

/// Until the lock is granted: connections have to find out what happened.
async fn granted(locker: &Locker, name: &str) -> Guard {
    eventually("granted", async || match locker.try_lock(name).await {
        Ok(guard) => guard,
        Err(Error::Refused(_) | Error::Unreachable(_)) => None,
        Err(error) => panic!("{error}"),
    })
    .await
}

/// What the one node is said to have done.
async fn refusal(locker: &Locker) -> NodeProblem {
    let error = within("an answer", locker.try_lock(NAME)).await.expect_err("refused");
    let Error::Refused(none) = &error else { panic!("{error:?}") };
    assert_eq!((none.needed, none.answered, none.nodes.len()), (1, 1, 1), "{error}");
    none.nodes[0].problem.clone()
}

/// The violation: both guards are valid at one instant.
fn assert_both_hold(one: &Guard, other: &Guard) {
    assert_eq!((one.check(), other.check()), (Ok(()), Ok(())));
    // A lost guard is never valid again: the first was valid when the other was.
    assert_eq!(one.check(), Ok(()), "{other:?} is valid, too");
}
