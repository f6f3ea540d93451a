//! Tokens that are counted as Redisson's `RFencedLock` counts them: `Builder::redisson_fenced`.

use quorumlock::{Error, FencingToken, Layout, Locker, NodeProblem, Owner, Servers};
use quorumlock_tests::{Plain, builder, eventually, waiters, within};

use crate::{LONG_LEASE, Node, members};

const NAME: &str = "invoice/7";
const COUNTER: &str = "redisson_lock_token:{invoice/7}";

/// A server, two counting lockers as of two processes, and a plain client.
async fn start() -> Option<(Node, Locker, Locker)> {
    let node = Node::start(Layout::Redisson).await?;
    let counting = || {
        builder()
            .redisson_fenced(true)
            .on(Servers::single(node.server[0].url()))
            .expect("a good URL")
    };
    let (one, two) = (counting(), counting());
    Some((node, one, two))
}

async fn token(locker: &Locker) -> u64 {
    let guard = within("free", locker.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    let token = guard.token().get();
    guard.unlock().await.expect("held");
    token
}

async fn counter(plain: &Plain) -> u64 {
    plain.ask(&["GET", COUNTER]).await
}

#[tokio::test]
async fn each_acquisition_counts_one_in_redissons_key_and_the_mark_follows() {
    let Some((node, one, two)) = start().await else { return };
    for round in 0..3 {
        assert_eq!(token(&one).await, 3 * round + 1);
        assert_eq!(token(&two).await, 3 * round + 2);
        // Java increments the counter in the same way.
        assert_eq!(node.plain.ask::<u64>(&["INCR", COUNTER]).await, 3 * round + 3);
        assert_eq!(node.plain.mark(NAME).await, Some(3 * round + 2));
    }
    assert_eq!(node.calls("multi").await, 0, "only a script can count and grant in one step");
}

#[tokio::test]
async fn the_counter_jumps_above_the_mark_and_never_expires() {
    let Some((node, locker, _)) = start().await else { return };
    node.plain.ask::<String>(&["SET", COUNTER, "41", "EX", "1000"]).await;
    assert_eq!(token(&locker).await, 42);
    assert_eq!(node.plain.pttl(COUNTER).await, -1);
    let proposed = {
        let guard = node.locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
        let proposed = guard.token().get();
        guard.unlock().await.expect("held");
        proposed
    };
    assert!(proposed > 42);
    node.plain.ask::<i64>(&["EXPIRE", COUNTER, "1000"]).await;
    let counted = token(&locker).await;
    assert!(counted > proposed);
    assert_eq!((counter(&node.plain).await, node.plain.pttl(COUNTER).await), (counted, -1));
    assert!(token(&node.locker).await > counted);
}

/// Waiters are notified, and the lock is not handed off: a handoff would use a token that the
/// counter does not have. For the same reason tasks of one process do not hand the lock off
/// locally.
#[tokio::test]
async fn waiters_are_woken_and_counted_one_by_one() {
    let Some((node, one, two)) = start().await else { return };
    let guard = one.lock(NAME).lease(LONG_LEASE).await.expect("free");
    let mut waiting = Vec::new();
    for locker in [&one, &one, &two, &two] {
        let locker = locker.clone();
        waiting.push(tokio::spawn(async move { token(&locker).await }));
    }
    let queue = eventually("the other process stands in line", async || {
        let queue: Vec<String> = node.plain.ask(&["ZRANGE", &waiters(NAME), "0", "-1"]).await;
        (!queue.is_empty()).then_some(queue)
    })
    .await;
    assert!(queue.iter().all(|waiter| members::offers_nothing(waiter)), "{queue:?}");
    guard.unlock().await.expect("held");
    let mut tokens = Vec::new();
    for waiter in waiting {
        tokens.push(within("granted", waiter).await.expect("no panic"));
    }
    tokens.sort_unstable();
    assert_eq!(tokens, [2, 3, 4, 5]);
}

/// A re-entry shares the hold and its token, and sends nothing to the server. (Java increments the
/// counter again.)
#[tokio::test]
async fn a_re_entrant_hold_keeps_its_token() {
    let Some((node, locker, _)) = start().await else { return };
    let owner = Owner::new();
    let outer = locker.lock(NAME).lease(LONG_LEASE).owner(&owner).await.expect("free");
    let inner = locker.lock(NAME).lease(LONG_LEASE).owner(&owner).await.expect("ours");
    assert_eq!((outer.token(), inner.token()), (FencingToken::new(1), FencingToken::new(1)));
    assert_eq!(counter(&node.plain).await, 1);
}

#[tokio::test]
async fn a_counter_that_cannot_rise_gives_no_lock_and_is_named() {
    let Some((node, locker, _)) = start().await else { return };
    for bad in [
        ["RPUSH", COUNTER, "1"],
        ["SET", COUNTER, "one"],
        ["SET", COUNTER, "9007199254740993"],
        ["SET", COUNTER, "9223372036854775807"],
    ] {
        node.plain.ask::<i64>(&["DEL", COUNTER]).await;
        node.plain.ask::<redis::Value>(&bad).await;
        let error = within("an answer", locker.lock(NAME)).await.expect_err("no token");
        let Error::Refused(refused) = &error else { panic!("{error:?}") };
        assert_eq!(refused.nodes[0].problem, NodeProblem::BadCounter { key: COUNTER.into() });
        assert!(!node.plain.exists(NAME).await, "{bad:?}");
    }
    node.plain.ask::<i64>(&["DEL", COUNTER]).await;
    assert_eq!(token(&locker).await, 1);
}
