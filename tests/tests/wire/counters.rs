//! Counters and marks at the end of what doubles tell apart, or that are no numbers: they give no token, and
//! the error names the key (SAFETY.md G3).

use std::future::IntoFuture as _;

use quorumlock::{Admission, Error, Fence, Locker, NodeProblem, Wire};
use quorumlock_core::admission::{Charter, Voter as _};
use quorumlock_core::{
    Answer, Counter, Denial, Lane, Name, Node as _, Nonce, RedisNode, ReplyTo, Settings, Slot,
    Stamp, Term, World, redis_nodes,
};
use quorumlock_tests::{Plain, eventually, within};

use crate::{LONG, Node, WIRES};

const TOKEN: &str = "redisson_lock_token:{x}";
const RECORD: &str = "quorumlock:node";

/// Counters that cannot rise. The first may still be raised to.
const BAD: [[&str; 3]; 6] = [
    ["SET", TOKEN, "9007199254740991"],
    ["SET", TOKEN, "9007199254740992"],
    ["SET", TOKEN, "9223372036854775807"],
    ["SET", TOKEN, "99999999999999999999"],
    ["SET", TOKEN, "a word"],
    ["RPUSH", TOKEN, "a member"],
];

/// What the only node, or the first, said.
fn problem(error: &Error) -> &NodeProblem {
    match error {
        Error::Refused(refused) => &refused.nodes[0].problem,
        other => panic!("{other:?}"),
    }
}

fn assert_counter(error: &Error) {
    assert_eq!(problem(error), &bad_counter());
    let told = error.to_string();
    assert!(told.contains(TOKEN) && told.contains("DEL"), "the way out: {told}");
}

async fn set(plain: &Plain, command: &[&str]) {
    plain.ask::<i64>(&["DEL", command[1]]).await;
    plain.ask::<redis::Value>(command).await;
}

#[tokio::test]
async fn a_counter_that_cannot_rise_gives_no_token_and_is_named() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        for command in BAD {
            set(&plain, &command).await;
            let dump: Vec<u8> = plain.ask(&["DUMP", TOKEN]).await;
            for _ in 0..3 {
                let error = within("an answer", locker.lock("x")).await.expect_err("no token");
                assert_counter(&error);
            }
            assert!(!plain.exists("x").await, "{wire:?}: without a token nothing is held");
            assert_eq!(plain.ask::<Vec<u8>>(&["DUMP", TOKEN]).await, dump, "left as it was");
        }
        plain.ask::<i64>(&["DEL", TOKEN]).await;
        let guard = locker.lock("x").await.expect("that was the way out");
        assert!(guard.fence() < Fence::MAX);
    }
}

/// Where a counter is surely there it moves by a plain command, which knows no bound.
#[tokio::test]
async fn without_a_script_there_is_no_larger_token_either() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        for command in BAD {
            locker.lock("x").lease(LONG).await.expect("free").unlock().await.expect("held");
            set(&plain, &command).await;
            for _ in 0..2 {
                let error = within("an answer", locker.lock("x")).await.expect_err("no token");
                assert_counter(&error);
                // What a transaction took is given back.
                eventually("free", async || (!plain.exists("x").await).then_some(())).await;
            }
            plain.ask::<i64>(&["DEL", TOKEN]).await;
        }
    }
}

#[tokio::test]
async fn the_last_token_is_given_once_and_what_no_clock_started_is_started() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        set(&plain, &["SET", TOKEN, "9007199254740990"]).await;
        let guard = locker.lock("x").await.expect("one is left");
        assert_eq!(guard.fence(), Fence::MAX);
        guard.unlock().await.expect("held");
        let error = within("an answer", locker.lock("x")).await.expect_err("none is left");
        assert_counter(&error);

        set(&plain, &["SET", TOKEN, "-5"]).await;
        let guard = locker.lock("x").await.expect("a clock starts it");
        assert!(guard.fence() > Fence::new(1 << 32) && guard.fence() < Fence::MAX);
    }
}

#[tokio::test]
async fn a_name_is_not_handed_over_without_a_token() {
    for wire in WIRES {
        for command in BAD {
            let Some(node) = Node::start(wire).await else { return };
            let (locker, plain) = node.clients();
            let held = locker.lock("x").lease(LONG).await.expect("free");
            let other = Locker::builder().wire(wire).single(node.server[0].url());
            let waiting = tokio::spawn(other.expect("a URL").lock("x").lease(LONG).into_future());
            let queue = "quorumlock:waiters:{x}";
            eventually("in line", async || plain.exists(queue).await.then_some(())).await;
            set(&plain, &command).await;
            held.unlock().await.expect("held");
            let error = within("woken", waiting).await.expect("no panic").expect_err("no token");
            assert_counter(&error);
            assert!(!plain.exists("x").await);
        }
    }
}

/// The old holder's token must be behind: else the lock is not taken away.
#[tokio::test]
async fn force_is_refused_where_the_counter_cannot_rise() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let guard = locker.lock("x").lease(LONG).await.expect("free");
        for command in BAD {
            set(&plain, &command).await;
            let error = locker.force_unlock("x").await.expect_err("no bump");
            assert_counter(&error);
            guard.check().expect("still held");
            assert!(plain.exists("x").await);
        }
        plain.ask::<i64>(&["DEL", TOKEN]).await;
        assert!(locker.force_unlock("x").await.expect("that was the way out"));
    }
}

