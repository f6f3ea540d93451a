//! One lease request of several names, at one server (PROTOCOL.md, Several names).

use std::collections::BTreeSet;
use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::{ConfigError, Error, FencingToken, Layout, NodeProblem, Servers};
use quorumlock_protocol::{
    Acceptance, Answer, Claim, Denial, EnqueueRequest, HeldInterval, Hints, Incarnation, Instant,
    Lane, LeaseRequest, Name, Node as _, Nonce, Precedence, QueuedAt, ReplyFuture, ReplySink, Vote,
    WaitEvent,
};
use quorumlock_redis::RedisNode;
use quorumlock_tests::{Plain, builder, eventually, waiters, within};

use crate::direct::{self, ask, one_node};
use crate::members::{self, LATE, Sign};
use crate::{LAYOUTS, LONG_LEASE, Node};

fn claim(names: &[&str]) -> Claim {
    let name = |name: &&str| Name::new(name).expect("a good name");
    Claim::all(names.iter().map(name).collect()).expect("good names")
}

fn request(names: &[&str], nonce: u128) -> LeaseRequest {
    LeaseRequest::new(claim(names), Nonce::from_u128(nonce), LONG_LEASE)
}

fn token(value: u64) -> FencingToken {
    FencingToken::new(value | (FencingToken::BLOCK - 1))
}

async fn acquire(node: &RedisNode, request: &LeaseRequest, token: FencingToken) -> Answer<Vote> {
    direct::acquire(node, request, token, Hints::contended(true)).await
}

async fn raise(
    node: &RedisNode,
    request: &LeaseRequest,
    token: FencingToken,
) -> Answer<Acceptance> {
    ask(|to| node.raise(request, token, Incarnation::NONE, to)).await
}

async fn regrant(node: &RedisNode, request: &LeaseRequest, token: FencingToken) -> Answer<Instant> {
    ask(|to| node.regrant(request, token, Lane::Watchdog, to)).await
}

async fn renew(node: &RedisNode, requests: &[LeaseRequest]) -> Vec<Answer<Instant>> {
    let (answers, to) = ReplyFuture::new();
    node.renew(requests, Lane::Watchdog, to);
    within("answers", answers).await
}

fn token_of(vote: &Answer<Vote>) -> Acceptance {
    match vote {
        Answer::Yes(vote) => vote.token,
        other => panic!("not granted: {other:?}"),
    }
}

async fn free(plain: &Plain, names: &[&str]) {
    for name in names {
        assert!(!plain.exists(name).await, "{name} is taken");
    }
}

/// SET1: whatever name is held, a request and a regrant take none of the others.
#[tokio::test]
async fn a_refused_request_takes_nothing() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        for busy in ["a", "b", "c"] {
            let one = request(&[busy], 7);
            assert!(matches!(acquire(&node, &one, FencingToken::NONE).await, Answer::Yes(_)));
            let set = request(&["a", "b", "c"], 8);
            let others: Vec<_> = ["a", "b", "c"].into_iter().filter(|name| *name != busy).collect();
            let refused = acquire(&node, &set, FencingToken::NONE).await;
            assert!(
                matches!(refused, Answer::No(Denial::Busy(Some(_)))),
                "{layout:?}: {refused:?}"
            );
            free(plain, &others).await;
            let refused = regrant(&node, &set, FencingToken::NONE).await;
            assert!(
                matches!(refused, Answer::No(Denial::Busy(Some(_)))),
                "{layout:?}: {refused:?}"
            );
            free(plain, &others).await;
            plain.ask::<i64>(&["DEL", busy]).await;
        }
        let set = request(&["a", "b", "c"], 9);
        for _ in 0..2 {
            // Also again: it is idempotent.
            assert!(matches!(acquire(&node, &set, FencingToken::NONE).await, Answer::Yes(_)));
            assert!(matches!(regrant(&node, &set, FencingToken::NONE).await, Answer::Yes(_)));
        }
        let single = acquire(&node, &request(&["b"], 10), FencingToken::NONE).await;
        assert!(matches!(single, Answer::No(Denial::Busy(Some(_)))), "{single:?}");
    }
}

