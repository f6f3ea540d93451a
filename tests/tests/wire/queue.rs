//! The wait queue of a name: a release notifies the right waiter, and no waiter is forgotten
//! (PROTOCOL.md W3, W4). The waiters here are only a queue member and a channel and never poll, so
//! no timer can hide a fault of the queue.

use std::future::IntoFuture as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::{Error, FencingToken, Guard, Layout, Locker, Servers};
use quorumlock_protocol::{
    Answer, Denial, EnqueueRequest, Hints, LeaseRequest, Name, Node as _, Nonce, Precedence,
    QueuedAt, ReplySink, WaitEvent,
};
use quorumlock_redis::RedisNode;
use quorumlock_tests::{Channel, Plain, builder, eventually, mark_key, within};

use crate::direct::{acquire, one_node};
use crate::members::{self, LATE, Sign};
use crate::{LAYOUTS, LONG_LEASE, Node};

const NAME: &str = "invoice/7";
const WAITERS: &str = "quorumlock:waiters:{invoice/7}";
const CHANNEL: &str = "redisson_lock__channel:{invoice/7}";

#[tokio::test]
async fn a_release_wakes_the_first_in_the_queue_alone() {
    on_each_wire(async |Held { node, locker, plain, guard }| {
        let (mut first, mut second) = (node.enqueue("a", 1).await, node.enqueue("b", 2).await);
        let both = queue(&plain).await;
        guard.unlock().await.expect("held");
        assert_eq!(first.next().await, NAME);
        // The notified waiter keeps its place until it asks.
        assert_eq!(queue(&plain).await, both);
        assert_eq!(members::notified(&plain, WAITERS).await, both[..1]);
        let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("nobody came");
        guard.unlock().await.expect("held");
        assert_eq!(second.next().await, NAME);
    })
    .await;
}

#[tokio::test]
async fn a_forced_release_wakes_too() {
    on_each_wire(async |Held { node, locker, guard: _guard, .. }| {
        let mut first = node.enqueue("a", 1).await;
        assert!(locker.mutex(NAME).force_unlock().await.expect("an answer"));
        assert_eq!(first.next().await, NAME);
    })
    .await;
}

/// On a quorum the lock may be won without this node, and waiters may be queued on this node only.
#[tokio::test]
async fn a_release_wakes_where_the_name_is_free_although_it_was_not_held() {
    on_each_wire(async |Held { node, plain, guard, .. }| {
        let mut first = node.enqueue("a", 1).await;
        plain.ask::<i64>(&["DEL", NAME]).await;
        let answer = guard.unlock().await;
        assert!(matches!(answer, Err(Error::Lost(_))), "{answer:?}");
        assert_eq!(first.next().await, NAME);
    })
    .await;
}

#[tokio::test]
async fn a_dead_waiter_is_skipped() {
    on_each_wire(async |Held { node, plain, guard, .. }| {
        for (dead, step) in [("dead hash", 1), ("dead string", 2)] {
            members::add(&plain, WAITERS, dead, step, Sign::NOW).await;
        }
        let mut alive = node.enqueue("alive", 3).await;
        guard.unlock().await.expect("held");
        assert_eq!(alive.next().await, NAME);
    })
    .await;
}

/// Programs of the version before write members without a kind, with an offer or without one, and the member
/// '' when they have notified a waiter (STABILITY.md).
#[tokio::test]
async fn a_waiter_of_an_earlier_version_is_notified_and_handed_nothing() {
    on_each_wire(async |Held { locker, plain, guard, .. }| {
        let offer = format!("b {} 60000 1", Nonce::from_u128(7));
        let mut told = Vec::new();
        for (score, member) in (0..).zip(["", "a", &offer]) {
            told.push(plain.listen(&members::channel_of(member)).await);
            plain.ask::<i64>(&["ZADD", WAITERS, &score.to_string(), member]).await;
        }
        guard.unlock().await.expect("held");
        assert_eq!(told[1].next().await, NAME);
        assert_eq!(queue(&plain).await, [offer]);
        let guard = within("nobody came", locker.lock(NAME).lease(LONG_LEASE)).await;
        guard.expect("free").unlock().await.expect("held");
        assert_eq!(told[2].next().await, NAME);
        assert!(!plain.exists(NAME).await && queue(&plain).await.is_empty());
    })
    .await;
}

