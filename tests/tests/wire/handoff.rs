//! On a single node a release hands the name off to the head of the queue (PROTOCOL.md, Tokens). A
//! waiter that a test does not poll hears nothing, like a stopped process.

use std::future::IntoFuture as _;
use std::pin::Pin;
use std::time::Duration;

use quorumlock::{Error, FencingToken, Guard, Holder, Layout, Locker, Replicas, Servers};
use quorumlock_tests::{Plain, builder, eventually, mark_key, within};

use crate::members::{self, Sign};
use crate::{LAYOUTS, LONG_LEASE, Node, is_asked, last_of};

const WAITERS: &str = "quorumlock:waiters:{x}";
/// Short, so that a name that was handed off in vain is free after two seconds.
const SHORT_LEASE: Duration = Duration::from_secs(2);

/// Longer than a test waits.
const MAX_LEASE: Duration = Duration::from_secs(3_600);

/// A server, a holder of `x`, and a waiter for it.
struct Pair {
    node: Node,
    held: Option<Guard>,
    other: Locker,
    waiting: Waiting,
}

type Waiting = Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>;

impl Pair {
    async fn start(layout: Layout, lease: Duration) -> Option<Self> {
        let node = Node::start(layout).await?;
        let guard = within("free", node.locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let other = builder().layout(layout).max_lease(MAX_LEASE);
        let other = other.on(Servers::single(node.server[0].url())).expect("a good URL");
        let waiting = Box::pin(other.lock("x").lease(lease).into_future());
        let mut pair = Self { node, held: Some(guard), other, waiting };
        pair.awaits_queued().await;
        Some(pair)
    }

    /// Polls the waiter until it is in the queue.
    async fn awaits_queued(&mut self) {
        let plain = &self.node.plain;
        not_yet(&mut self.waiting, eventually("in line", async || queue(plain).await.pop())).await;
    }

    async fn release(&mut self) {
        let guard = self.held.take().expect("somebody holds it");
        guard.unlock().await.expect("held");
    }

    async fn holder(&self) -> Option<Holder> {
        self.node.locker.mutex("x").holder().await.expect("an answer")
    }

    async fn mark(&self) -> u64 {
        self.node.plain.mark("x").await.expect("a mark")
    }
}

async fn queue(plain: &Plain) -> Vec<String> {
    plain.ask(&["ZRANGE", WAITERS, "0", "-1"]).await
}

/// The parts of a queue member: the waiter's id, what it asks for, its nonce, the lease, and whether it
/// gets tokens.
fn parts(member: &str) -> [&str; 5] {
    let parts: Vec<_> = member.split(' ').collect();
    parts.try_into().unwrap_or_else(|parts| panic!("{parts:?}"))
}

#[tokio::test]
async fn it_is_handed_over_to_what_was_asked_for_a_whole_lease() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, LONG_LEASE).await else { return };
        let member = queue(&pair.node.plain).await.remove(0);
        let [_, kind, nonce, ttl, fencing] = parts(&member);
        assert_eq!((kind, ttl, fencing), (members::kind_of(layout), "60000", "1"));
        let last = pair.mark().await;
        pair.release().await;
        // The handoff is part of the release: the waiter holds the name before it has heard.
        let holder = pair.holder().await.expect("held");
        assert_eq!(holder.id, nonce);
        assert!(holder.remaining.expect("a lease") > LONG_LEASE / 2);
        assert!(queue(&pair.node.plain).await.is_empty());
        assert_eq!(pair.mark().await, last + FencingToken::BLOCK);

        let guard = within("heard", &mut pair.waiting).await.expect("granted");
        assert!(holder.has(guard.nonce()));
        assert_eq!(guard.token().get(), last + 1, "the first of its block");
        assert!(guard.valid_for() > LONG_LEASE / 2);
        guard.unlock().await.expect("held");
        assert!(!pair.node.plain.exists("x").await);
    }
}

