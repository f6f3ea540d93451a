//! Strict order on one node: a free name with a queue goes to its head only (PROTOCOL.md W10). A waiter
//! that a test does not poll hears nothing, like a stopped process.

use std::future::IntoFuture as _;
use std::pin::Pin;
use std::time::Duration;

use quorumlock::{Error, Guard, Layout, Locker, Servers};
use quorumlock_tests::{Plain, builder, eventually, within};
use quorumlock_watchdog::Clock;

use crate::members::{self, Sign};
use crate::{LAYOUTS, LONG_LEASE, Node};

const WAITERS: &str = "quorumlock:waiters:{x}";

type Waiting = Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>;

fn strict(node: &Node, layout: Layout) -> Locker {
    let builder = builder().layout(layout).strict_order(true);
    builder.on(Servers::single(node.server[0].url())).expect("a good URL")
}

/// Polls `waiting` until `event`.
async fn until<T>(waiting: &mut Waiting, event: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        event = event => event,
        granted = waiting => panic!("{granted:?}"),
    }
}

async fn queued(plain: &Plain) -> usize {
    plain.ask(&["ZCARD", WAITERS]).await
}

/// A waiter of a locker with strict order, queued behind `holder`.
async fn queue_one(node: &Node, locker: &Locker, before: usize) -> Waiting {
    let mut waiting: Waiting = Box::pin(locker.lock("x").lease(LONG_LEASE).into_future());
    let plain = &node.plain;
    let ahead = async || (queued(plain).await > before).then_some(());
    until(&mut waiting, eventually("in the queue", ahead)).await;
    waiting
}

#[tokio::test]
async fn a_newcomer_leaves_a_free_name_to_the_head_of_the_queue() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let [first, second, third] = [(); 3].map(|()| strict(&node, layout));
        let held = within("free", first.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let mut waiting = queue_one(&node, &second, 0).await;
        // As if the lease had ended: nobody is told.
        node.plain.ask::<i64>(&["DEL", "x"]).await;
        let newcomer = third.try_lock("x").await.expect("an answer");
        assert!(newcomer.is_none(), "it overtook a waiter");
        let next = within("its turn", &mut waiting).await.expect("granted");
        assert!(
            node.locker
                .mutex("x")
                .holder()
                .await
                .expect("an answer")
                .expect("held")
                .has(next.nonce())
        );
        drop(held);
        next.unlock().await.expect("held");
        let free = third.try_lock("x").await.expect("an answer");
        assert!(free.is_some(), "nobody waits");
    }
}

#[tokio::test]
async fn a_newcomer_without_strict_order_overtakes() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let [first, second] = [(); 2].map(|()| strict(&node, layout));
        let held = within("free", first.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let _waiting = queue_one(&node, &second, 0).await;
        node.plain.ask::<i64>(&["DEL", "x"]).await;
        assert!(node.locker.try_lock("x").await.expect("an answer").is_some());
        drop(held);
    }
}

#[tokio::test]
async fn waiters_are_served_in_the_order_in_which_they_came() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let lockers = [(); 5].map(|()| strict(&node, layout));
        let held = within("free", lockers[0].lock("x").lease(LONG_LEASE)).await.expect("granted");
        let mut waiting = Vec::new();
        for (before, locker) in lockers[1..].iter().enumerate() {
            let next = queue_one(&node, locker, before).await;
            waiting.push(Box::pin(async move { (before, next.await) }));
        }
        let (mut held, mut turn) = (Some(held), 0);
        while !waiting.is_empty() {
            held.take().expect("one holds").unlock().await.expect("held");
            // All others poll, too: none of them gets it.
            let served = futures::future::select_all(std::mem::take(&mut waiting));
            let ((number, granted), _, later) = within("its turn", served).await;
            assert_eq!(number, turn, "a waiter overtook another");
            (waiting, turn) = (later, turn + 1);
            held = Some(granted.expect("granted"));
        }
    }
}

/// The queue member of a process that has ended is passed over at once.
#[tokio::test]
async fn a_dead_head_is_passed_over() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let dead = format!("dead {}", members::kind_of(layout));
        members::add(&node.plain, WAITERS, &dead, 1, Sign::NOW).await;
        let guard = strict(&node, layout).try_lock("x").await.expect("an answer");
        assert!(guard.is_some(), "a dead waiter keeps the name");
        assert_eq!(queued(&node.plain).await, 0);
    }
}

/// Messages and requests change the order of those who arrived in the same step. If one yielded to the other
/// there, the other would yield next, and nobody would have the name.
#[tokio::test]
async fn nobody_yields_to_a_waiter_who_arrived_in_the_same_step() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (first, second, plain) = (strict(&node, layout), strict(&node, layout), &node.plain);
        let held = within("free", first.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let mut waiting = queue_one(&node, &second, 0).await;
        let queue: Vec<(String, u64)> =
            plain.ask(&["ZRANGE", WAITERS, "0", "0", "WITHSCORES"]).await;
        let step = members::step_of(queue[0].1);
        let asked = Sign::Asked(Duration::from_millis(600));
        let head = format!("! {}", members::kind_of(layout));
        let _told = members::waiter(plain, WAITERS, &head, step, asked).await;
        assert_eq!(members::all(plain, WAITERS).await[0], head);
        // As if the lease had ended: the waiter comes when it polls.
        plain.ask::<i64>(&["DEL", "x"]).await;
        let guard = within("its poll", &mut waiting).await.expect("granted");
        let notified = members::notified(plain, WAITERS).await;
        assert!(notified.is_empty(), "{layout:?}: it yielded to {notified:?}");
        drop((held, guard));
    }
}