/// A release of the version before pops the head, whatever its member says, notifies it, and leaves the
/// member ''. The waiter hears of it, and removes that member.
#[tokio::test]
async fn a_waiter_hears_of_a_release_of_an_earlier_version() {
    on_each_wire(async |Held { node, plain, guard, .. }| {
        let other =
            builder().layout(node.layout).polls(false).on(Servers::single(node.server[0].url()));
        let waiting = other.expect("a good URL").lock(NAME).lease(LONG_LEASE);
        let waiting = tokio::spawn(waiting.into_future());
        is_queued(&plain, 1).await;
        plain.ask::<i64>(&["DEL", NAME]).await;
        let (head, _): (String, f64) = plain.ask(&["ZPOPMIN", WAITERS]).await;
        plain.ask::<i64>(&["ZADD", WAITERS, "0", ""]).await;
        plain.ask::<i64>(&["PUBLISH", &members::channel_of(&head), NAME]).await;
        let next = within("it asks", waiting).await.expect("no panic").expect("granted");
        assert!(queue(&plain).await.is_empty());
        next.unlock().await.expect("held");
        drop(guard);
    })
    .await;
}

/// A waiter that is notified and then cancelled passes the notification on. Otherwise the other
/// waiters would sleep on.
#[tokio::test]
async fn a_turn_that_is_not_taken_is_passed_on() {
    on_each_wire(async |Held { node, plain, guard, .. }| {
        let other = node.another();
        let mut waiting = Box::pin(other.lock(NAME).lease(LONG_LEASE).into_future());
        awaits_queued(&plain, &mut waiting, 1).await;
        let ours = queue(&plain).await;
        let mut next = node.enqueue("next", LATE).await;
        // The waiter is never polled again, so it is notified and does nothing.
        there_is_no_mark(&plain).await;
        guard.unlock().await.expect("held");
        awaits_notified(&plain, &ours).await;
        drop(waiting);
        assert_eq!(next.next().await, NAME);
    })
    .await;
}

/// The network can repeat the registration of a waiter that has been served long ago.
#[tokio::test]
async fn a_turn_of_a_process_where_nobody_waits_is_passed_on() {
    on_each_wire(async |Held { node, plain, guard, .. }| {
        let other = node.another();
        let mut waiting = Box::pin(other.lock(NAME).lease(LONG_LEASE).into_future());
        awaits_queued(&plain, &mut waiting, 1).await;
        let theirs = queue(&plain).await.remove(0);
        let id = theirs.split(' ').next().expect("its id");
        drop(waiting);
        eventually("it left", async || queue(&plain).await.is_empty().then_some(())).await;
        let theirs = format!("{id} {}", members::kind_of(node.layout));
        members::add(&plain, WAITERS, &theirs, 1, Sign::NOW).await;
        let mut next = node.enqueue("next", 2).await;
        guard.unlock().await.expect("held");
        assert_eq!(next.next().await, NAME);
    })
    .await;
}

#[tokio::test]
async fn sixteen_processes_are_served_in_the_order_in_which_they_came() {
    on_each_wire(async |Held { node, plain, mut guard, .. }| {
        let (mut waiting, mut order) = (Vec::new(), Vec::new());
        for waiters in 1..=16 {
            let mut waiter = Box::pin(node.another().lock(NAME).lease(LONG_LEASE).into_future());
            awaits_queued(&plain, &mut waiter, waiters).await;
            // The waiter is not polled until it is at the head of the queue, so it cannot ask by
            // itself before.
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
    })
    .await;
}

/// A waiter that was notified and then refused has waited the longest.
#[tokio::test]
async fn a_waiter_that_was_woken_in_vain_keeps_its_place() {
    on_each_wire(async |Held { node, plain, guard, .. }| {
        let mut waiting = Box::pin(node.another().lock(NAME).lease(LONG_LEASE).into_future());
        awaits_queued(&plain, &mut waiting, 1).await;
        let ours = queue(&plain).await;
        let _late = node.enqueue("late", LATE).await;
        there_is_no_mark(&plain).await;
        guard.unlock().await.expect("held");
        awaits_notified(&plain, &ours).await;
        let first = node.another();
        let _guard = first.lock(NAME).lease(LONG_LEASE).await.expect("it was quicker");
        // The waiter asks with another nonce.
        let asked = async || (queue(&plain).await[0] != ours[0]).then_some(());
        tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            () = eventually("it asks", asked) => {}
        }
        let queue = queue(&plain).await;
        let same = |a: &str, b: &str| a.split(' ').next() == b.split(' ').next();
        assert!(same(&queue[0], &ours[0]) && same(&queue[1], "late"), "{queue:?}");
        assert_eq!(queue.len(), 2, "{queue:?}");
    })
    .await;
}

