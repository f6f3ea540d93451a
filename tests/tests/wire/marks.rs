//! Fencing tokens on the wire: a client proposes a token, and a node accepts it if it is above the
//! mark of the name's slot (PROTOCOL.md, Tokens).

use std::collections::BTreeSet;
use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use quorumlock::{FencingToken, Layout, Locker, Servers};
use quorumlock_core::{Entropy, Environment, Single, kind};
use quorumlock_protocol::{
    Acceptance, Answer, Claim, Denial, EnqueueRequest, Hints, Incarnation, Lane, LeaseRequest,
    Name, Node as _, Nonce, Precedence, QueuedAt, ReplySink, Settings, Vote, WaitEvent,
    WaitQueue as _,
};
use quorumlock_redis::RedisNode;
use quorumlock_tests::{Plain, builder, eventually, scripts_only, within};
use quorumlock_watchdog::Clock;

use crate::direct::{self, ask, one_node};
use crate::members::{self, Sign};
use crate::{LAYOUTS, LONG_LEASE, Node, Quorum, last_of, plain_quorum};

const HOUR: u64 = 3_600_000_000;

/// Microseconds since 1970, by the clock of the server.
async fn time(plain: &Plain) -> u64 {
    let (seconds, micros): (u64, u64) = plain.ask(&["TIME"]).await;
    seconds * 1_000_000 + micros
}

async fn keys(plain: &Plain) -> BTreeSet<String> {
    plain.ask(&["KEYS", "*"]).await
}

fn marks<'a>(names: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
    let key = |name: &String| Name::new(name).expect("a good name").mark_key().to_owned();
    names.into_iter().map(key).collect()
}

/// Acquires and releases the name. Returns the last token of its block.
async fn take(locker: &Locker, name: &str) -> u64 {
    let guard = within("free", locker.lock(name).lease(LONG_LEASE)).await.expect("granted");
    let last = last_of(guard.token());
    guard.unlock().await.expect("held");
    last
}

#[tokio::test]
async fn a_fresh_name_takes_one_transaction_and_leaves_the_mark_of_its_slot() {
    if scripts_only() {
        return;
    }
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        within("connected", locker.ping()).await.expect("an answer");
        let names: Vec<_> = (0..5).map(|i| format!("fresh/{i}")).collect();
        for name in &names {
            let (scripts, transactions) = (node.calls("evalsha").await, node.calls("exec").await);
            let guard = within("free", locker.lock(name).lease(LONG_LEASE)).await.expect("granted");
            assert_eq!(node.calls("evalsha").await, scripts, "{layout:?}");
            assert_eq!(node.calls("exec").await, transactions + 1, "{layout:?}");
            assert_eq!(plain.mark(name).await, Some(last_of(guard.token())));
            guard.unlock().await.expect("held");
        }
        assert_eq!(keys(&plain).await, marks(&names), "{layout:?}");
    }
}

#[tokio::test]
async fn thousands_of_names_leave_no_more_than_the_marks_of_their_slots() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let mut names: Vec<_> = (0..2_000).map(|i| format!("invoice/{i}")).collect();
        // All of these names are in one slot.
        names.extend((0..100).map(|i| format!("{{job}}/{i}")));
        for some in names.chunks(100) {
            let taken = some.iter().map(|name| locker.lock(name).lease(LONG_LEASE).into_future());
            for guard in within("free", join_all(taken)).await {
                guard.expect("granted").unlock().await.expect("held");
            }
        }
        let left = keys(&plain).await;
        assert_eq!(left, marks(&names), "{layout:?}");
        assert!(left.len() <= 2_001, "{}", left.len());
        for key in left.iter().take(10) {
            assert_eq!(plain.pttl(key).await, -1, "marks do not expire");
        }
    }
}