/// A waiter that was notified has half a second at least.
#[tokio::test]
async fn a_notified_waiter_that_does_not_come_is_passed_over_within_a_second() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let locker = strict(&node, layout);
        let head = format!("head {}", members::kind_of(layout));
        let mut told = members::waiter(&node.plain, WAITERS, &head, 1, Sign::NOW).await;
        let clock = Clock::system();
        let begun = clock.now();
        assert!(locker.try_lock("x").await.expect("an answer").is_none(), "the head is notified");
        assert_eq!(told.next().await, "x");
        let guard = eventually("it is passed over", async || {
            locker.try_lock("x").await.expect("an answer")
        });
        guard.await.unlock().await.expect("held");
        let passed = clock.now().since(begun);
        assert!(passed > Duration::from_millis(450), "{passed:?}");
    }
}

/// A release tells a head that shows no life, and leaves the name to it for a while. The waiter behind it is
/// told, too, and not served before: it comes when that time is over.
#[tokio::test]
async fn a_head_that_shows_no_life_has_its_time_before_the_next_one() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (first, second, plain) = (strict(&node, layout), strict(&node, layout), &node.plain);
        let held = within("free", first.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let head = format!("head {}", members::kind_of(layout));
        let mut told = members::waiter(plain, WAITERS, &head, 1, Sign::STALE).await;
        let mut waiting = queue_one(&node, &second, 1).await;
        let next = members::all(plain, WAITERS).await.remove(1);
        let mut next_told = plain.listen(&members::channel_of(&next)).await;
        let clock = Clock::system();
        let begun = clock.now();
        held.unlock().await.expect("held");
        assert_eq!((told.next().await, next_told.next().await), ("x".to_owned(), "x".to_owned()));
        let guard = within("its turn", &mut waiting).await.expect("granted");
        let passed = clock.now().since(begun);
        assert!(passed > Duration::from_millis(450), "{layout:?}: {passed:?}");
        guard.unlock().await.expect("held");
    }
}

/// A task of the holder's process does not get the lock before a process that waits for longer.
#[tokio::test]
async fn a_local_waiter_does_not_overtake_another_process() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let [ours, other] = [(); 2].map(|()| strict(&node, layout));
        let held = within("free", ours.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let mut waiting = queue_one(&node, &other, 0).await;
        let local = tokio::spawn({
            let ours = ours.clone();
            async move { ours.lock("x").lease(LONG_LEASE).await }
        });
        tokio::task::yield_now().await;
        held.unlock().await.expect("held");
        let first = within("its turn", &mut waiting).await.expect("granted");
        assert!(!local.is_finished(), "two hold it");
        first.unlock().await.expect("held");
        drop(within("its turn", local).await.expect("no panic").expect("granted"));
    }
}

/// All kinds of locks keep the order.
#[tokio::test]
async fn every_kind_of_lock_keeps_the_order() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let [first, second, third] = [(); 3].map(|()| strict(&node, layout));
        let held = within("free", first.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let _waiting = queue_one(&node, &second, 0).await;
        node.plain.ask::<i64>(&["DEL", "x"]).await;
        let set = third.try_lock(["a", "x"]).await.expect("an answer");
        assert!(set.is_none(), "a set overtook a waiter");
        assert!(third.try_lock("a").await.expect("an answer").is_some(), "it took nothing");
        drop(held);

        let permit = within("free", first.semaphore("p", 1).acquire().lease(LONG_LEASE))
            .await
            .expect("granted");
        let mut waiting =
            Box::pin(second.semaphore("p", 1).acquire().lease(LONG_LEASE).into_future());
        let key = "quorumlock:waiters:raw:quorumlock:permit:{p}:";
        let in_queue = async || node.plain.exists(key).await.then_some(());
        tokio::select! {
            biased;
            () = eventually("in the queue", in_queue) => {}
            granted = &mut waiting => panic!("{granted:?}"),
        }
        node.plain.ask::<i64>(&["DEL", "quorumlock:permit:{p}:0"]).await;
        let newcomer = third.semaphore("p", 1).try_acquire().await.expect("an answer");
        assert!(newcomer.is_none(), "a permit overtook a waiter");
        within("its turn", waiting).await.expect("granted").unlock().await.expect("held");
        drop(permit);

        let writer =
            within("free", first.rw_lock("rw").write().lease(LONG_LEASE)).await.expect("granted");
        writer.unlock().await.expect("held");
        let readers = (third.rw_lock("rw").try_read().await, second.rw_lock("rw").try_read().await);
        assert!(matches!(readers, (Ok(Some(_)), Ok(Some(_)))), "readers share");
    }
}
