//! Read-write locks at one server (PROTOCOL.md, Read-write locks).

use std::future::IntoFuture as _;
use std::time::Duration;

use quorumlock::{ConfigError, Error, FencingToken, Layout, Servers};
use quorumlock_protocol::{
    Answer, Claim, Denial, EnqueueRequest, HeldInterval, Hints, Instant, Lane, LeaseRequest, Name,
    Node as _, Nonce, Precedence, QueuedAt, ReplyFuture, Vote,
};
use quorumlock_redis::RedisNode;
use quorumlock_tests::{Plain, builder, eventually, waiters, within};

use crate::direct::{self, ask, one_node};
use crate::members::{self, Sign};
use crate::{LAYOUTS, LONG_LEASE, Node};

const NAME: &str = "catalog";

fn name() -> Name {
    Name::new(NAME).expect("a good name")
}

fn request(claim: Claim, nonce: u128, ttl: Duration) -> LeaseRequest {
    LeaseRequest::new(claim, Nonce::from_u128(nonce), ttl)
}

fn reader(nonce: u128) -> LeaseRequest {
    request(Claim::read(name()), nonce, LONG_LEASE)
}

fn writer(nonce: u128) -> LeaseRequest {
    request(Claim::write(name()), nonce, LONG_LEASE)
}

async fn acquire(node: &RedisNode, request: &LeaseRequest) -> Answer<Vote> {
    acquire_with(node, request, Hints::contended(true)).await
}

async fn acquire_with(node: &RedisNode, request: &LeaseRequest, hints: Hints) -> Answer<Vote> {
    direct::acquire(node, request, FencingToken::NONE, hints).await
}

async fn renew(node: &RedisNode, request: &LeaseRequest) -> Answer<Instant> {
    let (answers, to) = ReplyFuture::new();
    node.renew(std::slice::from_ref(request), Lane::Watchdog, to);
    within("an answer", answers).await.pop().expect("one")
}

async fn release(node: &RedisNode, request: &LeaseRequest) -> bool {
    let (held, hints) = (HeldInterval::UNKNOWN, Hints::contended(true));
    match ask(|to| node.release(request, held, Lane::Caller, hints, to)).await {
        Answer::Yes(outcome) => outcome.held,
        other => panic!("{other:?}"),
    }
}

fn granted<T: std::fmt::Debug>(answer: &Answer<T>) -> bool {
    match answer {
        Answer::Yes(_) => true,
        Answer::No(Denial::Busy(_) | Denial::Gone) => false,
        other => panic!("{other:?}"),
    }
}

async fn members(plain: &Plain) -> Vec<String> {
    let mut members: Vec<String> = plain.ask(&["ZRANGE", NAME, "0", "-1"]).await;
    members.sort_unstable();
    members
}

/// RW1: one writer, or any number of readers. A regrant follows the same rule. Both layouts of locks have
/// the same read-write locks.
#[tokio::test]
async fn a_node_has_one_writer_or_readers() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        let regrant = async |request: &LeaseRequest| {
            granted(&ask(|to| node.regrant(request, FencingToken::NONE, Lane::Watchdog, to)).await)
        };
        assert!(granted(&acquire(&node, &reader(1)).await));
        assert!(granted(&acquire(&node, &reader(2)).await) && regrant(&reader(3)).await);
        assert!(!granted(&acquire(&node, &writer(4)).await) && !regrant(&writer(4)).await);
        assert!(granted(&acquire(&node, &reader(1)).await), "idempotent");
        let member = |nonce: u128, mode| format!("{nonce:032x}:{mode}");
        let all = [1, 2, 3].map(|nonce| member(nonce, 'r'));
        assert_eq!(members(plain).await, all, "{layout:?}");
        for nonce in [1, 2, 3] {
            assert!(release(&node, &reader(nonce)).await && !release(&node, &reader(nonce)).await);
        }
        assert!(!plain.exists(NAME).await, "{layout:?}");
        assert!(granted(&acquire(&node, &writer(5)).await) && regrant(&writer(5)).await);
        assert!(!granted(&acquire(&node, &writer(6)).await) && !regrant(&reader(6)).await);
        assert!(!granted(&acquire(&node, &reader(6)).await));
        assert_eq!(members(plain).await, [member(5, 'w')], "{layout:?}");
    }
}