/// An acquisition by script returns the mark; one by transaction returns only that the mark is
/// ahead, and the first raise then asks for it.
#[tokio::test]
async fn a_mark_ahead_of_our_clock_costs_a_raise_and_is_remembered() {
    for layout in LAYOUTS {
        for (scripts, first, next) in [(true, 2, 1), (false, 2, 0)] {
            let Some(node) = Node::start(layout).await else { return };
            let locker = builder().label("").layout(layout).scripts_only(scripts);
            let locker = locker.on(Servers::single(node.server[0].url())).expect("a good URL");
            let ahead = time(&node.plain).await + HOUR;
            node.plain.set_mark("x", ahead).await;
            within("connected", locker.ping()).await.expect("an answer");
            let before = node.calls("evalsha").await;
            let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
            assert_eq!(node.calls("evalsha").await, before + first, "{layout:?}");
            assert!(guard.token().get() > ahead);
            assert_eq!(node.plain.mark("x").await, Some(last_of(guard.token())));
            let last = last_of(guard.token());
            guard.unlock().await.expect("held");

            let before = node.calls("evalsha").await;
            let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
            assert_eq!(node.calls("evalsha").await, before + next, "{layout:?}");
            assert!(guard.token().get() > last);
        }
    }
}

#[tokio::test]
async fn on_a_quorum_enough_nodes_accept_the_same_token_wherever_marks_are_ahead() {
    for layout in LAYOUTS {
        for ahead in 1..=3 {
            let Some(quorum) = Quorum::start(3, layout).await else { return };
            let locker = builder().label("").layout(layout).scripts_only(true);
            let locker = locker.admission(quorumlock::Admission::Redlock);
            let locker = locker.on(Servers::quorum(quorum.servers.urls())).expect("good URLs");
            // Afterwards all nodes are verified and have been asked.
            take(&locker, "another").await;
            let mark = time(&quorum.plain[0]).await + HOUR;
            for node in &quorum.plain[..ahead] {
                node.set_mark("x", mark).await;
            }
            let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
            // One node of three may have a lower mark.
            let passed = guard.token().get() > mark;
            assert!(passed || ahead == 1, "{layout:?}: {} at {mark}", guard.token());
            let mut accepted = 0;
            for node in &quorum.plain {
                accepted += usize::from(node.mark("x").await == Some(last_of(guard.token())));
            }
            assert!(accepted >= 2, "{layout:?}: {accepted} of three nodes have accepted it");
            let last = last_of(guard.token());
            guard.unlock().await.expect("held");
            assert!(take(&locker, "x").await > last, "{layout:?}");
        }
    }
}

fn name() -> Name {
    Name::new("x").expect("a good name")
}

fn lease_request(nonce: u128) -> LeaseRequest {
    LeaseRequest::new(name(), Nonce::from_u128(nonce), LONG_LEASE)
}

fn token(value: u64) -> FencingToken {
    FencingToken::new(value | (FencingToken::BLOCK - 1))
}

/// One acquisition with this nonce, by script or by transaction.
async fn acquire(
    node: &RedisNode,
    nonce: u128,
    token: FencingToken,
    by_script: bool,
) -> Answer<Vote> {
    direct::acquire(node, &lease_request(nonce), token, Hints::contended(by_script)).await
}

async fn raise(node: &RedisNode, nonce: u128, token: FencingToken) -> Answer<Acceptance> {
    ask(|to| node.raise(&lease_request(nonce), token, Incarnation::NONE, to)).await
}

fn accepted(vote: &Answer<Vote>) -> Acceptance {
    match vote {
        Answer::Yes(vote) => vote.token,
        other => panic!("not granted: {other:?}"),
    }
}

const NOW: u64 = 1_800_000_000_000_000;

#[tokio::test]
async fn a_token_is_accepted_from_below_only() {
    for layout in LAYOUTS {
        for by_script in [true, false] {
            let Some(server) = Node::start(layout).await else { return };
            let (node, plain) = (one_node(&server, layout, None), &server.plain);
            let mark = token(NOW);
            for (proposed, is_above) in [
                (token(NOW - 1_000), false),
                (mark, false),
                (token(NOW + FencingToken::BLOCK), true),
            ] {
                plain.set_mark("x", mark.get()).await;
                let vote = acquire(&node, 7, proposed, by_script).await;
                let (said, stored) = (accepted(&vote), plain.mark("x").await);
                match (is_above, said) {
                    (true, Acceptance::Accepted) => assert_eq!(stored, Some(proposed.get())),
                    (false, Acceptance::Behind(shown)) => {
                        assert!(if by_script { shown == mark } else { shown >= proposed });
                        assert_eq!(stored, Some(mark.get()), "a mark only rises");
                    }
                    other => panic!("{layout:?}, by script {by_script}, {proposed}: {other:?}"),
                }
                plain.ask::<i64>(&["DEL", "x", name().mark_key()]).await;
            }
        }
    }
}