/// SET2: the largest mark is in the way, and a raise needs all names.
#[tokio::test]
async fn a_token_is_accepted_if_the_mark_of_each_name_has() {
    const NOW: u64 = 1_790_000_000_000_000;
    // Names of two slots, and of one slot, which share a mark.
    for names in [["a", "b"], ["{t}a", "{t}b"]] {
        let claim = claim(&names);
        let [first, last] = names;
        let slots: BTreeSet<_> = claim.names().map(Name::slot).collect();
        assert_eq!(slots.len(), if first == "a" { 2 } else { 1 });
        for layout in LAYOUTS {
            let Some(server) = Node::start(layout).await else { return };
            let (node, plain) = (one_node(&server, layout, None), &server.plain);
            let ahead = token(NOW + 3_200);
            let one = request(&[last], 7);
            assert_eq!(token_of(&acquire(&node, &one, ahead).await), Acceptance::Accepted);
            plain.ask::<i64>(&["DEL", last]).await;

            let set = request(&names, 8);
            let vote = acquire(&node, &set, token(NOW)).await;
            assert_eq!(token_of(&vote), Acceptance::Behind(ahead), "{layout:?}: {names:?}");
            assert_eq!(raise(&node, &set, ahead).await, Answer::Yes(Acceptance::Behind(ahead)));
            let above = token(NOW + 6_400);
            assert_eq!(raise(&node, &set, above).await, Answer::Yes(Acceptance::Accepted));
            for name in names {
                assert_eq!(plain.mark(name).await, Some(above.get()), "{layout:?}: {name}");
            }
            plain.ask::<i64>(&["DEL", first]).await;
            let gone = raise(&node, &set, token(NOW + 9_600)).await;
            assert_eq!(gone, Answer::No(Denial::Gone), "{layout:?}: it holds one name of two");
            assert_eq!(plain.mark(last).await, Some(above.get()), "no mark moves for it");
            let later = token(NOW + 12_800);
            assert!(matches!(regrant(&node, &set, later).await, Answer::Yes(_)), "taken again");
            for name in names {
                assert_eq!(plain.mark(name).await, Some(later.get()), "{layout:?}: {name}");
            }
        }
    }
}

/// SET3: a renewal lengthens all names, and says no if one is missing, whichever it is. Other leases of
/// the same call are not touched by that.
#[tokio::test]
async fn a_set_is_renewed_while_it_has_all_names() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        let short = |request: LeaseRequest| LeaseRequest { ttl: Duration::from_secs(9), ..request };
        let (before, set, after) =
            (request(&["a"], 1), request(&["b", "c", "d"], 2), request(&["e"], 3));
        for request in [&before, &set, &after] {
            let request = short(request.clone());
            assert!(matches!(acquire(&node, &request, FencingToken::NONE).await, Answer::Yes(_)));
        }
        let all = [before, set, after];
        let answers = renew(&node, &all).await;
        assert!(answers.iter().all(|answer| matches!(answer, Answer::Yes(_))), "{answers:?}");
        for name in ["a", "b", "c", "d", "e"] {
            let left: i64 = plain.ask(&["PTTL", name]).await;
            assert!(left > 30_000, "{layout:?}: {name} has {left} ms");
        }
        for missing in ["b", "c", "d"] {
            plain.ask::<i64>(&["DEL", missing]).await;
            let answers = renew(&node, &all).await;
            let [first, set, last] = &answers[..] else { panic!("{answers:?}") };
            assert_eq!(*set, Answer::No(Denial::Gone), "{layout:?}: without {missing}");
            assert!(matches!((first, last), (Answer::Yes(_), Answer::Yes(_))), "{answers:?}");
            assert!(matches!(regrant(&node, &all[1], FencingToken::NONE).await, Answer::Yes(_)));
        }
    }
}

/// SET3: a release frees all names, and says that the set was held only if all names were.
#[tokio::test]
async fn a_release_frees_all_names() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        for missing in [None, Some("a"), Some("c")] {
            let set = request(&["a", "b", "c"], 7);
            assert!(matches!(acquire(&node, &set, FencingToken::NONE).await, Answer::Yes(_)));
            if let Some(missing) = missing {
                plain.ask::<i64>(&["DEL", missing]).await;
            }
            let (held, hints) = (HeldInterval::UNKNOWN, Hints::contended(true));
            let released = ask(|to| node.release(&set, held, Lane::Caller, hints, to)).await;
            let Answer::Yes(outcome) = released else { panic!("{layout:?}: {released:?}") };
            assert_eq!(outcome.held, missing.is_none(), "{layout:?}: without {missing:?}");
            free(plain, &["a", "b", "c"]).await;
        }
    }
}

