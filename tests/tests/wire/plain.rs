//! On admitted nodes, too, an uncontended name is acquired by a transaction, without a script
//! (decision 008).

use quorumlock::{Error, FencingToken, Guard, Locker};
use quorumlock_testbed::servers::{self, ServerOptions, Servers};
use quorumlock_tests::{Plain, builder, eventually, mark_key, scripts_only, within};

use crate::{LONG_LEASE, last_of};

pub(crate) struct Fleet {
    servers: Servers,
    pub(crate) locker: Locker,
    pub(crate) plain: Vec<Plain>,
}

impl Fleet {
    /// Starts three admitted nodes, and waits until an acquisition asks all of them.
    pub(crate) async fn start() -> Option<Self> {
        if scripts_only() {
            return None;
        }
        let servers = servers::for_test(3, &ServerOptions::default())?;
        let locker = Self::another(&servers);
        locker.admit_nodes().await.expect("all nodes answer");
        let mut plain = Vec::new();
        for url in servers.urls() {
            plain.push(Plain::to(&url).await);
        }
        let fleet = Self { servers, locker, plain };
        // Two of three nodes are enough for a grant: the third one may not be verified yet, and joins later.
        let guard = within("free", fleet.locker.lock("x")).await.expect("granted");
        for node in &fleet.plain {
            let accepted = async || node.exists(mark_key("x")).await.then_some(());
            eventually("accepted by all", accepted).await;
        }
        guard.unlock().await.expect("held");
        Some(fleet)
    }

    /// A locker without fencing tokens on the same nodes.
    pub(crate) fn unfenced(&self) -> Locker {
        builder()
            .fencing(false)
            .on(quorumlock::Servers::quorum(self.servers.urls()))
            .expect("good URLs")
    }

    fn another(servers: &Servers) -> Locker {
        builder()
            .lease(LONG_LEASE)
            .on(quorumlock::Servers::quorum(servers.urls()))
            .expect("a good configuration")
    }

    async fn take(&self) -> Guard {
        within("free", self.locker.lock("x")).await.expect("granted")
    }

    /// The number of transactions that the nodes have executed.
    pub(crate) async fn transactions(&self) -> usize {
        self.stat("cmdstat_exec:", "calls=").await
    }

    /// The number of scripts that the nodes have run.
    async fn scripts(&self) -> usize {
        self.stat("cmdstat_evalsha:", "calls=").await
    }

    /// The number of transactions that the nodes have refused.
    async fn refused(&self) -> usize {
        self.stat("cmdstat_multi:", "rejected_calls=").await
    }

    async fn stat(&self, command: &str, field: &str) -> usize {
        let mut all = 0;
        for node in &self.plain {
            let stats: String = node.ask(&["INFO", "commandstats"]).await;
            let fields = stats.lines().find_map(|line| line.trim().strip_prefix(command));
            let value = fields.and_then(|f| f.split(',').find_map(|f| f.strip_prefix(field)));
            all += value.map_or(0, |value| value.parse::<usize>().expect("a number"));
        }
        all
    }

    pub(crate) async fn on_all(&self, command: &[&str]) {
        for node in &self.plain {
            let _: redis::Value = node.ask(command).await;
        }
    }

    pub(crate) async fn are_free(&self) {
        for node in &self.plain {
            eventually("nothing stays", async || (!node.exists("x").await).then_some(())).await;
        }
    }
}

#[tokio::test]
async fn a_fresh_name_takes_a_transaction_on_each_node_and_no_script() {
    let Some(fleet) = Fleet::start().await else { return };
    fleet.are_free().await;
    let (before, scripts) = (fleet.transactions().await, fleet.scripts().await);
    let guard = within("free", fleet.locker.lock("fresh")).await.expect("granted");
    eventually("asked", async || (fleet.transactions().await >= before + 3).then_some(())).await;
    for node in &fleet.plain {
        eventually("held", async || node.exists("fresh").await.then_some(())).await;
        assert_eq!(node.mark("fresh").await, Some(last_of(guard.token())));
        let left = node.pttl("fresh").await;
        assert!(left > 0 && left <= 60_000, "{left}");
        assert_eq!(node.pttl(mark_key("fresh")).await, -1, "marks do not expire");
    }
    assert_eq!((fleet.transactions().await, fleet.scripts().await), (before + 3, scripts));
    let fence = guard.token();
    guard.unlock().await.expect("held");
    let next = within("free", fleet.locker.lock("fresh")).await.expect("granted");
    assert!(next.token().get() > last_of(fence));
    next.unlock().await.expect("held");
}