/// A stopped process keeps others out no longer than its lease. When it resumes, its lease counts
/// from before its request, not from when it hears.
#[tokio::test]
async fn who_hears_of_it_too_late_does_not_have_it() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, SHORT_LEASE).await else { return };
        pair.release().await;
        let late = pair.holder().await.expect("held");
        let handed = pair.mark().await;
        let third = pair.node.locker.lock("x").lease(LONG_LEASE);
        let guard = within("nobody came", third).await.expect("granted");
        assert!(!late.has(guard.nonce()));
        assert!(guard.token().get() > handed);
        pair.awaits_queued().await;
        assert!(pair.holder().await.expect("held").has(guard.nonce()));
        guard.unlock().await.expect("held");
        let next = within("its turn", &mut pair.waiting).await.expect("granted");
        assert!(!late.has(next.nonce()), "it asked anew");
        next.unlock().await.expect("held");
    }
}

/// A waiter that gives up after a handoff releases the name for the next caller (PROTOCOL.md W5).
#[tokio::test]
async fn who_gives_up_after_it_was_handed_the_name_gives_it_back() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, MAX_LEASE).await else { return };
        pair.release().await;
        let holder = pair.holder().await.expect("held");
        drop(pair.waiting);
        let next = within("given back", pair.node.locker.lock("x")).await.expect("granted");
        assert!(!holder.has(next.nonce()));
        next.unlock().await.expect("held");
        assert!(queue(&pair.node.plain).await.is_empty());
    }
}

/// The queue member of a killed process, which no longer subscribes.
#[tokio::test]
async fn a_dead_waiter_is_handed_nothing() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, MAX_LEASE).await else { return };
        let member = queue(&pair.node.plain).await.remove(0);
        let [_, kind, nonce, ttl, fencing] = parts(&member);
        let dead = format!("dead {kind} {nonce}0 {ttl} {fencing}");
        members::add(&pair.node.plain, WAITERS, &dead, 1, Sign::NOW).await;
        let last = pair.mark().await;
        pair.release().await;
        let guard = within("heard", &mut pair.waiting).await.expect("granted");
        assert!(guard.token().get() > last);
        guard.unlock().await.expect("held");
    }
}

/// A waiter that hears nothing for a while leaves no old queue member behind, to which a release
/// would hand the name off in vain (PROTOCOL.md W5).
#[tokio::test]
async fn who_cannot_hear_stands_in_line_as_what_it_asked_last() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, SHORT_LEASE).await else { return };
        pair.node.plain.ask::<()>(&["ACL", "SETUSER", "default", "-subscribe"]).await;
        pair.node.plain.ask::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        let mut asked = Vec::new();
        eventually("it asks again and again", async || {
            tokio::select! {
                biased;
                answer = &mut pair.waiting => panic!("it is held: {answer:?}"),
                queue = queue(&pair.node.plain) => {
                    assert!(queue.len() <= 1, "{queue:?}");
                    asked.extend(queue);
                    asked.dedup();
                    (asked.len() > 3).then_some(())
                }
            }
        })
        .await;
        pair.release().await;
        let guard = within("it looks by itself", &mut pair.waiting).await.expect("granted");
        guard.unlock().await.expect("held");
    }
}

/// An attempt that finds no script is not carried out: the next one replaces the queue entry of the
/// attempt before it (PROTOCOL.md W5).
#[tokio::test]
async fn who_finds_no_script_has_one_place_in_the_queue() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, LONG_LEASE).await else { return };
        let plain = &pair.node.plain;
        let first = queue(plain).await;
        plain.ask::<String>(&["SCRIPT", "FLUSH"]).await;
        let asked_again = async || {
            let members = queue(plain).await;
            members.iter().any(|member| !first.contains(member)).then_some(members)
        };
        let members = not_yet(&mut pair.waiting, eventually("asked again", asked_again)).await;
        assert_eq!(members.len(), 1, "{members:?}, first {first:?}");
    }
}

/// The lock is handed off to the attempt before the one that finds no script. Leaving the queue as
/// either attempt must not release what the caller holds (PROTOCOL.md W5).
#[tokio::test]
async fn who_finds_no_script_keeps_what_it_was_handed_before() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, LONG_LEASE).await else { return };
        let plain = &pair.node.plain;
        let (first, before) = (queue(plain).await, scripts_called(plain).await);
        plain.ask::<String>(&["SCRIPT", "FLUSH"]).await;
        plain.ask::<String>(&["CLIENT", "PAUSE", "60000", "WRITE"]).await;
        let asks = eventually("asks", async || is_asked(plain).await.then_some(()));
        not_yet(&mut pair.waiting, asks).await;
        // From here on the waiter is not polled: it hears of the empty cache after the handoff.
        plain.ask::<String>(&["CLIENT", "UNPAUSE"]).await;
        let answered = async || (scripts_called(plain).await > before).then_some(());
        eventually("found no script", answered).await;
        pair.release().await;
        let holder = pair.holder().await.expect("held");
        assert_eq!(holder.id, parts(&first[0])[2]);
        let guard = within("heard", &mut pair.waiting).await.expect("granted");
        assert!(holder.has(guard.nonce()), "{layout:?}: it asked anew");
        // It has left the queue before.
        guard.unlock().await.expect("held");
        assert!(queue(&pair.node.plain).await.is_empty());
    }
}

