//! The queue of those who wait for a name: who is woken, and that nobody is forgotten
//! (SAFETY.md e5, e6). Played with waiters that are only a member and a channel, which never look by
//! themselves: no timer can help where the queue fails.

use std::future::IntoFuture as _;
use std::pin::Pin;
use std::time::Duration;

use quorumlock::{Error, Guard, Locker, Wire};
use quorumlock_tests::{Plain, builder, eventually, mark_key, within};

use crate::{LONG, Node, WIRES};

const NAME: &str = "invoice/7";
const WAITERS: &str = "quorumlock:waiters:{invoice/7}";
const CHANNEL: &str = "redisson_lock__channel:{invoice/7}";

#[tokio::test]
async fn a_release_wakes_the_first_in_the_queue_alone() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let guard = locker.lock(NAME).lease(LONG).await.expect("free");
        let (mut first, mut second) = (stands(&plain, "a", 1).await, stands(&plain, "b", 2).await);
        guard.unlock().await.expect("held");
        assert_eq!(first.next().await, NAME);
        // The mark of the one that was woken, and the other.
        assert_eq!(queue(&plain).await, ["", "b"]);
        let guard = locker.lock(NAME).lease(LONG).await.expect("nobody came");
        guard.unlock().await.expect("held");
        assert_eq!(second.next().await, NAME);
    }
}

#[tokio::test]
async fn a_forced_release_wakes_too() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let _guard = locker.lock(NAME).lease(LONG).await.expect("free");
        let mut first = stands(&plain, "a", 1).await;
        assert!(locker.force_unlock(NAME).await.expect("an answer"));
        assert_eq!(first.next().await, NAME);
    }
}

/// As a node of a quorum sees it, whose lock was won without it: waiters may stand here alone.
#[tokio::test]
async fn a_release_wakes_where_the_name_is_free_although_it_was_not_held() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let guard = locker.lock(NAME).lease(LONG).await.expect("free");
        let mut first = stands(&plain, "a", 1).await;
        plain.ask::<i64>(&["DEL", NAME]).await;
        let answer = guard.unlock().await;
        assert!(matches!(answer, Err(Error::Lost(_))), "{answer:?}");
        assert_eq!(first.next().await, NAME);
    }
}

#[tokio::test]
async fn a_dead_waiter_is_skipped() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let guard = locker.lock(NAME).lease(LONG).await.expect("free");
        for (id, since) in [("dead", "1"), ("dead too", "2")] {
            plain.ask::<i64>(&["ZADD", WAITERS, since, id]).await;
        }
        let mut alive = stands(&plain, "alive", 3).await;
        guard.unlock().await.expect("held");
        assert_eq!(alive.next().await, NAME);
    }
}

/// Whoever was woken and goes away before it came: the others would sleep on.
#[tokio::test]
async fn a_turn_that_is_not_taken_is_passed_on() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let other = node.another(wire);
        let guard = locker.lock(NAME).lease(LONG).await.expect("free");
        let mut waiting = Box::pin(other.lock(NAME).lease(LONG).into_future());
        stands_in_line(&plain, &mut waiting, 1).await;
        let mut next = stands(&plain, "next", i64::MAX).await;
        // It is never polled again, so it hears of its turn and does nothing about it.
        there_is_no_mark(&plain).await;
        guard.unlock().await.expect("held");
        eventually("woken", async || (queue(&plain).await == ["", "next"]).then_some(())).await;
        drop(waiting);
        assert_eq!(next.next().await, NAME);
    }
}

/// As after a registration that was repeated on the way, of one who has long been served.
#[tokio::test]
async fn a_turn_of_a_process_where_nobody_waits_is_passed_on() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let other = node.another(wire);
        let guard = locker.lock(NAME).lease(LONG).await.expect("free");
        let mut waiting = Box::pin(other.lock(NAME).lease(LONG).into_future());
        stands_in_line(&plain, &mut waiting, 1).await;
        let theirs = queue(&plain).await.remove(0);
        let id = theirs.split(' ').next().expect("its id");
        drop(waiting);
        eventually("it left", async || queue(&plain).await.is_empty().then_some(())).await;
        plain.ask::<i64>(&["ZADD", WAITERS, "1", id]).await;
        let mut next = stands(&plain, "next", 2).await;
        guard.unlock().await.expect("held");
        assert_eq!(next.next().await, NAME);
    }
}

#[tokio::test]
async fn sixteen_processes_are_served_in_the_order_in_which_they_came() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let mut guard = locker.lock(NAME).lease(LONG).await.expect("free");
        let (mut waiting, mut order) = (Vec::new(), Vec::new());
        for waiters in 1..=16 {
            let mut waiter = Box::pin(node.another(wire).lock(NAME).lease(LONG).into_future());
            stands_in_line(&plain, &mut waiter, waiters).await;
            // Not polled until it is its turn: it cannot look by itself meanwhile.
            waiting.push(waiter);
            let queue = queue(&plain).await;
            assert_eq!(queue[..waiters - 1], order, "behind those who wait");
            order = queue;
        }
        for (at, waiter) in waiting.into_iter().enumerate() {
            guard.unlock().await.expect("held");
            guard = within("its turn", waiter).await.expect("free");
            assert_eq!(queue(&plain).await, order[at + 1..], "the first one alone");
        }
        guard.unlock().await.expect("held");
        assert!(!plain.exists(WAITERS).await);
    }
}