/// SET4: a waiter is queued for the name that refuses it, and learns which one that is. SET5: one that has a
/// turn is queued for all of them.
#[tokio::test]
async fn a_waiter_is_queued_for_the_name_that_refuses_it() {
    let precedences = [(Precedence::AsItComes, false), (Precedence::Turn, true)];
    for (layout, (precedence, turn)) in
        LAYOUTS.into_iter().flat_map(|layout| precedences.map(|p| (layout, p)))
    {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        let inbox = Arc::new(Nothing);
        let _heard = node.wait_queue().expect("a queue").subscribe(claim(&["a"]).name(), inbox, 0);
        let queued_at = eventually("subscribed", async || {
            let (queued_at, set) = (QueuedAt::default(), request(&["a", "b", "c"], 8));
            let one = request(&["b"], 7);
            assert!(matches!(acquire(&node, &one, FencingToken::NONE).await, Answer::Yes(_)));
            let hints = Hints::queued(EnqueueRequest {
                waited: Duration::ZERO,
                precedence,
                handoff: None,
                earlier: Vec::new(),
                queued_at: queued_at.clone(),
            });
            let refused = direct::acquire(&node, &set, FencingToken::NONE, hints).await;
            assert!(matches!(refused, Answer::No(Denial::Busy(Some(_)))), "{refused:?}");
            // It is queued only where messages can reach it.
            plain.exists(&waiters("b")).await.then_some(queued_at)
        })
        .await;
        assert_eq!(queued_at.take_names(), [1].into(), "{layout:?}: the second name");
        for name in ["a", "c"] {
            assert_eq!(plain.exists(&waiters(name)).await, turn, "{layout:?}: {name}");
        }
    }
}

/// SET4: a waiter for a set that is notified of a free name, and refused for another one, passes the
/// notification on. The waiter behind it never asks by itself.
#[tokio::test]
async fn the_waiter_behind_a_set_is_notified() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (locker, plain) = server.clients();
        let hold = async |name| {
            within("free", locker.lock(name).lease(LONG_LEASE)).await.expect("granted")
        };
        let (first, _second) = (hold("a").await, hold("b").await);
        let sets = builder()
            .layout(layout)
            .on(Servers::single(server.server[0].url()))
            .expect("a good URL");
        let waiting = sets.lock(["a", "b"]).lease(LONG_LEASE);
        let waiting = tokio::spawn(waiting.into_future());
        let queue = waiters("a");
        eventually("queued", async || plain.exists(&queue).await.then_some(())).await;
        let behind = format!("behind {}", members::kind_of(layout));
        let mut told = members::waiter(&plain, &queue, &behind, LATE, Sign::NOW).await;
        first.unlock().await.expect("held");
        assert_eq!(within("the message", told.next()).await, "a", "{layout:?}");
        waiting.abort();
    }
}

struct Nothing;

impl ReplySink<WaitEvent> for Nothing {
    fn collect(&self, _from: usize, _event: WaitEvent) {}
}

/// A key that is no lock refuses the set, and the other names stay free.
#[tokio::test]
async fn a_key_of_another_type_refuses_all_names() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (locker, plain) = server.clients();
        plain.ask::<i64>(&["LPUSH", "b", "theirs"]).await;
        let refused = within("an answer", locker.lock(["a", "b", "c"])).await;
        let refused = refused.expect_err("refused");
        let Error::Refused(none) = &refused else { panic!("{refused:?}") };
        let wrong = NodeProblem::NotALock { key: "a, b, c".into(), found: "a list".into() };
        assert_eq!(none.nodes[0].problem, wrong, "{layout:?}");
        free(&plain, &["a", "c"]).await;
        assert_eq!(plain.ask::<i64>(&["LLEN", "b"]).await, 1, "{layout:?}: not deleted");
    }
}

/// A server that counts tokens itself counts them for one name.
#[tokio::test]
async fn redissons_counter_has_one_name() {
    let Some(server) = Node::start(Layout::Redisson).await else { return };
    let locker = builder()
        .redisson_fenced(true)
        .on(Servers::single(server.server[0].url()))
        .expect("one server");
    let refused = within("an answer", locker.try_lock(["a", "b"])).await.expect_err("refused");
    let Error::Config(ConfigError::DoesNotApply { option, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(option, "redisson_fenced");
    free(&server.plain, &["a", "b"]).await;
    drop(within("free", locker.lock(["a"])).await.expect("one name"));
}

/// Ten names take one request.
#[tokio::test]
async fn ten_free_names_take_one_request() {
    let layout = Layout::Redlock;
    let Some(server) = Node::start(layout).await else { return };
    let (locker, plain) = server.clients();
    within("connected", locker.ping()).await.expect("an answer");
    let names: Vec<_> = (0..10).map(|number| format!("job/{number}")).collect();
    let before = server.calls("evalsha").await;
    let set = within("free", locker.lock(&names).lease(LONG_LEASE)).await.expect("granted");
    assert_eq!(server.calls("evalsha").await - before, 1);
    set.unlock().await.expect("held");
    free(&plain, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
}