/// Spoilt between a grant and what follows it.
#[tokio::test]
async fn a_counter_that_is_no_count_is_neither_raised_nor_recreated_over() {
    for wire in WIRES {
        let Some(server) = Node::start(wire).await else { return };
        let (node, plain) = (one_node(&server, wire, None), &server.plain);
        let term = term();
        let vote = ask(|to| node.acquire(&term, one_token(), Stamp::NONE, None, to)).await;
        assert!(matches!(vote, Answer::Yes(_)), "{vote:?}");
        // One that is a count can be raised from.
        for command in &BAD[1..] {
            set(plain, command).await;
            let raised = ask(|to| node.raise(&term, Fence::MAX, Stamp::NONE, to)).await;
            assert_eq!(refused(raised), bad_counter());
            let again = ask(|to| node.recreate(&term, Fence::new(7), Lane::Keep, to)).await;
            assert_eq!(refused(again), bad_counter());
            // As a copy of the request: what is held is not given up.
            let copy = ask(|to| node.acquire(&term, one_token(), Stamp::NONE, None, to)).await;
            assert_eq!(refused(copy), bad_counter());
            assert!(plain.exists("x").await, "{wire:?}");
        }
    }
}

/// The marks in the record stand for counters that were lost: a vote that ignored one could repeat tokens.
#[tokio::test]
async fn a_mark_that_is_no_count_gives_no_token_and_is_named() {
    const MARKS: [&str; 6] =
        ["9007199254740992", "9223372036854775807", "-1", "a word", "nan", "inf"];
    for wire in WIRES {
        let Some(server) = Node::start(wire).await else { return };
        let plain = &server.plain;
        let builder = Locker::builder().wire(wire).admission(Admission::Strict);
        let locker = builder.quorum([server.server[0].url()]).expect("a good URL");
        locker.provision().await.expect("it answers");
        locker.lock("x").lease(LONG).await.expect("free").unlock().await.expect("held");
        let charter = Charter {
            prefix: "quorumlock".into(),
            cluster: "default".into(),
            epoch: 1,
            nodes: 1,
            longest: LONG,
        };
        let node = one_node(&server, wire, Some(&charter));
        for field in ["floor", "fmax"] {
            let good: String = plain.ask(&["HGET", RECORD, field]).await;
            for mark in MARKS {
                plain.ask::<i64>(&["HSET", RECORD, field, mark]).await;
                let bad = NodeProblem::BadCounter { key: RECORD.into(), field: Some(field.into()) };
                // By a transaction, and by a script.
                for name in ["x", "y"] {
                    let error = within("an answer", locker.lock(name)).await.expect_err("no token");
                    assert_eq!(problem(&error), &bad, "{wire:?}");
                    assert!(error.to_string().contains(RECORD), "{error}");
                    eventually("free", async || (!plain.exists(name).await).then_some(())).await;
                }
                assert_eq!(node.barrier("fresh").await.expect_err("no count").problem, bad);
                let replaced = node.provision("fresh", true).await;
                assert_eq!(replaced.expect_err("no count").problem, bad);
                let kept: String = plain.ask(&["HGET", RECORD, field]).await;
                assert_eq!(kept, mark);
            }
            plain.ask::<i64>(&["HSET", RECORD, field, &good]).await;
        }
        let last = Fence::MAX.to_string();
        plain.ask::<i64>(&["HSET", RECORD, "floor", &last]).await;
        let error = within("an answer", locker.lock("y")).await.expect_err("no token is above it");
        assert!(matches!(problem(&error), NodeProblem::BadCounter { field: Some(_), .. }));
    }
}

fn bad_counter() -> NodeProblem {
    NodeProblem::BadCounter { key: TOKEN.into(), field: None }
}

fn refused<T: std::fmt::Debug>(answer: Answer<T>) -> NodeProblem {
    match answer {
        Answer::No(Denial::Refused(report)) => report.problem,
        other => panic!("{other:?}"),
    }
}

fn one_node(server: &Node, wire: Wire, charter: Option<&Charter>) -> RedisNode {
    let (url, settings) = (server.server[0].url(), Settings::default());
    let nodes = redis_nodes(&[url], wire, charter, &settings, &World::default().clock);
    nodes.expect("a good URL").pop().expect("one")
}

fn term() -> Term {
    let name = Name::new("x").expect("a good name");
    Term { name, nonce: Nonce::from_u128(7), ttl: LONG, holds: 1 }
}

fn one_token() -> Counter {
    let seed = quorumlock_core::Clock::system().wall_micros();
    Counter { tokens: 1, least: Fence::NONE, seed, alone: false, warm: false }
}

async fn ask<T: Send + 'static>(request: impl FnOnce(ReplyTo<Answer<T>>)) -> Answer<T> {
    let (slot, to) = Slot::new();
    request(to);
    within("an answer", slot).await
}