/// A server is a replica for a while, as in a failover that is taken back, and keeps its queue. A
/// replica enqueues nobody (PROTOCOL.md W5).
#[tokio::test]
async fn who_asks_a_replica_has_one_place_in_the_queue() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, LONG_LEASE).await else { return };
        let plain = &pair.node.plain;
        // As after a waiter that wants a longer lease.
        plain.ask::<i64>(&["PEXPIRE", WAITERS, "3600000"]).await;
        let (first, before) = (queue(plain).await, scripts_called(plain).await);
        demote(plain).await;
        let asked = async || (scripts_called(plain).await > before).then_some(());
        not_yet(&mut pair.waiting, eventually("asked the replica", asked)).await;
        promote(plain).await;
        let queued = async || {
            let members = queue(plain).await;
            (members.len() == 1 && members != first).then_some(())
        };
        not_yet(&mut pair.waiting, eventually("one place", queued)).await;
    }
}

/// The release by which a waiter leaves the queue is repeated until a master has it.
#[tokio::test]
async fn who_gives_up_at_a_replica_leaves_the_queue_of_the_master() {
    for layout in LAYOUTS {
        let Some(Pair { node, held, other, waiting }) = Pair::start(layout, LONG_LEASE).await
        else {
            return;
        };
        let before = scripts_called(&node.plain).await;
        demote(&node.plain).await;
        drop(waiting);
        let asked = async || (scripts_called(&node.plain).await > before).then_some(());
        eventually("asked the replica", asked).await;
        promote(&node.plain).await;
        eventually("left", async || queue(&node.plain).await.is_empty().then_some(())).await;
        drop((held, other));
    }
}

/// Makes a master a replica of nobody that answers.
async fn demote(plain: &Plain) {
    plain.ask::<String>(&["REPLICAOF", "127.0.0.1", "1"]).await;
}

async fn promote(plain: &Plain) {
    plain.ask::<String>(&["REPLICAOF", "NO", "ONE"]).await;
}

/// How often clients have called a script.
async fn scripts_called(plain: &Plain) -> u64 {
    let stats: String = plain.ask(&["INFO", "commandstats"]).await;
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    calls.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Polls a waiter that must go on waiting, until `event`.
async fn not_yet<T>(waiting: &mut Waiting, event: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        answer = waiting => panic!("it is held: {answer:?}"),
        happened = event => happened,
    }
}

/// A lost mark is set again from a client's clock. A release does not know that clock.
#[tokio::test]
async fn without_a_mark_a_name_is_not_handed_over() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, LONG_LEASE).await else { return };
        let fence = pair.held.as_ref().map_or(FencingToken::NONE, Guard::token);
        pair.node.plain.ask::<i64>(&["DEL", mark_key("x")]).await;
        pair.release().await;
        assert_eq!(pair.holder().await, None);
        let guard = within("woken", &mut pair.waiting).await.expect("granted");
        assert!(guard.token() > fence);
        guard.unlock().await.expect("held");
    }
}

/// If the mark is inside a block, the handoff's block still lies above the mark.
#[tokio::test]
async fn the_block_that_is_handed_over_lies_above_any_mark() {
    for layout in LAYOUTS {
        for (odd, last) in [(0, 63), (1, 63), (30, 63), (31, 63), (32, 95)] {
            let Some(mut pair) = Pair::start(layout, LONG_LEASE).await else { return };
            let base = (pair.mark().await | (FencingToken::BLOCK - 1)) + 1;
            pair.node.plain.set_mark("x", base + odd).await;
            pair.release().await;
            let guard = within("heard", &mut pair.waiting).await.expect("granted");
            assert_eq!(pair.mark().await, base + last, "{layout:?} {odd}");
            assert_eq!(last_of(guard.token()), base + last);
            assert!(guard.token().get() > base + odd);
            guard.unlock().await.expect("held");
        }
    }
}