/// A transaction moves the mark even when it is refused. The client therefore tries it once, and
/// then uses the script, which does not move the mark.
#[tokio::test]
async fn marks_move_once_for_a_caller_that_the_transaction_refuses() {
    let Some(fleet) = Fleet::start().await else { return };
    let other = Fleet::another(&fleet.servers);
    let guard = other.lock("x").await.expect("free");
    let last = last_of(guard.token());
    for node in &fleet.plain {
        // The client's own request has been carried out on the node, so any later move of the mark
        // comes from another client.
        let at = async || node.mark("x").await == Some(last);
        eventually("accepted", async || at().await.then_some(())).await;
    }
    let waiter = tokio::spawn({
        let locker = fleet.locker.clone();
        async move { locker.lock("x").await.expect("granted in the end") }
    });
    eventually("in line", async || {
        let mut waiters = 0;
        for node in &fleet.plain {
            waiters += node.ask::<usize>(&["ZCARD", "quorumlock:waiters:{x}"]).await;
        }
        (waiters > 0).then_some(())
    })
    .await;
    guard.unlock().await.expect("held");
    let next = within("woken", waiter).await.expect("no panic");
    assert!(next.token().get() > last);
    next.unlock().await.expect("held");
}

/// The next token comes from the clock, whatever the mark is.
#[tokio::test]
async fn a_mark_that_is_gone_or_low_is_set_again() {
    let Some(fleet) = Fleet::start().await else { return };
    let first = fleet.take().await.token();
    fleet.on_all(&["DEL", mark_key("x")]).await;
    let second = fleet.take().await;
    assert!(second.token().get() > last_of(first), "{} after {first}", second.token());
    second.unlock().await.expect("held");
    fleet.on_all(&["ZADD", mark_key("x"), "1", "m"]).await;
    let third = Fleet::another(&fleet.servers).lock("x").await.expect("free").token();
    assert!(third.get() > last_of(first), "{third} after {first}");
}

/// A transaction on a node that forgot sets the name, but the node does not vote, and the client
/// releases the name there.
#[tokio::test]
async fn what_forgot_counts_for_nothing_and_is_given_back() {
    let Some(fleet) = Fleet::start().await else { return };
    fleet.on_all(&["FLUSHALL"]).await;
    let refused = fleet.locker.try_lock("x").await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    fleet.are_free().await;
}

/// The state after a restart that kept all data, but on the same connections.
#[tokio::test]
async fn without_the_script_that_proves_its_life_a_node_is_not_believed() {
    is_not_believed(&["SCRIPT", "FLUSH"]).await;
}

/// The state after the repair of another node (PROTOCOL.md MARK1).
#[tokio::test]
async fn under_another_stamp_a_node_is_not_believed() {
    let other = "0123456789abcdef0123456789abcdef";
    is_not_believed(&["HSET", "quorumlock:node", "stamp", other]).await;
}

async fn is_not_believed(after: &[&str]) {
    let Some(fleet) = Fleet::start().await else { return };
    let first = fleet.take().await;
    let fence = first.token();
    first.unlock().await.expect("held");
    fleet.on_all(after).await;
    let (before, scripts) = (fleet.transactions().await, fleet.scripts().await);
    let guard = fleet.take().await;
    // The grant comes by scripts, after the transactions.
    assert!(fleet.transactions().await >= before + 2 && fleet.scripts().await >= scripts + 2);
    assert!(guard.token().get() > last_of(fence), "{} after {fence}", guard.token());
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("held");
    fleet.are_free().await;
}

#[tokio::test]
async fn a_full_node_says_who_holds_it_all_the_same() {
    let Some(fleet) = Fleet::start().await else { return };
    let other = Fleet::another(&fleet.servers);
    let guard = other.lock("x").await.expect("free");
    fleet.on_all(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = fleet.locker.lock("x").wait(std::time::Duration::ZERO).await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    fleet.on_all(&["CONFIG", "SET", "maxmemory", "0"]).await;
    guard.unlock().await.expect("held");
}

/// A locker whose user lacks the right falls back to scripts after one try.
#[tokio::test]
async fn without_the_right_to_transactions_scripts_do_it() {
    let Some(fleet) = Fleet::start().await else { return };
    fleet.on_all(&["ACL", "SETUSER", "default", "-multi"]).await;
    let mut last = FencingToken::NONE;
    let mut tries = Vec::new();
    for _ in 0..2 {
        for _ in 0..3 {
            let guard = fleet.take().await;
            assert!(guard.token() > last, "{} after {last}", guard.token());
            last = guard.token();
            guard.unlock().await.expect("held");
        }
        // The slowest node, too, has answered all that it was asked before.
        let nodes = within("all answer", fleet.locker.node_status()).await.expect("a quorum");
        assert!(nodes.iter().all(|node| node.status.is_ok()), "{nodes:?}");
        tries.push(fleet.refused().await);
    }
    assert!(tries[0] >= 3, "{tries:?}");
    assert_eq!(tries[0], tries[1], "asked again for what is forbidden");
}
