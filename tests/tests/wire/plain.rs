//! On proven nodes a name that was granted lately is taken without a script (SAFETY.md, Tokens, form c).

use quorumlock::{Error, Fence, Guard, Locker};
use quorumlock_lab::servers::{self, ServerOptions, Servers};
use quorumlock_tests::{Plain, eventually, within};

use crate::LONG;

const TOKEN: &str = "redisson_lock_token:{x}";

pub(crate) struct Fleet {
    servers: Servers,
    pub(crate) locker: Locker,
    pub(crate) plain: Vec<Plain>,
}

impl Fleet {
    /// Three admitted nodes, which have all granted `x`.
    pub(crate) async fn warm() -> Option<Self> {
        let servers = servers::for_test(3, &ServerOptions::default())?;
        let locker = Self::another(&servers);
        locker.provision().await.expect("all nodes answer");
        let mut plain = Vec::new();
        for url in servers.urls() {
            plain.push(Plain::to(&url).await);
        }
        let fleet = Self { servers, locker, plain };
        fleet.warm_up("x").await;
        Some(fleet)
    }

    /// Two of three are enough for a grant: the third may not be verified yet.
    pub(crate) async fn warm_up(&self, name: &str) {
        eventually("counted by all", async || {
            let guard = within("free", self.locker.lock(name)).await.expect("granted");
            guard.unlock().await.expect("held");
            let mut counted = true;
            for node in &self.plain {
                counted &= node.exists(&format!("redisson_lock_token:{{{name}}}")).await;
            }
            counted.then_some(())
        })
        .await;
    }

    fn another(servers: &Servers) -> Locker {
        Locker::builder().lease(LONG).quorum(servers.urls()).expect("a good configuration")
    }

    async fn take(&self) -> Guard {
        within("free", self.locker.lock("x")).await.expect("granted")
    }

    /// So many acquisitions without a script have the nodes seen.
    pub(crate) async fn transactions(&self) -> usize {
        self.stat("cmdstat_exec:", "calls=").await
    }

    /// So many have they refused.
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

    async fn counter(&self, node: usize) -> u64 {
        self.plain[node].ask::<String>(&["GET", TOKEN]).await.parse().expect("a number")
    }
}

#[tokio::test]
async fn the_second_time_no_script_is_run_and_the_token_is_the_next_one() {
    let Some(fleet) = Fleet::warm().await else { return };
    let before = fleet.transactions().await;
    let first = fleet.take().await;
    eventually("asked", async || (fleet.transactions().await >= before + 3).then_some(())).await;
    for node in 0..3 {
        let at = first.fence().get();
        eventually("counted", async || (fleet.counter(node).await == at).then_some(())).await;
        let held = async || fleet.plain[node].exists("x").await.then_some(());
        eventually("held", held).await;
        let left = fleet.plain[node].pttl("x").await;
        assert!(left > 0 && left <= 60_000, "{left}");
        assert!(fleet.plain[node].pttl(TOKEN).await > 0, "idle counters expire");
    }
    let fence = first.fence();
    first.unlock().await.expect("held");
    let second = fleet.take().await;
    assert_eq!(second.fence().get(), fence.get() + 1);
    second.unlock().await.expect("held");
}

#[tokio::test]
async fn counters_move_for_whoever_is_refused_and_the_next_token_is_larger() {
    let Some(fleet) = Fleet::warm().await else { return };
    let other = Fleet::another(&fleet.servers);
    let guard = other.lock("x").await.expect("free");
    let fence = guard.fence();
    // Its own request has been carried out there, or made up for: what moves it now is another's.
    eventually("counted", async || (fleet.counter(0).await == fence.get()).then_some(())).await;
    // It knows the name: refused without a script. Then it waits as always.
    let waiter = tokio::spawn({
        let locker = fleet.locker.clone();
        async move { locker.lock("x").await.expect("granted in the end") }
    });
    eventually("moved", async || (fleet.counter(0).await > fence.get()).then_some(())).await;
    guard.unlock().await.expect("held");
    let next = within("woken", waiter).await.expect("no panic");
    assert!(next.fence() > fence);
    next.unlock().await.expect("held");
}

