//! One master with replicas, and failovers by hand: what a replicated locker does, and what it
//! cannot do (`docs/PROTOCOL.md`, Replicated master). The whole project uses the same ids (`L16`,
//! ...) for these scenarios.

mod acks;
mod durable;
mod failover;
mod foreign_masters;
mod l16_promotion;
mod l17_another_promoted;
mod l18_old_expiry;
mod proven;
mod roles;

use std::time::Duration;

use quorumlock::{Builder, Error, Guard, Locker, NodeProblem};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, Proxy, Way, builder, eventually, within};

/// The lock that all clients want.
const NAME: &str = "x";
/// Longer than anything that these tests do.
const LONG_LEASE: Duration = Duration::from_secs(60);

/// A builder whose timeouts a loaded machine does not exceed.
fn long_timeouts() -> Builder {
    let builder = builder().lease(LONG_LEASE).connect_timeout(Duration::from_secs(2));
    builder.answer_timeout(Duration::from_secs(5))
}

/// The first server is the master of the others. Each replica follows it through a proxy that can
/// be cut.
struct Fleet {
    servers: Servers,
    plain: Vec<Plain>,
    ways: Vec<Proxy>,
}

impl Fleet {
    /// Starts the servers; `None` if this machine has no server program.
    async fn start(replicas: usize, more: &[&str]) -> Option<Self> {
        let args = more.iter().map(|arg| (*arg).to_owned()).collect();
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
        long_timeouts().on(quorumlock::Servers::replicated(self.urls())).expect("good URLs")
    }

    /// Stops the replication to the replica.
    fn cut(&self, replica: usize) {
        self.ways[replica - 1].hold(Way::Replies);
    }

    /// Resumes the replication to the replica.
    fn heal(&self, replica: usize) {
        self.ways[replica - 1].heal();
    }

    async fn promote(&self, replica: usize) {
        self.plain[replica].ask::<String>(&["REPLICAOF", "NO", "ONE"]).await;
    }

    /// Kills the master and promotes a replica.
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

/// The problem that the locker reports for its one node.
async fn refusal(locker: &Locker) -> NodeProblem {
    let error = within("an answer", locker.try_lock(NAME)).await.expect_err("refused");
    let Error::Refused(none) = &error else { panic!("{error:?}") };
    assert_eq!((none.needed, none.answered, none.nodes.len()), (1, 1, 1), "{error}");
    none.nodes[0].problem.clone()
}

/// Asserts the violation: both guards are valid at one instant.
fn assert_both_hold(one: &Guard, other: &Guard) {
    assert_eq!((one.check(), other.check()), (Ok(()), Ok(())));
    // A lost guard is never valid again, so the first guard was valid when the other one was.
    assert_eq!(one.check(), Ok(()), "{other:?} is valid, too");
}