#[tokio::test]
async fn a_raise_is_accepted_from_below_and_only_while_held() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        assert_eq!(accepted(&acquire(&node, 7, token(NOW), true).await), Acceptance::Accepted);
        let (mark, above) = (token(NOW), token(NOW + 320));
        let behind = Answer::Yes(Acceptance::Behind(mark));
        assert_eq!(
            raise(&node, 7, mark).await,
            behind,
            "{layout:?}: what is equal may be another's"
        );
        assert_eq!(raise(&node, 7, token(NOW - 1_000)).await, behind);
        assert_eq!(plain.mark("x").await, Some(mark.get()));
        assert_eq!(raise(&node, 7, above).await, Answer::Yes(Acceptance::Accepted));
        assert_eq!(plain.mark("x").await, Some(above.get()));

        let gone = Answer::No(Denial::Gone);
        let higher = token(NOW + 640);
        assert_eq!(raise(&node, 8, higher).await, gone, "{layout:?}: another holds it");
        plain.ask::<i64>(&["DEL", "x"]).await;
        assert_eq!(raise(&node, 7, higher).await, gone, "{layout:?}: nobody holds it");
        assert_eq!(plain.mark("x").await, Some(above.get()), "{layout:?}: it moved for nobody");
        assert_eq!(
            accepted(&acquire(&node, 8, token(NOW + 960), true).await),
            Acceptance::Accepted
        );
        assert_eq!(raise(&node, 7, token(NOW + 1_280)).await, gone);
    }
}

/// A node that grants a lease again while the window is open also accepts its token, so that the
/// next token is above it.
#[tokio::test]
async fn what_a_node_holds_again_has_its_token_there_too() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        for (proposed, mark) in [(NOW, NOW), (NOW + 320, NOW + 320), (NOW - 320, NOW + 320)] {
            let again =
                ask(|to| node.regrant(&lease_request(7), token(proposed), Lane::Watchdog, to))
                    .await;
            assert!(matches!(again, Answer::Yes(_)), "{layout:?}: {again:?}");
            assert_eq!(plain.mark("x").await, Some(token(mark).get()), "{layout:?}");
            plain.ask::<i64>(&["DEL", "x"]).await;
        }
        acquire(&node, 8, token(NOW + 640), true).await;
        let denied =
            ask(|to| node.regrant(&lease_request(7), token(NOW + 960), Lane::Watchdog, to)).await;
        assert!(matches!(denied, Answer::No(Denial::Busy(_))), "{denied:?}");
        assert_eq!(
            plain.mark("x").await,
            Some(token(NOW + 640).get()),
            "{layout:?}: it is refused"
        );
    }
}

/// Otherwise clients that ask again and again would keep outbidding clients with longer round
/// trips.
#[tokio::test]
async fn no_mark_moves_for_a_caller_that_a_script_refuses() {
    for layout in LAYOUTS {
        let Some(server) = Node::start(layout).await else { return };
        let (node, plain) = (one_node(&server, layout, None), &server.plain);
        let mark = token(NOW);
        acquire(&node, 7, mark, true).await;
        let later = token(NOW + 3_200);
        let refused = acquire(&node, 8, later, true).await;
        assert!(matches!(refused, Answer::No(Denial::Busy(_))), "{refused:?}");
        assert_eq!(plain.mark("x").await, Some(mark.get()), "{layout:?}: another holds it");

        // The name is free, and other waiters are ahead of the caller.
        let _listening = node.subscribe(&name(), Arc::new(IgnoresEvents), 0);
        let another = format!("another {}", members::kind_of(layout));
        members::add(plain, "quorumlock:waiters:{x}", &another, 1, Sign::NOW).await;
        let in_line = EnqueueRequest {
            waited: Duration::ZERO,
            precedence: Precedence::Yields,
            handoff: None,
            earlier: Vec::new(),
            queued_at: QueuedAt::default(),
        };
        // The node grants until the caller's subscription is active: without it no caller is
        // queued.
        eventually("left to others", async || {
            plain.ask::<i64>(&["DEL", "x", name().mark_key()]).await;
            plain.set_mark("x", mark.get()).await;
            let hints = Hints::queued(in_line.clone());
            let answer = direct::acquire(&node, &lease_request(9), later, hints).await;
            matches!(answer, Answer::No(Denial::Busy(_))).then_some(())
        })
        .await;
        assert_eq!(plain.mark("x").await, Some(mark.get()), "{layout:?}: it is left to others");
    }
}