/// A process that releases the lock and asks again is queued behind the waiters.
#[tokio::test]
async fn after_its_release_a_process_asks_behind_those_who_wait() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        // If the machine stalls in between, the waiters' precedence has ended.
        eventually("it stands behind", async || {
            let guard = within("free", locker.lock(NAME).lease(LONG_LEASE)).await.expect("free");
            let mut first = node.enqueue("a", 1).await;
            guard.unlock().await.expect("held");
            let mut again = Box::pin(locker.lock(NAME).lease(LONG_LEASE).into_future());
            let behind = tokio::select! {
                biased;
                () = is_queued(&plain, 2) => true,
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

/// Programs that do not use the queue are notified as well, but not of every release.
#[tokio::test]
async fn a_subscriber_of_the_names_channel_does_not_starve_beside_a_queue() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let mut told = plain.listen(CHANNEL).await;
    let _waiter = plain.listen("quorumlock:wake:a").await;
    let release = async || loop {
        let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
        members::add(&plain, WAITERS, "a hash", 1, Sign::NOW).await;
        guard.unlock().await.expect("held");
    };
    tokio::select! {
        message = told.next() => assert_eq!(message, "0"),
        () = release() => {}
    }
}

#[tokio::test]
async fn a_subscription_that_broke_often_comes_back_as_soon_as_the_first_time() {
    const BREAKS: usize = 60;
    /// Half of what the pauses take if each doubles up to the longest one, 1 s, which a random share halves.
    const BOUND: Duration = Duration::from_secs(15);
    on_each_wire(async |Held { node, plain, guard: _guard, .. }| {
        let mut waiting = Box::pin(node.another().lock(NAME).lease(LONG_LEASE).into_future());
        awaits_queued(&plain, &mut waiting, 1).await;
        let breaks = async {
            for _ in 0..BREAKS {
                eventually("it is subscribed", async || {
                    (plain.ask::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]).await == 1)
                        .then_some(())
                })
                .await;
            }
        };
        tokio::select! {
            biased;
            answer = waiting => panic!("it is held: {answer:?}"),
            done = tokio::time::timeout(BOUND, breaks) => done.expect("no pause grows"),
        }
    })
    .await;
}

#[tokio::test]
async fn a_waiter_that_gives_up_leaves_nothing_behind_and_the_queue_expires() {
    on_each_wire(async |Held { node, plain, guard: _guard, .. }| {
        let wait = Duration::from_millis(300);
        let mut waiting =
            Box::pin(node.another().lock(NAME).lease(LONG_LEASE).wait(wait).into_future());
        awaits_queued(&plain, &mut waiting, 1).await;
        let left = plain.pttl(WAITERS).await;
        assert!((30_000..=60_000).contains(&left), "as long as the lease: {left}");
        let answer = within("its bound", waiting).await;
        assert!(matches!(answer, Err(Error::Busy(_))), "{answer:?}");
        eventually("left", async || (!plain.exists(WAITERS).await).then_some(())).await;

        // `try_lock` does not enqueue.
        assert!(node.another().try_lock(NAME).await.expect("an answer").is_none());
        assert!(!plain.exists(WAITERS).await);
    })
    .await;
}

/// Deletes the mark. A release then makes no handoff: it notifies the waiter, which proposes a
/// token.
async fn there_is_no_mark(plain: &Plain) {
    plain.ask::<i64>(&["DEL", mark_key(NAME)]).await;
}

/// A refusal tells each waiter its place, by which it polls.
#[tokio::test]
async fn a_waiter_is_told_its_place() {
    on_each_wire(async |Held { node, plain, guard: _guard, .. }| {
        let name = Name::new(NAME).expect("a good name");
        let nodes = [(); 3].map(|()| one_node(&node, node.layout, None));
        let subscribe = |node: &RedisNode| {
            node.wait_queue().expect("a queue").subscribe(&name, Arc::new(Nothing), 0)
        };
        let _subscribed: Vec<_> = nodes.iter().map(subscribe).collect();
        let ask_for = async |node: &RedisNode, waited: u64| {
            let queued_at = QueuedAt::default();
            let hints = Hints::queued(EnqueueRequest {
                waited: Duration::from_secs(waited),
                precedence: Precedence::AsItComes,
                handoff: None,
                earlier: Vec::new(),
                queued_at: queued_at.clone(),
            });
            let nonce = Nonce::from_u128(waited.into());
            let lease = LeaseRequest::new(name.clone(), nonce, LONG_LEASE);
            let refused = acquire(node, &lease, FencingToken::NONE, hints).await;
            assert!(matches!(refused, Answer::No(Denial::Busy(Some(_)))), "{refused:?}");
            queued_at.take_place()
        };
        // They come in the other order. None has a place before it subscribes.
        for (at, waited) in [(2, 10), (1, 20), (0, 30)] {
            let first = eventually("queued", async || ask_for(&nodes[at], waited).await).await;
            assert_eq!(first, 1, "it has waited the longest");
        }
        for (at, waited) in [(0, 30), (1, 20), (2, 10)] {
            let place = ask_for(&nodes[at], waited).await;
            assert_eq!(place, Some(u32::try_from(at + 1).expect("small")));
        }
        assert_eq!(queue(&plain).await.len(), 3);
    })
    .await;
}