/// A handoff without a token needs no mark, and leaves none.
#[tokio::test]
async fn who_wants_no_token_is_handed_the_name_without_a_mark() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, LONG_LEASE).await else { return };
        let other = builder().layout(layout).fencing(false);
        let other = other.on(Servers::single(pair.node.server[0].url())).expect("a good URL");
        let first = queue(&pair.node.plain).await;
        pair.waiting = Box::pin(other.lock("x").lease(LONG_LEASE).into_future());
        let nonce = eventually("it left, and another is there", async || {
            tokio::select! {
                biased;
                answer = &mut pair.waiting => panic!("it is held: {answer:?}"),
                queue = queue(&pair.node.plain) => {
                    let member = queue.first().filter(|_| queue.len() == 1 && queue != first)?;
                    let [_, _, nonce, _, fencing] = parts(member);
                    (fencing == "0").then(|| nonce.to_owned())
                }
            }
        })
        .await;
        pair.node.plain.ask::<i64>(&["DEL", mark_key("x")]).await;
        pair.release().await;
        assert_eq!(pair.holder().await.expect("held").id, nonce);
        let guard = within("heard", &mut pair.waiting).await.expect("granted");
        assert_eq!(guard.token(), FencingToken::NONE);
        assert_eq!(pair.node.plain.mark("x").await, None);
        guard.unlock().await.expect("held");
    }
}

/// A hold limit bounds a lock from a handoff, too.
#[tokio::test]
async fn what_is_handed_over_is_held_no_longer_than_was_asked() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, LONG_LEASE).await else { return };
        let limit = Duration::from_millis(1_500);
        pair.waiting = Box::pin(pair.other.lock("x").hold_at_most(limit).into_future());
        eventually("it left, and queues again", async || {
            tokio::select! {
                biased;
                answer = &mut pair.waiting => panic!("it is held: {answer:?}"),
                queue = queue(&pair.node.plain) => {
                    let ttls: Vec<_> = queue.iter().map(|member| parts(member)[3]).collect();
                    (ttls == ["1500"]).then_some(())
                }
            }
        })
        .await;
        pair.release().await;
        let guard = within("heard", &mut pair.waiting).await.expect("granted");
        assert!(guard.valid_for() <= limit);
        let lost = within("its limit", guard.lost()).await;
        assert_eq!(lost.why, quorumlock::LossReason::HoldLimit);
    }
}

/// Two processes hand the lock back and forth. Each token is larger than the one before.
#[tokio::test]
async fn tokens_rise_from_hand_to_hand() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let other =
            builder().layout(layout).on(Servers::single(node.server[0].url())).expect("a good URL");
        let fences = std::sync::Mutex::new(Vec::new());
        let hands = [&node.locker, &other, &node.locker, &other].map(|locker| async {
            for _ in 0..25 {
                let guard = within("its turn", locker.lock("x")).await.expect("granted");
                fences.lock().expect("no panic").push(guard.token());
                guard.unlock().await.expect("held");
            }
        });
        futures::future::join_all(hands).await;
        let fences = fences.into_inner().expect("no panic");
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    }
}

/// A lock that replicas must confirm is not handed off, because a release waits for no replica.
#[tokio::test]
async fn who_needs_replicas_is_only_woken() {
    for layout in LAYOUTS {
        let Some(mut pair) = Pair::start(layout, LONG_LEASE).await else { return };
        let other = builder().replicas(Replicas::AtLeast(1)).layout(layout);
        let other = other.on(Servers::single(pair.node.server[0].url())).expect("a good URL");
        pair.waiting = Box::pin(other.lock("x").lease(LONG_LEASE).into_future());
        eventually("it left, and another is there", async || {
            tokio::select! {
                biased;
                answer = &mut pair.waiting => panic!("it is held: {answer:?}"),
                queue = queue(&pair.node.plain) => {
                    (queue.len() == 1 && members::offers_nothing(&queue[0])).then_some(())
                }
            }
        })
        .await;
        pair.release().await;
        assert_eq!(pair.holder().await, None);
    }
}
