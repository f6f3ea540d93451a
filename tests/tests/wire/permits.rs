//! Permits at one server: slots are locks with derived names (PROTOCOL.md, Permits).

use std::collections::BTreeSet;
use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::{ConfigError, Error, FencingToken, Layout, Servers};
use quorumlock_protocol::{
    Acceptance, Answer, Claim, Denial, EnqueueRequest, FreeSlots, Hints, LeaseRequest, Name,
    Node as _, Nonce, Precedence, QueuedAt, ReplySink, WaitEvent,
};
use quorumlock_tests::{Log, builder, eventually, mark_key, scripts_only, within};

use crate::direct::{acquire, one_node};
use crate::members::{self, LATE, Sign};
use crate::{LAYOUTS, LONG_LEASE, Node};

const WAITERS: &str = "quorumlock:waiters:raw:quorumlock:permit:{db}:";

fn key(slot: u16) -> String {
    format!("quorumlock:permit:{{db}}:{slot}")
}

fn request(slot: u16, nonce: u128) -> LeaseRequest {
    let any = Claim::any_slot(Name::new("db").expect("a good name"), 5).expect("good permits");
    let slot = any.with_slot(slot).expect("one of them");
    LeaseRequest::new(slot, Nonce::from_u128(nonce), LONG_LEASE)
}

/// All slots that are reported free.
fn reported(free: &FreeSlots) -> BTreeSet<u16> {
    (0..256).filter(|slot| free.best(0.0, |other| other == *slot).is_some()).collect()
}

/// PER1: a slot is an ordinary lock with a name of its own. PER2: a refusal tells which slots are free.
#[tokio::test]
async fn a_refusal_tells_which_slots_are_free() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        for slot in [1, 3] {
            let granted =
                acquire(&node, &request(slot, 7), FencingToken::NONE, Hints::contended(true)).await;
            assert!(matches!(granted, Answer::Yes(_)), "{layout:?}: {granted:?}");
            let (type_of, expected) = (
                plain.ask::<String>(&["TYPE", &key(slot)]).await,
                match layout {
                    Layout::Redlock => "string",
                    Layout::Redisson => "hash",
                },
            );
            assert_eq!(type_of, expected);
        }
        let free = FreeSlots::default();
        let hints = Hints::contended(true).with_free_slots(free.clone());
        let refused = acquire(&node, &request(3, 8), FencingToken::NONE, hints).await;
        assert!(matches!(refused, Answer::No(Denial::Busy(Some(_)))), "{layout:?}: {refused:?}");
        assert_eq!(reported(&free), [0, 2, 4].into(), "{layout:?}");
        assert!(!plain.exists(WAITERS).await, "it did not ask to be queued");
        for slot in [0, 2, 4] {
            let granted =
                acquire(&node, &request(slot, 9), FencingToken::NONE, Hints::contended(true)).await;
            assert!(matches!(granted, Answer::Yes(_)), "{layout:?}: {granted:?}");
        }
        let free = FreeSlots::default();
        let hints = Hints::contended(true).with_free_slots(free.clone());
        acquire(&node, &request(0, 10), FencingToken::NONE, hints).await;
        assert!(!free.is_empty() && reported(&free).is_empty(), "{layout:?}: none is free");
    }
}

/// PER2: waiters for all slots have one queue; a waiter that yields leaves a free slot to the queue's head.
#[tokio::test]
async fn waiters_for_all_slots_have_one_queue() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        let queue = node.wait_queue().expect("a queue");
        let inbox = Arc::new(Nothing);
        let _heard = queue.subscribe(&request(0, 1).claim.queue(), inbox, 0);
        let granted =
            acquire(&node, &request(2, 7), FencingToken::NONE, Hints::contended(true)).await;
        assert!(matches!(granted, Answer::Yes(_)), "{layout:?}: {granted:?}");
        let place = |yields| EnqueueRequest {
            waited: Duration::ZERO,
            precedence: if yields { Precedence::Yields } else { Precedence::AsItComes },
            handoff: None,
            earlier: Vec::new(),
            queued_at: QueuedAt::default(),
        };
        eventually("queued", async || {
            let free = FreeSlots::default();
            let hints = Hints::queued(place(false)).with_free_slots(free.clone());
            let refused = acquire(&node, &request(2, 8), FencingToken::NONE, hints).await;
            assert!(matches!(refused, Answer::No(Denial::Busy(Some(_)))), "{refused:?}");
            assert_eq!(reported(&free), [0, 1, 3, 4].into(), "{layout:?}");
            // It is queued only where messages can reach it.
            plain.exists(WAITERS).await.then_some(())
        })
        .await;
        plain.ask::<i64>(&["DEL", WAITERS]).await;
        members::add(plain, WAITERS, "another permit", 1, Sign::NOW).await;
        members::add(plain, WAITERS, "yet-another permit", LATE, Sign::NOW).await;
        let yields =
            acquire(&node, &request(4, 9), FencingToken::NONE, Hints::queued(place(true))).await;
        assert_eq!(yields, Answer::No(Denial::Busy(None)), "{layout:?}: slot 4 is free");
        assert_eq!(plain.ask::<i64>(&["ZCARD", WAITERS]).await, 3, "{layout:?}");
    }
}