/// A waiter that is second asks when it is told, and yields to the first.
#[tokio::test]
async fn a_waiter_that_is_told_that_it_is_second_asks() {
    on_each_wire(async |Held { node, plain, guard: _guard, .. }| {
        let other =
            builder().layout(node.layout).polls(false).on(Servers::single(node.server[0].url()));
        let other = other.expect("a good URL");
        let mut waiting: Waiting = Box::pin(other.lock(NAME).lease(LONG_LEASE).into_future());
        awaits_queued(&plain, &mut waiting, 1).await;
        // Until its subscription is answered it asks by itself.
        let ours = eventually("it sleeps", async || {
            let before = queue(&plain).await;
            let slept = tokio::time::timeout(Duration::from_millis(200), &mut waiting).await;
            assert!(slept.is_err(), "it is held: {slept:?}");
            (before == queue(&plain).await).then_some(before)
        })
        .await;
        let told = format!("quorumlock:second:{NAME}");
        plain.ask::<i64>(&["PUBLISH", &members::channel_of(&ours[0]), &told]).await;
        let asked = async || {
            let now = queue(&plain).await;
            (now != ours && now.len() == 1).then_some(())
        };
        tokio::select! {
            biased;
            answer = waiting => panic!("it is held: {answer:?}"),
            () = eventually("it asks with another nonce", asked) => {}
        }
    })
    .await;
}

struct Nothing;

impl ReplySink<WaitEvent> for Nothing {
    fn collect(&self, _from: usize, _event: WaitEvent) {}
}

type Waiting = Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>;

/// A server with a name that is held, and the locker that holds it.
struct Held {
    node: Node,
    locker: Locker,
    plain: Plain,
    guard: Guard,
}

async fn on_each_wire(test: impl AsyncFn(Held)) {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
        test(Held { node, locker, plain, guard }).await;
    }
}

impl Node {
    /// A locker as of another process.
    fn another(&self) -> Locker {
        builder().layout(self.layout).on(Servers::single(self.server[0].url())).expect("a good URL")
    }

    /// A waiter that is only a member and a channel, and asked just now.
    async fn enqueue(&self, id: &str, step: u64) -> Channel {
        let member = format!("{id} {}", members::kind_of(self.layout));
        members::waiter(&self.plain, WAITERS, &member, step, Sign::NOW).await
    }
}

async fn queue(plain: &Plain) -> Vec<String> {
    members::all(plain, WAITERS).await
}

/// Waits until the queue's notified members are these.
async fn awaits_notified(plain: &Plain, notified: &[String]) {
    let told = async || (members::notified(plain, WAITERS).await == notified).then_some(());
    eventually("notified", told).await;
}

async fn is_queued(plain: &Plain, many: usize) {
    eventually("in line", async || (queue(plain).await.len() == many).then_some(())).await;
}

/// Polls a waiter until the queue has this many members.
async fn awaits_queued(plain: &Plain, waiting: &mut Waiting, many: usize) {
    tokio::select! {
        biased;
        answer = waiting => panic!("it is held: {answer:?}"),
        () = is_queued(plain, many) => {}
    }
}

/// Else the client would take a notification for passed on that the replica cannot pass on.
#[tokio::test]
async fn a_replica_refuses_a_caller_that_leaves_the_queue() {
    on_each_wire(async |Held { node, plain, guard, .. }| {
        plain.log_all().await;
        // A release that finds the waiter only afterwards notifies it by the same script.
        let _first = node.enqueue("a", 1).await;
        guard.unlock().await.expect("held");
        let dequeue = eventually("the waiter is notified", async || {
            let leaves = |words: &Vec<String>| {
                words[0] == "EVALSHA" && words.get(4).is_some_and(|key| key == WAITERS)
            };
            plain.slow_log().await.into_iter().find(leaves)
        })
        .await;
        plain.ask::<String>(&["REPLICAOF", "127.0.0.1", "1"]).await;
        let dequeue: Vec<_> = dequeue.iter().map(String::as_str).collect();
        let error = plain.send::<i64>(&dequeue).await.expect_err("a replica");
        assert_eq!(error.code(), Some("READONLY"), "{error}");
    })
    .await;
}