/// A subscriber that ignores all events.
struct IgnoresEvents;

impl ReplySink<WaitEvent> for IgnoresEvents {
    fn collect(&self, _from: usize, _news: WaitEvent) {}
}

/// Many clients wait for a held name and ask again and again: the mark stays that of the holder.
#[tokio::test]
async fn those_who_wait_leave_the_mark_where_it_is() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let guard = within("free", node.locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let waits = || {
            let other = builder()
                .label("")
                .layout(layout)
                .on(Servers::single(node.server[0].url()))
                .expect("a good URL");
            let lock = other.lock("x").lease(LONG_LEASE);
            tokio::spawn(async move { lock.await.expect("granted").unlock().await })
        };
        let waiting: Vec<_> = (0..4).map(|_| waits()).collect();
        eventually("in line", async || {
            let waiters: usize = node.plain.ask(&["ZCARD", "quorumlock:waiters:{x}"]).await;
            (waiters == 4).then_some(())
        })
        .await;
        // The transaction with which each client began may have moved the mark.
        let mark = node.plain.mark("x").await.expect("a mark");
        assert!(mark >= last_of(guard.token()));
        let asked = node.calls("evalsha").await;
        // These attempts are like polls after a missed release.
        for _ in 0..8 {
            let waiters: Vec<String> =
                node.plain.ask(&["ZRANGE", "quorumlock:waiters:{x}", "0", "-1"]).await;
            for waiter in waiters {
                let channel = members::channel_of(&waiter);
                node.plain.ask::<i64>(&["PUBLISH", &channel, "x"]).await;
            }
        }
        eventually("they ask again", async || {
            (node.calls("evalsha").await >= asked + 4).then_some(())
        })
        .await;
        assert_eq!(node.plain.mark("x").await, Some(mark), "{layout:?}");
        guard.unlock().await.expect("held");
        for waiter in waiting {
            within("its turn", waiter).await.expect("no panic").expect("held");
        }
    }
}

#[tokio::test]
async fn tokens_of_several_lockers_rise_and_blocks_do_not_overlap() {
    for layout in LAYOUTS {
        let Some(quorum) = Quorum::start(3, layout).await else { return };
        let lockers = [(); 3].map(|()| plain_quorum(layout, quorum.servers.urls()));
        let mut last = 0;
        for i in 0..60 {
            let locker = &lockers[i % lockers.len()];
            let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
            assert!(guard.token().get() > last, "{layout:?}: {} after {last}", guard.token());
            assert_eq!(guard.token().get() % FencingToken::BLOCK, 0, "the first of its block");
            last = last_of(guard.token());
            guard.unlock().await.expect("held");
        }
    }
}

