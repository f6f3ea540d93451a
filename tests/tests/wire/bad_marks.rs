//! Invalid marks, and marks at the end of the integers that doubles can represent: they accept no
//! token, and the error names the key (SAFETY.md G3).

use std::future::IntoFuture as _;
use std::time::Duration;

use quorumlock::{Admission, Error, FencingToken, Layout, NodeProblem, Servers};
use quorumlock_protocol::admission::members::{CLOCK_BOUND, Terms};
use quorumlock_protocol::admission::{
    AdmissionRpc as _, AdmitRequest, ClusterConfig, Marks, NoteRequest,
};
use quorumlock_protocol::{
    Answer, Denial, Hints, Incarnation, Lane, LeaseRequest, Name, Node as _, Nonce,
};
use quorumlock_redis::member_list;
use quorumlock_tests::{Plain, builder, eventually, within};

use crate::direct::{acquire, ask, one_node};
use crate::{LAYOUTS, LONG_LEASE, Node, Quorum, last_of};

/// Bad values at the key of the mark: not a sorted set, or not a number with room for another
/// block.
const BAD: [&[&str]; 7] = [
    &["RPUSH", "a member"],
    &["SET", "1790000000000031"],
    &["HSET", "m", "1790000000000031"],
    &["ZADD", "9007199253692351", "m"],
    &["ZADD", "9007199254740992", "m"],
    &["ZADD", "1e300", "m"],
    &["ZADD", "inf", "m"],
];

fn name() -> Name {
    Name::new("x").expect("a good name")
}

/// Spoils the mark of `x` on a node. Returns the value at the key.
async fn spoil(plain: &Plain, bad: &[&str]) -> Vec<u8> {
    let key = name().mark_key();
    plain.ask::<i64>(&["DEL", key]).await;
    plain.ask::<redis::Value>(&[&[bad[0], key], &bad[1..]].concat()).await;
    plain.ask(&["DUMP", key]).await
}

async fn mend(plain: &Plain) {
    plain.ask::<i64>(&["DEL", name().mark_key()]).await;
}

fn bad_mark() -> NodeProblem {
    NodeProblem::BadMark { key: name().mark_key().to_owned() }
}

fn assert_named(error: &Error) {
    let Error::Refused(refused) = error else { panic!("{error:?}") };
    assert!(refused.nodes.iter().all(|node| node.problem == bad_mark()), "{refused:?}");
    let told = error.to_string();
    assert!(told.contains(name().mark_key()) && told.contains("DEL"), "the way out: {told}");
}

async fn is_free(plain: &Plain) {
    eventually("nothing is held", async || (!plain.exists("x").await).then_some(())).await;
}

#[tokio::test]
async fn on_a_single_node_nothing_is_held_and_the_key_is_named() {
    for layout in LAYOUTS {
        for scripts in [true, false] {
            let Some(node) = Node::start(layout).await else { return };
            let (url, plain) = (node.server[0].url(), &node.plain);
            let locker = builder()
                .layout(layout)
                .scripts_only(scripts)
                .on(Servers::single(url))
                .expect("a URL");
            for bad in BAD {
                let dump = spoil(plain, bad).await;
                for _ in 0..2 {
                    let error = within("an answer", locker.lock("x")).await.expect_err("no token");
                    assert_named(&error);
                    is_free(plain).await;
                }
                let now: Vec<u8> = plain.ask(&["DUMP", name().mark_key()]).await;
                assert_eq!(now, dump, "{layout:?}: {bad:?} is left as it was");
            }
            mend(plain).await;
            let guard = within("free", locker.lock("x")).await.expect("that was the way out");
            assert!(guard.token() < FencingToken::MAX);
        }
    }
}

/// The last blocks of tokens are granted, and then no more.
#[tokio::test]
async fn the_last_tokens_are_given_once() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let almost = FencingToken::MAX.get() - 3 * FencingToken::BLOCK;
        plain.set_mark("x", almost).await;
        let mut last = almost;
        let error = loop {
            match within("an answer", locker.lock("x").lease(LONG_LEASE)).await {
                Ok(guard) => {
                    assert!(
                        guard.token().get() > last
                            && last_of(guard.token()) <= FencingToken::MAX.get()
                    );
                    last = last_of(guard.token());
                    guard.unlock().await.expect("held");
                }
                Err(error) => break error,
            }
        };
        assert!(last > almost, "{layout:?}: there was room");
        assert_named(&error);
        is_free(&plain).await;
    }
}

/// A mark below all tokens is a valid mark.
#[tokio::test]
async fn a_negative_mark_is_passed() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        node.plain.ask::<i64>(&["ZADD", name().mark_key(), "-5", "m"]).await;
        let guard = within("free", node.locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
        assert_eq!(node.plain.mark("x").await, Some(last_of(guard.token())));
    }
}

/// The waiter is notified instead, and gets an error that names the key.
#[tokio::test]
async fn a_name_is_not_handed_over_at_a_bad_mark() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        for bad in BAD {
            mend(&plain).await;
            let held = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
            let other = builder().layout(layout).on(Servers::single(node.server[0].url()));
            let waiting =
                tokio::spawn(other.expect("a URL").lock("x").lease(LONG_LEASE).into_future());
            let queue = "quorumlock:waiters:{x}";
            eventually("in line", async || plain.exists(queue).await.then_some(())).await;
            spoil(&plain, bad).await;
            held.unlock().await.expect("held");
            let error = within("woken", waiting).await.expect("no panic").expect_err("no token");
            assert_named(&error);
            is_free(&plain).await;
        }
    }
}