/// PER3: the slots of one name share a mark, so that a token is above those of all slots.
#[tokio::test]
async fn slots_share_a_mark() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let node = one_node(&server, layout, None);
        let token = |value: u64| FencingToken::new(value | (FencingToken::BLOCK - 1));
        let first = acquire(&node, &request(0, 7), token(3_200), Hints::contended(true)).await;
        let second = acquire(&node, &request(1, 8), token(3_200), Hints::contended(true)).await;
        let said = [first, second].map(|vote| match vote {
            Answer::Yes(vote) => vote.token,
            other => panic!("{layout:?}: {other:?}"),
        });
        assert_eq!(said, [Acceptance::Accepted, Acceptance::Behind(token(3_200))], "{layout:?}");
        assert_eq!(server.plain.mark("db").await, Some(token(3_200).get()), "{}", mark_key("db"));
    }
}

/// A free slot takes as many commands as a free lock; one of many slots takes three requests at most.
#[tokio::test]
async fn a_free_slot_is_found_in_three_requests() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (locker, other) = (server.locker.clone(), builder().layout(layout));
        let other = other.on(Servers::single(server.server[0].url())).expect("a good URL");
        within("connected", locker.ping()).await.expect("an answer");
        let before = within("free", locker.lock("before")).await.expect("granted");
        before.unlock().await.expect("held");
        if !scripts_only() {
            let before = server.calls("evalsha").await;
            let permit =
                within("free", locker.semaphore("db", 100).acquire().lease(LONG_LEASE)).await;
            assert_eq!(server.calls("evalsha").await, before, "{layout:?}: by plain commands");
            permit.expect("granted").unlock().await.expect("held");
        }
        let mut held = Vec::new();
        for _ in 0..99 {
            held.push(
                within("free", other.semaphore("db", 100).acquire().lease(LONG_LEASE))
                    .await
                    .expect("free"),
            );
        }
        for _ in 0..8 {
            let before = server.calls("evalsha").await;
            let permit = within("one is free", locker.semaphore("db", 100).try_acquire()).await;
            let permit = permit.expect("an answer").expect("one is free");
            let scripts = server.calls("evalsha").await - before;
            assert!(scripts <= 3, "{layout:?}: {scripts} requests");
            permit.unlock().await.expect("held");
        }
    }
}

/// A release of any slot is told to the head of the queue, with the slot's name.
#[tokio::test]
async fn a_release_tells_the_head_of_the_queue_which_slot_is_free() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (locker, plain) = server.clients();
        let take = || locker.semaphore("db", 3).acquire().lease(LONG_LEASE);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(within("free", take()).await.expect("granted"));
        }
        let another = builder()
            .layout(layout)
            .on(Servers::single(server.server[0].url()))
            .expect("a good URL");
        let waiting = tokio::spawn(another.semaphore("db", 3).acquire().into_future());
        eventually("queued", async || plain.exists(WAITERS).await.then_some(())).await;
        let mut told = members::waiter(&plain, WAITERS, "first permit", 1, Sign::NOW).await;
        let slot = held[1].slot();
        held.remove(1).unlock().await.expect("held");
        assert_eq!(within("the message", told.next()).await, key(slot), "{layout:?}");
        // The first of the queue never asks. The next release tells the waiter behind it.
        held.remove(0).unlock().await.expect("held");
        let permit = within("a slot", waiting).await.expect("no panic").expect("granted");
        permit.unlock().await.expect("held");
    }
}

/// Without polls only a message wakes a waiter, and each waits for any slot (PER2).
#[tokio::test]
async fn a_release_of_any_slot_reaches_a_waiter() {
    for layout in LAYOUTS {
        for released in 0..3 {
            let Some(server) = Node::start(layout).await else { return };
            let (locker, plain) = server.clients();
            let mut held = Vec::new();
            for _ in 0..3 {
                let permit =
                    within("free", locker.semaphore("db", 3).acquire().lease(LONG_LEASE)).await;
                held.push(permit.expect("granted"));
            }
            let another =
                builder().layout(layout).polls(false).on(Servers::single(server.server[0].url()));
            let waiting =
                another.expect("a good URL").semaphore("db", 3).acquire().lease(LONG_LEASE);
            let waiting = tokio::spawn(waiting.into_future());
            eventually("queued", async || plain.exists(WAITERS).await.then_some(())).await;
            let at =
                held.iter().position(|permit| permit.slot() == released).expect("all are held");
            held.remove(at).unlock().await.expect("held");
            let permit = within("a slot", waiting).await.expect("no panic").expect("granted");
            assert_eq!(permit.slot(), released, "{layout:?}");
            permit.unlock().await.expect("held");
        }
    }
}