/// Else the token would start again from where the refused or the granted one put it.
#[tokio::test]
async fn a_counter_that_is_gone_is_started_by_the_clock_and_not_by_a_transaction() {
    let Some(fleet) = Fleet::warm().await else { return };
    let first = fleet.take().await.fence();
    fleet.on_all(&["DEL", TOKEN]).await;
    let second = fleet.take().await;
    assert!(second.fence() > first, "{} after {first}", second.fence());
    second.unlock().await.expect("held");
    // And if somebody was refused when it was gone.
    fleet.on_all(&["SET", TOKEN, "1"]).await;
    let third = Fleet::another(&fleet.servers).lock("x").await.expect("free").fence();
    assert!(third > first, "{third} after {first}");
}

/// A transaction on a node that forgot sets the name, and counts for nothing; nothing stays.
#[tokio::test]
async fn what_forgot_counts_for_nothing_and_is_given_back() {
    let Some(fleet) = Fleet::warm().await else { return };
    fleet.on_all(&["FLUSHALL"]).await;
    let refused = fleet.locker.try_lock("x").await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    for node in &fleet.plain {
        eventually("given back", async || (!node.exists("x").await).then_some(())).await;
    }
}

/// As a restart that kept all data would leave it, but on the same connections.
#[tokio::test]
async fn without_the_script_that_proves_its_life_a_node_is_not_believed() {
    is_not_believed(&["SCRIPT", "FLUSH"]).await;
}

/// As the repair of another node leaves it (form b).
#[tokio::test]
async fn under_another_stamp_a_node_is_not_believed() {
    let other = "0123456789abcdef0123456789abcdef";
    is_not_believed(&["HSET", "quorumlock:node", "stamp", other]).await;
}

async fn is_not_believed(after: &[&str]) {
    let Some(fleet) = Fleet::warm().await else { return };
    let first = fleet.take().await;
    let fence = first.fence().get();
    first.unlock().await.expect("held");
    fleet.on_all(after).await;
    let guard = fleet.take().await;
    // The counters moved for what was not believed, and again for the script.
    assert!(guard.fence().get() >= fence + 2, "{} after {fence}", guard.fence());
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("held");
    for node in &fleet.plain {
        eventually("nothing stays", async || (!node.exists("x").await).then_some(())).await;
    }
}

#[tokio::test]
async fn a_full_node_says_who_holds_it_all_the_same() {
    let Some(fleet) = Fleet::warm().await else { return };
    let other = Fleet::another(&fleet.servers);
    let guard = other.lock("x").await.expect("free");
    fleet.on_all(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = fleet.locker.lock("x").wait(std::time::Duration::ZERO).await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    fleet.on_all(&["CONFIG", "SET", "maxmemory", "0"]).await;
    guard.unlock().await.expect("held");
}

/// Users whose rights do not go so far lock by scripts, after one try.
#[tokio::test]
async fn without_the_right_to_transactions_scripts_do_it() {
    let Some(fleet) = Fleet::warm().await else { return };
    fleet.on_all(&["ACL", "SETUSER", "default", "-multi"]).await;
    let mut last = Fence::NONE;
    let mut tries = Vec::new();
    for _ in 0..2 {
        for _ in 0..3 {
            let guard = fleet.take().await;
            assert!(guard.fence() > last, "{} after {last}", guard.fence());
            last = guard.fence();
            guard.unlock().await.expect("held");
        }
        // The slowest node has answered as well.
        for node in &fleet.plain {
            eventually("nothing stays", async || (!node.exists("x").await).then_some(())).await;
        }
        tries.push(fleet.refused().await);
    }
    assert!(tries[0] >= 3, "{tries:?}");
    assert_eq!(tries[0], tries[1], "asked again for what is forbidden");
}