/// Any two names may share a slot.
#[tokio::test]
async fn names_of_one_slot_share_its_mark_and_each_stays_in_order() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let other = builder()
            .label("")
            .layout(layout)
            .on(Servers::single(node.server[0].url()))
            .expect("a good URL");
        let mut last = 0;
        for _ in 0..20 {
            for (locker, name) in [(&node.locker, "x"), (&other, "{x}"), (&other, "x")] {
                let next = take(locker, name).await;
                assert!(
                    next >= last + FencingToken::BLOCK,
                    "{layout:?}: {name}: {next} after {last}"
                );
                last = next;
            }
        }
        assert_eq!(keys(&node.plain).await, marks([&"x".to_owned()]), "{layout:?}");

        // All run at once, so that the requests cross on the way.
        let twenty = async |locker: &Locker, name: &str| {
            let mut before = last;
            for _ in 0..20 {
                let next = take(locker, name).await;
                assert!(
                    next >= before + FencingToken::BLOCK,
                    "{layout:?}: {name}: {next} after {before}"
                );
                before = next;
            }
        };
        futures::join!(twenty(&node.locker, "x"), twenty(&other, "{x}"));
    }
}

/// The old holder's token is below the mark even before the next holder has its own.
#[tokio::test]
async fn a_name_that_was_taken_away_is_granted_with_a_larger_token() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let other = builder()
            .label("")
            .layout(layout)
            .on(Servers::single(node.server[0].url()))
            .expect("a good URL");
        let guard = within("free", node.locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let last = last_of(guard.token());
        assert!(other.mutex("x").force_unlock().await.expect("an answer"));
        let mark = node.plain.mark("x").await.expect("a mark");
        assert_eq!(mark, last + FencingToken::BLOCK);
        let next = within("free", other.lock("x").lease(LONG_LEASE)).await.expect("granted");
        assert!(next.token().get() > mark, "{} at {mark}", next.token());
        // Without a mark there is nothing to raise.
        node.plain.ask::<i64>(&["DEL", name().mark_key()]).await;
        assert!(other.mutex("x").force_unlock().await.expect("an answer"));
        assert_eq!(node.plain.mark("x").await, None);
        let third = builder()
            .label("")
            .layout(layout)
            .on(Servers::single(node.server[0].url()))
            .expect("a good URL");
        assert!(take(&third, "x").await > last_of(next.token()));
    }
}

/// Java's `RFencedLock` counts at this key.
#[tokio::test]
async fn redissons_own_token_is_left_alone() {
    const THEIRS: &str = "redisson_lock_token:{x}";
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    plain.ask::<String>(&["SET", THEIRS, "832"]).await;
    take(&locker, "x").await;
    let _guard = locker.lock("x").lease(LONG_LEASE).await.expect("free");
    assert!(locker.mutex("x").force_unlock().await.expect("an answer"));
    assert_eq!(plain.ask::<u64>(&["INCR", THEIRS]).await, 833);
    assert_eq!(plain.pttl(THEIRS).await, -1);
}

/// The client proposes so after it has learned the server's time.
#[tokio::test]
async fn a_client_whose_clock_is_off_by_an_hour_proposes_by_the_servers_clock() {
    for (ahead, behind) in [(2 * HOUR, 0), (0, 2 * HOUR)] {
        let Some(server) = Node::start(Layout::Redlock).await else { return };
        let system = Clock::system();
        let wall = move || Duration::from_micros(system.wall_micros() + ahead - behind);
        let clock = Clock::given(wall);
        let settings = Settings::default();
        let urls = [server.server[0].url()];
        let nodes = quorumlock_redis::redis_nodes(&urls, Layout::Redlock, None, &settings, &clock);
        let node = nodes.expect("a good URL").pop().expect("one");
        let lessor = Single::new(node, clock.clone(), settings.answer_timeout);
        let world =
            Environment { clock, entropy: Entropy::system(), watchdog_on_this_runtime: false };
        let locker = quorumlock_core::Locker::with_lessor(Arc::new(lessor), settings, world);
        let locker = locker.expect("a good configuration");
        // The client learns the time when it connects.
        drop(
            within("an answer", locker.holders([Claim::from(Name::new("x").expect("a name"))]))
                .await
                .expect("an answer"),
        );
        let before = time(&server.plain).await;
        let guard =
            within("free", locker.lock::<kind::Lock>(Claim::lock(["x"]))).await.expect("granted");
        let (fence, after) = (guard.token().get(), time(&server.plain).await);
        assert!(
            before < fence + HOUR / 60 && fence < after + HOUR / 60,
            "{before} {fence} {after}"
        );
    }
}