/// RW2: the hold of a reader ends by itself, whatever others renew; a renewal after that says "gone" and
/// brings nothing back.
#[tokio::test]
async fn a_readers_hold_ends_by_itself() {
    let layout = Layout::Redlock;
    let Some(server) = Node::start(layout).await else { return };
    let (node, plain) = (one_node(&server, layout, None), &server.plain);
    let short = LeaseRequest { ttl: Duration::from_millis(300), ..reader(1) };
    assert!(granted(&acquire(&node, &short).await));
    assert!(granted(&acquire(&node, &reader(2)).await));
    eventually("its end", async || {
        let answer = ask(|to| node.inspect(&short.claim, to)).await;
        let Answer::Yes(Some(holder)) = answer else { panic!("{answer:?}") };
        (holder.holds == 1).then_some(())
    })
    .await;
    assert!(!granted(&renew(&node, &short).await), "it has ended");
    assert!(granted(&renew(&node, &reader(2)).await));
    assert!(plain.ask::<i64>(&["PTTL", NAME]).await > 30_000, "the key lasts as the other does");
    assert!(release(&node, &reader(2)).await);
    assert!(granted(&acquire(&node, &writer(3)).await), "nobody is left");
    assert!(!granted(&renew(&node, &short).await), "it stays gone");
}

/// RW3: a waiting writer keeps new readers out, for a while; not those that were notified, nor those that
/// hold the name.
#[tokio::test]
async fn a_waiting_writer_keeps_new_readers_out() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        let place = |precedence| {
            Hints::queued(EnqueueRequest {
                waited: Duration::ZERO,
                precedence,
                handoff: None,
                earlier: Vec::new(),
                queued_at: QueuedAt::default(),
            })
        };
        let queue = node.wait_queue().expect("a queue");
        let heard: Vec<_> = [reader(1), writer(1)]
            .iter()
            .flat_map(|lease| lease.claim.subscribed_names())
            .map(|name| queue.subscribe(&name, std::sync::Arc::new(Nothing), 0))
            .collect();
        assert_eq!(heard.len(), 2, "for different names");
        assert!(granted(&acquire(&node, &reader(1)).await));
        // The writer is queued only where messages can reach it.
        eventually("the writer's turn", async || {
            assert!(!granted(&acquire_with(&node, &writer(2), place(Precedence::AsItComes)).await));
            (!granted(&acquire(&node, &reader(3)).await)).then_some(())
        })
        .await;
        assert!(granted(&acquire(&node, &reader(1)).await), "it holds the name");
        assert!(
            granted(&acquire_with(&node, &reader(4), place(Precedence::Notified)).await),
            "it was notified"
        );
        assert!(release(&node, &reader(1)).await && release(&node, &reader(4)).await);
        assert!(granted(&acquire(&node, &writer(2)).await), "{layout:?}: the writer gets in");
        assert!(release(&node, &writer(2)).await);
        assert!(granted(&acquire(&node, &reader(5)).await), "{layout:?}: the turn is over");
        assert!(release(&node, &reader(5)).await && !plain.exists(NAME).await);
        // A writer that gives up keeps nobody out, nor does one whose last attempt came too late.
        assert!(granted(&acquire(&node, &reader(5)).await));
        assert!(!granted(&acquire_with(&node, &writer(2), place(Precedence::AsItComes)).await));
        queue.leave(&writer(2).claim, None);
        assert!(granted(&acquire(&node, &reader(6)).await), "{layout:?}: it gave up");
        assert!(!granted(&acquire_with(&node, &writer(2), place(Precedence::AsItComes)).await));
        assert!(!release(&node, &writer(2)).await, "it held nothing");
        assert!(granted(&acquire(&node, &reader(7)).await), "{layout:?}: it gave up");
        for nonce in [5, 6, 7] {
            assert!(release(&node, &reader(nonce)).await);
        }
        // A writer that dies keeps readers out until its third poll would have come.
        assert!(granted(&acquire(&node, &reader(6)).await));
        assert!(!granted(&acquire_with(&node, &writer(7), place(Precedence::AsItComes)).await));
        assert!(!granted(&acquire(&node, &reader(8)).await));
        eventually("the end of the turn", async || {
            granted(&acquire(&node, &reader(8)).await).then_some(())
        })
        .await;
    }
}