/// A program with more permits of the name gives back one that a waiter for fewer cannot use. The waiter
/// passes the message on, keeps its place (PER2), and warns.
#[tokio::test]
async fn a_waiter_passes_on_a_slot_that_it_cannot_use() {
    let log = Log::default();
    let _on_this_thread = tracing::subscriber::set_default(log.subscriber());
    for layout in LAYOUTS {
        log.clear();
        let Some(server) = Node::start(layout).await else { return };
        let (locker, plain) = server.clients();
        let mut held = Vec::new();
        for permits in [3, 3, 3, 5, 5] {
            let permit =
                within("free", locker.semaphore("db", permits).acquire().lease(LONG_LEASE)).await;
            held.push(permit.expect("granted"));
        }
        let another =
            builder().layout(layout).polls(false).on(Servers::single(server.server[0].url()));
        let waiting = another.expect("a good URL").semaphore("db", 3).acquire().lease(LONG_LEASE);
        let waiting = tokio::spawn(waiting.into_future());
        eventually("queued", async || plain.exists(WAITERS).await.then_some(())).await;
        let ours = members::all(&plain, WAITERS).await;
        let mut told = members::waiter(&plain, WAITERS, "next permit", LATE, Sign::NOW).await;
        let with = |slot: u16| move |permit: &quorumlock::PermitGuard| permit.slot() == slot;
        let at = held.iter().position(with(4)).expect("all are held");
        held.remove(at).unlock().await.expect("held");
        assert_eq!(within("passed on", told.next()).await, key(4), "{layout:?}");
        assert_eq!(members::all(&plain, WAITERS).await, [&ours[0], "next permit"], "{layout:?}");
        assert!(!waiting.is_finished(), "{layout:?}");
        let at = held.iter().position(with(1)).expect("all are held");
        held.remove(at).unlock().await.expect("held");
        let permit = within("a slot", waiting).await.expect("no panic").expect("granted");
        assert_eq!(permit.slot(), 1, "{layout:?}");
        let warnings = log.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("slot=4"), "{layout:?}: {warnings:?}");
        permit.unlock().await.expect("held");
    }
}

/// A locker that is told of a free slot, and has no call that waits, passes the message on (PER2).
#[tokio::test]
async fn a_free_slot_that_no_call_waits_for_is_told_to_the_next_waiter() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (locker, plain) = server.clients();
        let held = within("free", locker.semaphore("db", 1).acquire().lease(LONG_LEASE))
            .await
            .expect("free");
        let another = builder()
            .layout(layout)
            .on(Servers::single(server.server[0].url()))
            .expect("a good URL");
        let waiting = tokio::spawn(another.semaphore("db", 1).acquire().into_future());
        let ours = eventually("queued", async || {
            let members: Vec<String> = plain.ask(&["ZRANGE", WAITERS, "0", "-1"]).await;
            members.into_iter().next()
        })
        .await;
        held.unlock().await.expect("held");
        let permit = within("a slot", waiting).await.expect("no panic").expect("granted");
        permit.unlock().await.expect("held");
        let mut told = members::waiter(&plain, WAITERS, "next permit", 1, Sign::NOW).await;
        plain.ask::<i64>(&["PUBLISH", &members::channel_of(&ours), &key(0)]).await;
        assert_eq!(within("the message", told.next()).await, key(0), "{layout:?}");
    }
}

/// Names of any form have permits, and their slots and queues are their own.
#[tokio::test]
async fn names_with_braces_have_permits_of_their_own() {
    let Some(server) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = server.clients();
    let mut held = Vec::new();
    for name in ["db", "{db}", "a}", "a}:0", "x{db}y", "db:0"] {
        let permit = within("free", locker.semaphore(name, 1).acquire().lease(LONG_LEASE)).await;
        held.push((name, permit.unwrap_or_else(|error| panic!("{name}: {error}"))));
        assert!(
            locker.semaphore(name, 1).try_acquire().await.expect("an answer").is_none(),
            "{name}"
        );
    }
    let keys: Vec<String> = plain.ask(&["KEYS", "quorumlock:permit:*"]).await;
    assert_eq!(keys.len(), held.len(), "{keys:?}");
    for (name, permit) in held {
        assert_eq!(permit.name(), name);
        permit.unlock().await.expect("held");
    }
}

/// A server that counts tokens itself counts none for permits.
#[tokio::test]
async fn redissons_counter_has_no_permits() {
    let Some(server) = Node::start(Layout::Redisson).await else { return };
    let locker = builder()
        .redisson_fenced(true)
        .on(Servers::single(server.server[0].url()))
        .expect("one server");
    let refused =
        within("an answer", locker.semaphore("db", 2).try_acquire()).await.expect_err("refused");
    let Error::Config(ConfigError::DoesNotApply { option, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(option, "redisson_fenced");
}

struct Nothing;

impl ReplySink<WaitEvent> for Nothing {
    fn collect(&self, _from: usize, _event: WaitEvent) {}
}
