//! The simulated node behaves like a real server: both give the same answers to the same requests.

mod twin;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use quorumlock_protocol::{EnqueueRequest, HandoffOffer, Wire};
use quorumlock_testbed::servers::{ServerOptions, Servers, Source, for_test};

use twin::{Op, Token, compare};

#[test]
fn redlock_without_admission() {
    on_every_server(Wire::Redlock, false);
}

#[test]
fn redisson_without_admission() {
    on_every_server(Wire::Redisson, false);
}

#[test]
fn redlock_with_admission() {
    on_every_server(Wire::Redlock, true);
}

#[test]
fn redisson_with_admission() {
    on_every_server(Wire::Redisson, true);
}

/// A second request with a previous queue member replaces that member, in the model as in the
/// script.
#[test]
fn whoever_says_as_what_it_stood_takes_a_new_place() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let Some(address) = servers[0].addr() else { return };
    let acquire = |waited, offer, before| {
        let waited = Duration::from_millis(waited);
        let enqueue = Some(EnqueueRequest {
            waited,
            yield_to_notified: false,
            handoff: offer,
            previous: None,
        });
        Op::Acquire {
            at: (0, 0),
            ttl: 1,
            token: Token::Now,
            enqueue,
            previous: before,
            by_txn: false,
        }
    };
    let offer = Some(HandoffOffer { ttl: TTLS[1], fencing: true });
    let (line, before) = (None, None);
    let ops = [
        Op::Acquire {
            at: (2, 0),
            ttl: 1,
            token: Token::Now,
            enqueue: line,
            previous: before,
            by_txn: false,
        },
        acquire(400, offer, None),
        acquire(1_600, None, None),
        acquire(0, None, Some(0)),
        Op::Release { at: (2, 0), keeps_place: None },
    ];
    for wire in [Wire::Redlock, Wire::Redisson] {
        let same = compare(&format!("redis://{address}"), address, wire, false, &ops);
        assert_eq!(same, Ok(()), "{wire:?}");
    }
}

/// Runs on the server of all tests, and on a cached Redis server if this machine has one.
fn on_every_server(wire: Wire, strict: bool) {
    if let Some(servers) = for_test(1, &ServerOptions::default()) {
        on(&servers, wire, strict);
    }
    let cache = std::env::var_os("HOME").map(|home| std::path::Path::new(&home).join(".cache"));
    let Some(redis) = cache.map(|cache| cache.join("quorumlock/redis/redis-server")) else {
        return;
    };
    if redis.is_file() {
        let source = Source::Binary(redis);
        let servers = Servers::start_with(&source, 1, &ServerOptions::default());
        on(&servers.expect("a server that starts"), wire, strict);
    }
}

fn on(servers: &Servers, wire: Wire, strict: bool) {
    // A server that the test did not start may hold other data: the test must not flush it.
    let Some(address) = servers.iter().next().and_then(|server| server.addr()) else { return };
    let url = format!("redis://{address}");
    let config =
        Config { cases: 8, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let ops = prop::collection::vec(op(strict), 1..30);
    let run = TestRunner::new(config)
        .run(&ops, |ops| compare(&url, address, wire, strict, &ops).map_err(TestCaseError::fail));
    assert!(run.is_ok(), "{}", run.err().map(|e| e.to_string()).unwrap_or_default());
}

/// Handoff offers: the lease, and whether with a token.
fn handoff_offer() -> impl Strategy<Value = Option<HandoffOffer>> {
    let offer = (0..2usize, any::<bool>());
    prop::option::of(offer.prop_map(|(ttl, fencing)| HandoffOffer { ttl: TTLS[ttl], fencing }))
}

const TTLS: [Duration; 2] = [Duration::from_millis(600), Duration::from_secs(10)];

fn op(strict: bool) -> impl Strategy<Value = Op> {
    let (who, name) = (0..3usize, 0..2usize);
    let at = (who.clone(), name);
    let token = prop_oneof![
        1 => Just(Token::None),
        3 => Just(Token::Now),
        1 => Just(Token::Behind),
        1 => Just(Token::Again),
    ];
    let votes = prop_oneof![
        6 => (at.clone(), 0..3usize, token, any::<bool>()).prop_map(|(at, ttl, token, by_txn)| {
            Op::Acquire { at, ttl, token, enqueue: None, previous: None, by_txn }
        }),
        8 => (at.clone(), 0..3usize, 0..5u64, any::<bool>(), (handoff_offer(), prop::option::of(who)))
            .prop_map(|(at, ttl, waited, yields, (handoff, previous))| {
                // Far enough apart that the speed of a side does not change the order.
                let waited = Duration::from_millis(400 * waited);
                let enqueue = Some(EnqueueRequest { waited, yield_to_notified: yields, handoff, previous: None });
                Op::Acquire { at, ttl, token: Token::Now, enqueue, previous, by_txn: false }
            }),
        2 => (at.clone(), -2..5i64).prop_map(|(at, by)| Op::Raise { at, by }),
        3 => (at.clone(), 0..3usize, 1..4u32).prop_map(|(at, ttl, holds)| Op::Renew {
            at,
            ttl,
            holds
        }),
        2 => (at.clone(), 0..3usize, 0..5i64).prop_map(|(at, ttl, by)| Op::Regrant {
            at,
            ttl,
            by
        }),
    ];
    let others = prop_oneof![
        3 => at.clone().prop_map(|at| Op::Release { at, keeps_place: None }),
        2 => (at.clone(), 0..5u64).prop_map(|(at, waited)| {
            let waited = Duration::from_millis(400 * waited);
            Op::Release { at, keeps_place: Some(waited) }
        }),
        2 => (0..2usize).prop_map(|name| Op::Inspect { name }),
        1 => (0..2usize).prop_map(|name| Op::Force { name }),
        1 => (at, handoff_offer()).prop_map(|(at, handoff)| Op::Dequeue { at, handoff }),
        1 => (0..2usize).prop_map(|name| Op::Delete { name }),
        1 => Just(Op::Wait),
        1 => Just(Op::Flush),
    ];
    let admission = prop_oneof![
        2 => Just(Op::NodeInfo),
        3 => (0..2usize, any::<bool>()).prop_map(|(list, takes_over)| Op::Note { list, takes_over }),
        1 => Just(Op::Barrier),
        3 => (any::<bool>(), any::<bool>()).prop_map(|(right, young)| Op::Admit { right, young }),
        2 => (0..3u64, 0..2usize).prop_map(|(by, list)| Op::WriteTerms { by, list }),
        2 => any::<bool>().prop_map(|seen| Op::Provision { seen }),
    ];
    let admission_odds = if strict { 5 } else { 0 };
    prop_oneof![14 => votes, 10 => others, admission_odds => admission]
}