/// A forced release must put the mark above the old holder's token; otherwise it does not take the
/// lock away.
#[tokio::test]
async fn force_is_refused_where_the_mark_cannot_rise() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let guard = locker.lock("x").lease(LONG_LEASE).await.expect("free");
        for bad in BAD {
            spoil(&plain, bad).await;
            let error = locker.mutex("x").force_unlock().await.expect_err("no raise");
            assert_named(&error);
            guard.check().expect("still held");
            assert!(plain.exists("x").await);
        }
        mend(&plain).await;
        assert!(locker.mutex("x").force_unlock().await.expect("that was the way out"));
    }
}

/// The answers of one node, also where the mark is spoilt between a grant and the requests after
/// it.
#[tokio::test]
async fn nothing_is_taken_raised_or_held_again_over_a_bad_mark() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        let lease = LeaseRequest::new(name(), Nonce::from_u128(7), LONG_LEASE);
        let token = |above: u64| FencingToken::new((1_800_000_000_000_000 + above) | 31);
        let vote = acquire(&node, &lease, token(0), Hints::default()).await;
        assert!(matches!(vote, Answer::Yes(_)), "{vote:?}");
        for bad in BAD {
            spoil(plain, bad).await;
            let raised = ask(|to| node.raise(&lease, token(320), Incarnation::NONE, to)).await;
            assert_eq!(refused(raised), bad_mark());
            let again = ask(|to| node.regrant(&lease, token(320), Lane::Watchdog, to)).await;
            assert_eq!(refused(again), bad_mark());
            assert!(plain.exists("x").await, "{layout:?}: what is held is not given up");
        }
        // The token and the grant are one step: without a token the node grants nothing.
        for bad in BAD {
            spoil(plain, bad).await;
            plain.ask::<i64>(&["DEL", "x"]).await;
            let vote = acquire(&node, &lease, token(640), Hints::default()).await;
            assert_eq!(refused(vote), bad_mark());
            assert!(!plain.exists("x").await, "{layout:?} {bad:?}");
        }
    }
}

fn refused<T: std::fmt::Debug>(answer: Answer<T>) -> NodeProblem {
    match answer {
        Answer::No(Denial::Refused(report)) => report.problem,
        other => panic!("{other:?}"),
    }
}

/// A repair that skipped a bad mark could let tokens repeat.
#[tokio::test]
async fn a_repair_stops_at_a_bad_mark_and_names_it() {
    let Some(server) = Node::start(Layout::Redlock).await else { return };
    let plain = &server.plain;
    let builder = builder().layout(Layout::Redlock).admission(Admission::Strict);
    let locker = builder
        .max_lease(LONG_LEASE)
        .on(Servers::quorum([server.server[0].url()]))
        .expect("a good URL");
    locker.admit_nodes().await.expect("it answers");
    let cluster = ClusterConfig {
        prefix: "quorumlock".into(),
        members: member_list(&[server.server[0].url()]).expect("a good URL"),
        longest: LONG_LEASE,
        clock_bound: CLOCK_BOUND,
        replicated: false,
    };
    let node = one_node(&server, Layout::Redlock, Some(&cluster));
    let incarnation = async || plain.ask::<String>(&["HGET", "quorumlock:node", "stamp"]).await;
    let before = incarnation().await;
    let slot = name().slot();
    // The present run is not admitted, and is noted.
    plain.ask::<i64>(&["HDEL", "quorumlock:node", "life"]).await;
    let list = cluster.members.clone();
    let note = NoteRequest { list, id: "note".into(), instead_of: None };
    assert_eq!(node.note(note).await, Ok(true));
    let note_id = node.node_info().await.expect("it answers").note_id.expect("a note");
    for bad in BAD {
        spoil(plain, bad).await;
        let asked = node.barrier("fresh").await;
        assert_eq!(asked.expect_err("no mark").problem, bad_mark(), "{bad:?}");
        let request = AdmitRequest {
            note: note_id.clone(),
            age: Duration::ZERO,
            terms: Terms { phase: 1, list: cluster.members.clone(), next: None },
            incarnation: "fresh".into(),
            marks: Marks::from([(slot, FencingToken::new(1_800_000_000_000_031))]),
        };
        let admitted = node.admit(request).await;
        assert_eq!(admitted.expect_err("no mark").problem, bad_mark(), "{bad:?}");
        assert_eq!(incarnation().await, before, "{bad:?}");
    }
}

/// On a quorum a bad mark costs only the vote of its node.
#[tokio::test]
async fn on_one_node_of_a_quorum_its_vote_is_missing_and_the_others_grant() {
    for layout in LAYOUTS {
        let Some(quorum) = Quorum::start(3, layout).await else { return };
        let (locker, plain) = quorum.clients();
        for bad in BAD {
            for node in &plain {
                mend(node).await;
            }
            spoil(&plain[1], bad).await;
            for _ in 0..4 {
                let guard = within("an answer", locker.lock("x").lease(LONG_LEASE)).await;
                let guard = guard.unwrap_or_else(|error| panic!("{layout:?} {bad:?}: {error}"));
                for node in [&plain[0], &plain[2]] {
                    let mark = async || node.mark("x").await == Some(last_of(guard.token()));
                    eventually("accepted", async || mark().await.then_some(())).await;
                }
                guard.unlock().await.expect("held");
            }
            // Two bad marks of three are a majority.
            spoil(&plain[2], bad).await;
            let error = within("an answer", locker.lock("x")).await.expect_err("no token");
            assert_named(&error);
            for node in &plain {
                is_free(node).await;
            }
        }
    }
}
