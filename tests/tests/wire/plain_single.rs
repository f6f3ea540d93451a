//! On a single node an uncontended name is acquired by a transaction, without a script (decision
//! 0029).

use std::time::Duration;

use quorumlock::{Error, FencingToken, Layout, Servers};
use quorumlock_tests::{builder, eventually, mark_key, scripts_only, within};

use crate::{LAYOUTS, Node, last_of};

impl Node {
    /// Also `None` where lockers send no transactions.
    async fn plain(layout: Layout) -> Option<Self> {
        if scripts_only() { None } else { Self::start(layout).await }
    }

    /// Acquires and releases the name. Returns the last token of the block.
    async fn take(&self) -> u64 {
        let guard = within("free", self.locker.lock("x")).await.expect("granted");
        let last = last_of(guard.token());
        guard.unlock().await.expect("held");
        last
    }
}

#[tokio::test]
async fn no_script_is_run_and_what_stands_there_is_what_a_script_writes() {
    for layout in LAYOUTS {
        let Some(node) = Node::plain(layout).await else { return };
        within("connected", node.locker.ping()).await.expect("an answer");
        for _ in 0..2 {
            let (scripts, transactions) = (node.calls("evalsha").await, node.calls("exec").await);
            let guard = within("free", node.locker.lock("x")).await.expect("granted");
            assert_eq!(node.calls("evalsha").await, scripts);
            assert_eq!(node.calls("exec").await, transactions + 1);
            let left = node.plain.pttl("x").await;
            assert!(left > 0 && left <= 30_000, "{left}");
            assert_eq!(node.plain.mark("x").await, Some(last_of(guard.token())));
            assert_eq!(node.plain.pttl(mark_key("x")).await, -1, "marks do not expire");
            let holder = node.locker.mutex("x").holder().await.expect("an answer").expect("held");
            assert!(holder.has(guard.nonce()) && holder.holds == 1, "{holder:?}");
            let last = last_of(guard.token());
            guard.unlock().await.expect("held");
            assert!(!node.plain.exists("x").await);
            assert!(node.take().await >= last + FencingToken::BLOCK);
        }
    }
}

/// A lock that was acquired by `RESTORE` can be renewed and re-entered.
#[tokio::test]
async fn a_hash_that_was_restored_counts_holds() {
    let Some(node) = Node::plain(Layout::Redisson).await else { return };
    let owner = quorumlock::Owner::new();
    let outer = node.locker.lock("x").owner(&owner).await.expect("free");
    let inner = node.locker.lock("x").owner(&owner).await.expect("ours");
    let holder = node.locker.mutex("x").holder().await.expect("an answer").expect("held");
    assert_eq!(holder.holds, 2);
    inner.unlock().await.expect("held");
    outer.unlock().await.expect("held");
    assert!(!node.plain.exists("x").await);
}

#[tokio::test]
async fn what_somebody_else_holds_is_left_alone_and_the_next_token_is_larger() {
    for layout in LAYOUTS {
        let Some(node) = Node::plain(layout).await else { return };
        let other =
            builder().layout(layout).on(Servers::single(node.server[0].url())).expect("a good URL");
        let guard = other.lock("x").await.expect("free");
        let before = node.plain.mark("x").await;
        assert!(node.locker.try_lock("x").await.expect("an answer").is_none());
        assert!(node.plain.mark("x").await > before, "it was asked without a script");
        assert_eq!(guard.check(), Ok(()));
        // A waiter is notified, as always.
        let waiter = tokio::spawn({
            let locker = node.locker.clone();
            async move { locker.lock("x").await.expect("granted in the end") }
        });
        eventually("it waits", async || {
            node.plain.exists("quorumlock:waiters:{x}").await.then_some(())
        })
        .await;
        let fence = guard.token();
        guard.unlock().await.expect("held");
        let next = within("woken", waiter).await.expect("no panic");
        assert!(next.token() > fence);
        next.unlock().await.expect("held");
    }
}

#[tokio::test]
async fn a_mark_that_is_gone_or_low_is_set_again() {
    for layout in LAYOUTS {
        let Some(node) = Node::plain(layout).await else { return };
        let first = node.take().await;
        node.plain.ask::<u32>(&["DEL", mark_key("x")]).await;
        let second = node.take().await;
        assert!(second > first, "{second} after {first}");
        node.plain.set_mark("x", 1).await;
        let third = node.take().await;
        assert!(third > second, "{third} after {second}");
        assert_eq!(node.plain.mark("x").await, Some(third));
    }
}

/// A locker whose user lacks the right falls back to scripts after one try.
#[tokio::test]
async fn without_the_right_to_restore_scripts_do_it() {
    let Some(node) = Node::plain(Layout::Redisson).await else { return };
    node.plain.ask::<String>(&["ACL", "SETUSER", "default", "-restore"]).await;
    let mut last = 0;
    for _ in 0..4 {
        let next = node.take().await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    assert_eq!(node.calls("multi").await, 1, "asked again for what is forbidden");
}

#[tokio::test]
async fn a_name_in_the_other_layout_is_an_error_all_the_same() {
    for (layout, foreign) in [
        (Layout::Redisson, ["SET", "x", "0123", "PX", "60000"].as_slice()),
        (Layout::Redlock, &["HSET", "x", "somebody:1", "1"]),
    ] {
        let Some(node) = Node::plain(layout).await else { return };
        let _: redis::Value = node.plain.ask(foreign).await;
        let wait = Duration::from_secs(20);
        let refused = within("an answer", node.locker.lock("x").wait(wait)).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
}

/// The switch is for comparison, and for proxies that do not support transactions.
#[tokio::test]
async fn it_can_be_switched_off() {
    for layout in LAYOUTS {
        let Some(node) = Node::plain(layout).await else { return };
        let (locker, plain) = node.by_script(layout);
        let guard = within("free", locker.lock("x")).await.expect("granted");
        assert_eq!(plain.mark("x").await, Some(last_of(guard.token())));
        assert_eq!(plain.pttl(mark_key("x")).await, -1, "{layout:?}: marks do not expire");
        guard.unlock().await.expect("held");
        assert_eq!((node.calls("multi").await, node.calls("exec").await), (0, 0), "{layout:?}");
        assert!(node.take().await > 0);
        assert_eq!(node.calls("exec").await, 1);
    }
}
