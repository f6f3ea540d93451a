//! The simulated node does what a real server does: both are asked the same, and answer the same.

mod twin;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use quorumlock_core::{InLine, Offer, Spot, Wire};
use quorumlock_lab::servers::{ServerOptions, Servers, Source, for_test};

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

/// Found by the tests above: asked once more, the model kept the place of before.
#[test]
fn whoever_says_as_what_it_stood_takes_a_new_place() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let Some(address) = servers[0].addr() else { return };
    let ask = |waited, offer, before| {
        let waited = Duration::from_millis(waited);
        let line = Some(InLine { waited, others_first: false, offer, before: None });
        Op::Acquire { at: (0, 0), ttl: 1, token: Token::Now, line, before, plain: false }
    };
    let offer = Some(Offer { claim: CLAIMS[1], fencing: true });
    let (line, before) = (None, None);
    let ops = [
        Op::Acquire { at: (2, 0), ttl: 1, token: Token::Now, line, before, plain: false },
        ask(400, offer, None),
        ask(1_600, None, None),
        ask(0, None, Some(0)),
        Op::Release { at: (2, 0), spot: None },
    ];
    for wire in [Wire::Redlock, Wire::Redisson] {
        let same = compare(&format!("redis://{address}"), address, wire, false, &ops);
        assert_eq!(same, Ok(()), "{wire:?}");
    }
}

/// The server of all tests, and what else there is on this machine.
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
    // Servers that are not ours hold what is not ours: nothing is flushed there.
    let Some(address) = servers.iter().next().and_then(|server| server.addr()) else { return };
    let url = format!("redis://{address}");
    let config =
        Config { cases: 8, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let ops = prop::collection::vec(op(strict), 1..30);
    let run = TestRunner::new(config)
        .run(&ops, |ops| compare(&url, address, wire, strict, &ops).map_err(TestCaseError::fail));
    assert!(run.is_ok(), "{}", run.err().map(|e| e.to_string()).unwrap_or_default());
}

/// What waiters agree to: handed over for so long, with tokens or without.
fn offer() -> impl Strategy<Value = Option<Offer>> {
    let offer = (0..2usize, any::<bool>());
    prop::option::of(offer.prop_map(|(claim, fencing)| Offer { claim: CLAIMS[claim], fencing }))
}

const CLAIMS: [Duration; 2] = [Duration::from_millis(600), Duration::from_secs(10)];

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
        6 => (at.clone(), 0..3usize, token, any::<bool>()).prop_map(|(at, ttl, token, plain)| {
            Op::Acquire { at, ttl, token, line: None, before: None, plain }
        }),
        8 => (at.clone(), 0..3usize, 0..5u64, any::<bool>(), (offer(), prop::option::of(who)))
            .prop_map(|(at, ttl, waited, others_first, (offer, before))| {
                // Far enough apart that who came first does not hang on which side was quicker.
                let waited = Duration::from_millis(400 * waited);
                let line = Some(InLine { waited, others_first, offer, before: None });
                Op::Acquire { at, ttl, token: Token::Now, line, before, plain: false }
            }),
        2 => (at.clone(), -2..5i64).prop_map(|(at, by)| Op::Raise { at, by }),
        3 => (at.clone(), 0..3usize, 1..4u32).prop_map(|(at, ttl, holds)| Op::Renew {
            at,
            ttl,
            holds
        }),
        2 => (at.clone(), 0..3usize, 0..5i64).prop_map(|(at, ttl, by)| Op::Recreate {
            at,
            ttl,
            by
        }),
    ];
    let others = prop_oneof![
        3 => at.clone().prop_map(|at| Op::Release { at, spot: None }),
        2 => (at.clone(), 0..5u64).prop_map(|(at, waited)| {
            let waited = Duration::from_millis(400 * waited);
            Op::Release { at, spot: Some(Spot::Kept(waited)) }
        }),
        2 => (at.clone(), 0..3usize, 0..2usize, any::<bool>()).prop_map(|(at, next, claim, fencing)| {
            let offer = Offer { claim: CLAIMS[claim], fencing };
            Op::Release { at, spot: Some(Spot::Again(twin::nonce_of(next), offer)) }
        }),
        2 => (0..2usize).prop_map(|name| Op::Inspect { name }),
        1 => (0..2usize).prop_map(|name| Op::Force { name }),
        1 => (at, offer()).prop_map(|(at, offer)| Op::Leave { at, offer }),
        1 => (0..2usize).prop_map(|name| Op::Delete { name }),
        1 => Just(Op::Wait),
        1 => Just(Op::Flush),
    ];
    let office = prop_oneof![
        2 => Just(Op::Examine),
        1 => Just(Op::Note),
        1 => Just(Op::Barrier),
        1 => any::<bool>().prop_map(|right| Op::Admit { right }),
        2 => any::<bool>().prop_map(|replace| Op::Provision { replace }),
    ];
    let office_odds = if strict { 5 } else { 0 };
    prop_oneof![14 => votes, 10 => others, office_odds => office]
}