/// RW3: a read passes a waiting writer while its locker holds a read that has passed none. One that has passed
/// lets no other pass, also once it is renewed: overlapping reads of one process starve no writer. When no
/// writer waits any more it is as any other. A writer that reads on has passed none.
#[tokio::test]
async fn a_read_inside_a_read_passes_a_waiting_writer() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let node = one_node(&server, layout, None);
        // The end of a nonce is the locker.
        let ours = |number: u128| reader(number << 64 | 7);
        let written = writer(1 << 64 | 9);
        let queue = node.wait_queue().expect("a queue");
        let listen = |name| queue.subscribe(&name, std::sync::Arc::new(Nothing), 0);
        let _heard: Vec<_> = written.claim.subscribed_names().map(listen).collect();
        // Some in a row: the end of a hold is even or odd.
        for outer in 1..=4 {
            assert!(granted(&acquire(&node, &ours(outer)).await));
        }
        begin_turn(&node, &written).await;
        for inner in 5..=8 {
            assert!(granted(&acquire(&node, &ours(inner)).await), "{layout:?}: beside the outer");
            assert!(granted(&renew(&node, &ours(inner)).await));
            assert!(granted(&renew(&node, &ours(1)).await));
            assert!(granted(&acquire(&node, &ours(inner)).await), "idempotent");
        }
        for outer in 1..=4 {
            assert!(granted(&acquire(&node, &ours(9)).await), "{layout:?}: an outer one is left");
            assert!(release(&node, &ours(9)).await && release(&node, &ours(outer)).await);
        }
        assert!(!granted(&acquire(&node, &ours(9)).await), "{layout:?}: the writer would starve");
        queue.leave(&written.claim, None);
        for inner in 5..=8 {
            assert!(granted(&renew(&node, &ours(inner)).await));
        }
        begin_turn(&node, &written).await;
        assert!(granted(&acquire(&node, &ours(9)).await), "{layout:?}: they were there before");
        for inner in 5..=9 {
            assert!(release(&node, &ours(inner)).await);
        }
        assert!(granted(&acquire(&node, &written).await), "{layout:?}: the writer gets in");
        begin_turn(&node, &writer(1 << 64 | 10)).await;
        let reads_on = LeaseRequest { nonce: written.nonce, ..reader(1) };
        assert!(granted(&renew(&node, &reads_on).await));
        assert!(
            granted(&acquire(&node, &reader(2 << 64 | 9)).await),
            "{layout:?}: inside that read"
        );
    }
}

/// A writer waits, and keeps new readers out for longer than a test takes.
async fn begin_turn(node: &RedisNode, waits: &LeaseRequest) {
    eventually("the writer's turn", async || {
        let place = Hints::queued(EnqueueRequest {
            waited: LONG_LEASE,
            precedence: Precedence::AsItComes,
            handoff: None,
            earlier: Vec::new(),
            queued_at: QueuedAt::default(),
        });
        assert!(!granted(&acquire_with(node, waits, place).await));
        (!granted(&acquire(node, &reader(8)).await)).then_some(())
    })
    .await;
}

struct Nothing;

impl quorumlock_protocol::ReplySink<quorumlock_protocol::WaitEvent> for Nothing {
    fn collect(&self, _from: usize, _event: quorumlock_protocol::WaitEvent) {}
}

/// RW4: a renewal by the reader's member makes a writer's hold a reader's. A late renewal of the writer's
/// extends it and does not make it a writer's again. A release ends both.
#[tokio::test]
async fn a_renewal_downgrades_and_never_upgrades() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        assert!(granted(&acquire(&node, &writer(1)).await));
        assert!(granted(&renew(&node, &reader(1)).await));
        let read = [format!("{:032x}:r", 1)];
        assert_eq!(members(plain).await, read, "{layout:?}");
        assert!(granted(&renew(&node, &writer(1)).await), "{layout:?}: still held");
        assert_eq!(members(plain).await, read, "{layout:?}");
        assert!(granted(&acquire(&node, &reader(2)).await));
        assert!(!granted(&renew(&node, &reader(3)).await), "{layout:?}: another's");
        assert!(release(&node, &writer(1)).await, "{layout:?}: a late release of the writer's");
        assert!(release(&node, &reader(2)).await && !plain.exists(NAME).await);
        assert!(granted(&acquire(&node, &writer(4)).await));
        assert!(release(&node, &reader(4)).await, "{layout:?}: this node heard of no downgrade");
        assert!(!plain.exists(NAME).await);
    }
}

/// A release of the writer serves the queued readers up to the next writer, and tells each what it is.
#[tokio::test]
async fn a_release_serves_the_readers_up_to_the_next_writer() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (locker, plain) = server.clients();
        let held =
            within("free", locker.rw_lock(NAME).write().lease(LONG_LEASE)).await.expect("free");
        let queue = waiters(NAME);
        let mut told = Vec::new();
        for (step, member) in (1..).zip(["a read", "b read", "c write", "d read"]) {
            told.push(members::waiter(&plain, &queue, member, step, Sign::NOW).await);
        }
        held.unlock().await.expect("held");
        for reader in &mut told[..2] {
            assert_eq!(within("the message", reader.next()).await, "quorumlock:read:catalog");
        }
        assert_eq!(members::notified(&plain, &queue).await, ["a read", "b read"], "{layout:?}");
        let again =
            within("free", locker.rw_lock(NAME).write().lease(LONG_LEASE)).await.expect("free");
        again.unlock().await.expect("held");
        let message = within("the message", told[2].next()).await;
        assert_eq!(message, "quorumlock:write:catalog", "{layout:?}");
    }
}