/// Whoever was woken in vain has waited for longest.
#[tokio::test]
async fn a_waiter_that_was_woken_in_vain_keeps_its_place() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let guard = locker.lock(NAME).lease(LONG).await.expect("free");
        let mut waiting = Box::pin(node.another(wire).lock(NAME).lease(LONG).into_future());
        stands_in_line(&plain, &mut waiting, 1).await;
        let ours = queue(&plain).await;
        let now = plain.ask::<(String, String)>(&["TIME"]).await;
        let late = format!("{}{:0>6}", now.0, now.1).parse().expect("microseconds");
        let _late = stands(&plain, "late", late).await;
        there_is_no_mark(&plain).await;
        guard.unlock().await.expect("held");
        eventually("woken", async || (queue(&plain).await == ["", "late"]).then_some(())).await;
        let first = node.another(wire);
        let _guard = first.lock(NAME).lease(LONG).await.expect("it was quicker");
        stands_in_line(&plain, &mut waiting, 3).await;
        let queue = queue(&plain).await;
        // It asks under another nonce.
        let same = |a: &str, b: &str| a.split(' ').next() == b.split(' ').next();
        assert!(same(&queue[1], &ours[0]) && queue[2] == "late", "{queue:?}");
    }
}

/// Whoever gives the lock back and asks again does not pass by those who wait.
#[tokio::test]
async fn after_its_release_a_process_asks_behind_those_who_wait() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        // On a machine that stalls in between, the courtesy is over.
        eventually("it stands behind", async || {
            let guard = within("free", locker.lock(NAME).lease(LONG)).await.expect("free");
            let mut first = stands(&plain, "a", 1).await;
            guard.unlock().await.expect("held");
            let mut again = Box::pin(locker.lock(NAME).lease(LONG).into_future());
            let behind = tokio::select! {
                biased;
                () = in_line(&plain, 2) => true,
                guard = &mut again => {
                    guard.expect("free").unlock().await.expect("held");
                    false
                }
            };
            assert_eq!(first.next().await, NAME);
            behind.then_some(())
        })
        .await;
    }
}

/// Programs that know of no queue are told as well, if not of every release.
#[tokio::test]
async fn a_subscriber_of_the_names_channel_does_not_starve_beside_a_queue() {
    let Some(node) = Node::start(Wire::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let mut told = plain.listen(CHANNEL).await;
    let _waiter = plain.listen(&channel_of("a")).await;
    let release = async || loop {
        let guard = locker.lock(NAME).lease(LONG).await.expect("free");
        plain.ask::<i64>(&["ZADD", WAITERS, "1", "a"]).await;
        guard.unlock().await.expect("held");
    };
    tokio::select! {
        message = told.next() => assert_eq!(message, "0"),
        () = release() => {}
    }
}

#[tokio::test]
async fn a_waiter_that_gives_up_leaves_nothing_behind_and_the_queue_expires() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let _guard = locker.lock(NAME).lease(LONG).await.expect("free");
        let wait = Duration::from_millis(300);
        let mut waiting =
            Box::pin(node.another(wire).lock(NAME).lease(LONG).wait(wait).into_future());
        stands_in_line(&plain, &mut waiting, 1).await;
        let left = plain.pttl(WAITERS).await;
        assert!((30_000..=60_000).contains(&left), "as long as the lease: {left}");
        let answer = within("its bound", waiting).await;
        assert!(matches!(answer, Err(Error::Busy(_))), "{answer:?}");
        eventually("left", async || (!plain.exists(WAITERS).await).then_some(())).await;

        // Who only tries does not wait.
        assert!(node.another(wire).try_lock(NAME).await.expect("an answer").is_none());
        assert!(!plain.exists(WAITERS).await);
    }
}

/// A release then hands nothing over: it wakes whoever waits, who proposes a token.
async fn there_is_no_mark(plain: &Plain) {
    plain.ask::<i64>(&["DEL", mark_key(NAME)]).await;
}

type Waiting = Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>;

impl Node {
    /// As another process.
    fn another(&self, wire: Wire) -> Locker {
        builder().wire(wire).single(self.server[0].url()).expect("a good URL")
    }
}

fn channel_of(id: &str) -> String {
    format!("quorumlock:waiter:{id}")
}

/// A waiter that is only a member and a channel.
async fn stands(plain: &Plain, id: &str, since: i64) -> quorumlock_tests::Channel {
    let messages = plain.listen(&channel_of(id)).await;
    plain.ask::<i64>(&["ZADD", WAITERS, &since.to_string(), id]).await;
    messages
}

async fn queue(plain: &Plain) -> Vec<String> {
    plain.ask(&["ZRANGE", WAITERS, "0", "-1"]).await
}

async fn in_line(plain: &Plain, many: usize) {
    eventually("in line", async || (queue(plain).await.len() == many).then_some(())).await;
}

/// Polls a waiter until there are so many in the queue.
async fn stands_in_line(plain: &Plain, waiting: &mut Waiting, many: usize) {
    tokio::select! {
        biased;
        answer = waiting => panic!("it is held: {answer:?}"),
        () = in_line(plain, many) => {}
    }
}
