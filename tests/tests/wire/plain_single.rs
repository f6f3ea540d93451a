//! On a single node, too, a name that was granted lately is taken without a script (SAFETY.md, Tokens,
//! form c).

use std::time::Duration;

use quorumlock::{Error, Fence, Locker, Wire};
use quorumlock_tests::{eventually, within};

use crate::{Node, WIRES};

const TOKEN: &str = "redisson_lock_token:{x}";

impl Node {
    /// On which `x` has been granted once.
    async fn warm(wire: Wire) -> Option<Self> {
        let node = Self::start(wire).await?;
        node.take().await;
        Some(node)
    }

    /// Takes and gives back.
    async fn take(&self) -> Fence {
        let guard = within("free", self.locker.lock("x")).await.expect("granted");
        let fence = guard.fence();
        guard.unlock().await.expect("held");
        fence
    }
}

#[tokio::test]
async fn the_second_time_no_script_is_run_and_the_token_is_the_next_one() {
    for wire in WIRES {
        let Some(node) = Node::warm(wire).await else { return };
        let (scripts, transactions) = (node.calls("evalsha").await, node.calls("exec").await);
        let first = within("free", node.locker.lock("x")).await.expect("granted");
        assert_eq!(node.calls("evalsha").await, scripts);
        assert_eq!(node.calls("exec").await, transactions + 1);
        let left = node.plain.pttl("x").await;
        assert!(left > 0 && left <= 30_000, "{left}");
        let counter: String = node.plain.ask(&["GET", TOKEN]).await;
        assert_eq!(counter, first.fence().to_string());
        assert!(node.plain.pttl(TOKEN).await > 0, "idle counters expire");
        // What stands there is what the script writes.
        let holder = node.locker.holder("x").await.expect("an answer").expect("held");
        assert!(holder.has(first.nonce()) && holder.holds == 1, "{holder:?}");
        let fence = first.fence();
        first.unlock().await.expect("held");
        assert!(!node.plain.exists("x").await);
        assert_eq!(node.take().await.get(), fence.get() + 1);
    }
}

/// It can be renewed, and entered again.
#[tokio::test]
async fn a_hash_that_was_restored_counts_holds() {
    let Some(node) = Node::warm(Wire::Redisson).await else { return };
    let owner = quorumlock::Owner::new();
    let outer = node.locker.lock("x").owner(&owner).await.expect("free");
    let inner = node.locker.lock("x").owner(&owner).await.expect("ours");
    let holder = node.locker.holder("x").await.expect("an answer").expect("held");
    assert_eq!(holder.holds, 2);
    inner.unlock().await.expect("held");
    outer.unlock().await.expect("held");
    assert!(!node.plain.exists("x").await);
}

#[tokio::test]
async fn what_somebody_else_holds_is_left_alone_and_the_next_token_is_larger() {
    for wire in WIRES {
        let Some(node) = Node::warm(wire).await else { return };
        let other = Locker::builder().wire(wire).single(node.server[0].url()).expect("a good URL");
        let guard = other.lock("x").await.expect("free");
        let counter = async || node.plain.ask::<u64>(&["GET", TOKEN]).await;
        let before = counter().await;
        assert!(node.locker.try_lock("x").await.expect("an answer").is_none());
        assert_eq!(counter().await, before + 1, "it was asked without a script");
        assert_eq!(guard.check(), Ok(()));
        // Whoever waits is told, as always.
        let waiter = tokio::spawn({
            let locker = node.locker.clone();
            async move { locker.lock("x").await.expect("granted in the end") }
        });
        eventually("it waits", async || {
            node.plain.exists("quorumlock:waiters:{x}").await.then_some(())
        })
        .await;
        let fence = guard.fence();
        guard.unlock().await.expect("held");
        let next = within("woken", waiter).await.expect("no panic");
        assert!(next.fence() > fence);
        next.unlock().await.expect("held");
    }
}

/// Else the token would start again from where the refused or the granted one put it.
#[tokio::test]
async fn a_counter_that_is_gone_is_started_by_the_clock_and_not_by_a_transaction() {
    for wire in WIRES {
        let Some(node) = Node::warm(wire).await else { return };
        let first = node.take().await;
        node.plain.ask::<u32>(&["DEL", TOKEN]).await;
        let second = node.take().await;
        assert!(second > first, "{second} after {first}");
        // And if somebody was refused when it was gone.
        node.plain.ask::<String>(&["SET", TOKEN, "1"]).await;
        let third = node.take().await;
        assert!(third > first, "{third} after {first}");
        assert!(!node.plain.exists("x").await, "nothing stays of what was not believed");
    }
}

/// Users whose rights do not go so far lock by scripts, after one try.
#[tokio::test]
async fn without_the_right_to_restore_scripts_do_it() {
    let Some(node) = Node::warm(Wire::Redisson).await else { return };
    node.plain.ask::<String>(&["ACL", "SETUSER", "default", "-restore"]).await;
    let mut last = Fence::NONE;
    for _ in 0..4 {
        let fence = node.take().await;
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
    assert_eq!(node.calls("multi").await, 1, "asked again for what is forbidden");
    assert_eq!(node.calls("exec").await, 1);
}

#[tokio::test]
async fn a_name_in_the_other_layout_is_an_error_all_the_same() {
    for (wire, foreign) in [
        (Wire::Redisson, ["SET", "x", "0123", "PX", "60000"].as_slice()),
        (Wire::Redlock, &["HSET", "x", "somebody:1", "1"]),
    ] {
        let Some(node) = Node::warm(wire).await else { return };
        let _: redis::Value = node.plain.ask(foreign).await;
        let wait = Duration::from_secs(20);
        let refused = within("an answer", node.locker.lock("x").wait(wait)).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
}