/// Programs of the version before write no kind into their queue members (STABILITY.md). They are told as
/// what they are, and handed nothing.
#[tokio::test]
async fn waiters_of_an_earlier_version_are_notified_as_what_they_are() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (locker, plain) = server.clients();
        let (queue, mut told) = (waiters(NAME), Vec::new());
        let held =
            within("free", locker.rw_lock(NAME).write().lease(LONG_LEASE)).await.expect("free");
        let member = |id, mode| format!("{id} {:032x}:{mode} 60000 1", 7);
        let members = ["a r", &member('b', 'r'), "c", &member('d', 'w'), &member('e', 'r')];
        for (score, member) in (1..).zip(members) {
            told.push(plain.listen(&members::channel_of(member)).await);
            plain.ask::<i64>(&["ZADD", &queue, &score.to_string(), member]).await;
        }
        let [read, write] = ["read", "write"].map(|mode| format!("quorumlock:{mode}:{NAME}"));
        let mut guard = Some(held);
        for served in [&[(0, &read), (1, &read)][..], &[(2, &write)], &[(3, &write)], &[(4, &read)]]
        {
            guard.take().expect("held").unlock().await.expect("held");
            for (at, message) in served {
                assert_eq!(told[*at].next().await, **message, "{layout:?}: {at}");
            }
            // Each has left the queue, and is queued again when it asks.
            let (last, _) = served.last().expect("one");
            assert_eq!(members::all(&plain, &queue).await, members[last + 1..], "{layout:?}");
            let free = locker.rw_lock(NAME).write().lease(LONG_LEASE);
            guard = Some(within("nobody came", free).await.expect("free"));
        }
    }
}

/// A release may hand the name off to a reader's attempt while a later one is granted, since readers share.
/// Then nobody takes the handoff, and the locker gives it back.
#[tokio::test]
async fn a_handoff_that_nobody_takes_is_given_back() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (locker, plain) = server.clients();
        let holder = builder()
            .layout(layout)
            .on(Servers::single(server.server[0].url()))
            .expect("a good URL");
        let held =
            within("free", holder.rw_lock(NAME).write().lease(LONG_LEASE)).await.expect("free");
        let waiting = tokio::spawn(locker.rw_lock(NAME).read().lease(LONG_LEASE).into_future());
        let queue = waiters(NAME);
        let member = eventually("queued", async || {
            let members: Vec<String> = plain.ask(&["ZRANGE", &queue, "0", "-1"]).await;
            members.into_iter().find(|member| member.contains(":r "))
        })
        .await;
        held.unlock().await.expect("held");
        let reader = within("granted", waiting).await.expect("no panic").expect("granted");
        let (waiter, _) = member.split_once(' ').expect("an offer");
        let stray = format!("{:032x}:r", 7);
        let far = u64::MAX.to_string();
        plain.ask::<i64>(&["ZADD", NAME, &far, &stray]).await;
        let (channel, message) =
            (format!("quorumlock:handoff:{waiter}"), format!("{stray} 0 quorumlock:read:{NAME}"));
        assert_eq!(plain.ask::<i64>(&["PUBLISH", &channel, &message]).await, 1, "{layout:?}");
        eventually("given back", async || {
            let score: Option<f64> = plain.ask(&["ZSCORE", NAME, &stray]).await;
            score.is_none().then_some(())
        })
        .await;
        reader.unlock().await.expect("still held");
    }
}

/// A sorted set that is no lock is refused and kept.
#[tokio::test]
async fn a_sorted_set_that_is_no_lock_is_refused() {
    let Some(server) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = server.clients();
    let far = u64::MAX.to_string();
    plain.ask::<i64>(&["ZADD", NAME, &far, "theirs"]).await;
    for refused in [
        within("an answer", locker.rw_lock(NAME).try_read()).await.map(|guard| guard.is_some()),
        within("an answer", locker.rw_lock(NAME).try_write()).await.map(|guard| guard.is_some()),
        within("an answer", locker.rw_lock(NAME).force_unlock()).await,
    ] {
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    assert_eq!(plain.ask::<i64>(&["ZCARD", NAME]).await, 1, "not deleted");
}

/// A server that counts tokens itself counts none for read-write locks.
#[tokio::test]
async fn redissons_counter_has_no_read_write_locks() {
    let Some(server) = Node::start(Layout::Redisson).await else { return };
    let locker = builder()
        .redisson_fenced(true)
        .on(Servers::single(server.server[0].url()))
        .expect("one server");
    let refused = within("an answer", locker.rw_lock(NAME).try_read().into_future()).await;
    let Err(Error::Config(ConfigError::DoesNotApply { option, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(option, "redisson_fenced");
}
