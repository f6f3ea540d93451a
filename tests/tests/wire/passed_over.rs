//! A release serves the first waiter that shows life (PROTOCOL.md W5). The waiters here are only queue
//! members and channels.

use std::time::Duration;

use quorumlock::{Guard, Layout};
use quorumlock_tests::{Plain, eventually, within};

use crate::members::{self, Sign, kind_of, nonce, offer};
use crate::{LAYOUTS, LONG_LEASE, Node};

const WAITERS: &str = "quorumlock:waiters:{x}";

/// A waiter that was notified so long ago has left.
const LONG_AGO: Sign = Sign::Notified(Duration::from_secs(3));

async fn held(layout: Layout) -> Option<(Node, Guard)> {
    let node = Node::start(layout).await?;
    let guard = within("free", node.locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
    Some((node, guard))
}

/// Who holds the name, once the release has handed it off.
async fn awaits_holder(node: &Node, nonce: &str) {
    eventually("handed off", async || {
        let holder = node.locker.mutex("x").holder().await.expect("an answer")?;
        assert_eq!(holder.id, nonce);
        Some(())
    })
    .await;
}

async fn awaits_notified(plain: &Plain, notified: &[String]) {
    let told = async || (members::notified(plain, WAITERS).await == notified).then_some(());
    eventually("notified", told).await;
}

#[tokio::test]
async fn a_release_hands_off_to_the_first_waiter_that_shows_life() {
    for layout in LAYOUTS {
        let Some((node, guard)) = held(layout).await else { return };
        let (plain, kind) = (&node.plain, kind_of(layout));
        let (left, deaf) = (offer("left", kind, 1), offer("deaf", kind, 2));
        let stale = [offer("stale", kind, 3), offer("stopped", kind, 4)];
        let (fresh, behind) = (offer("fresh", kind, 5), offer("behind", kind, 6));
        let join = async |member: &str, step, sign| {
            members::waiter_with_offer(plain, WAITERS, member, step, sign).await
        };
        let _left = join(&left, 1, LONG_AGO).await;
        members::add(plain, WAITERS, &deaf, 2, Sign::STALE).await;
        let (mut first, _handoffs) = join(&stale[0], 3, Sign::STALE).await;
        let (mut second, _handoffs) = join(&stale[1], 4, Sign::STALE).await;
        let (_told, mut handed) = join(&fresh, 5, Sign::NOW).await;
        let _behind = join(&behind, 6, Sign::NOW).await;
        guard.unlock().await.expect("held");
        awaits_holder(&node, &nonce(kind, 5)).await;
        let token = plain.mark("x").await.expect("a mark");
        assert_eq!(handed.next().await, format!("{} {token} x", nonce(kind, 5)));
        // Those that show no life hear that the name was free, and keep their place.
        for stale in [&mut first, &mut second] {
            assert_eq!(stale.next().await, "x");
        }
        let [first, second] = stale;
        assert_eq!(members::notified(plain, WAITERS).await, [&*first, &*second], "{layout:?}");
        assert_eq!(members::all(plain, WAITERS).await, [first, second, behind], "{layout:?}");
    }
}

/// Beside a waiter that is served, eight others are notified: a long queue keeps no server busy.
#[tokio::test]
async fn a_release_that_serves_a_waiter_notifies_eight_others() {
    for layout in LAYOUTS {
        let Some((node, guard)) = held(layout).await else { return };
        let (plain, kind) = (&node.plain, kind_of(layout));
        let _channel = plain.listen("quorumlock:wake:stale").await;
        let stale: Vec<_> = (1..=20).map(|number| offer("stale", kind, number)).collect();
        for (step, member) in (1..).zip(&stale) {
            members::add(plain, WAITERS, member, step, Sign::STALE).await;
        }
        let fresh = offer("fresh", kind, 50);
        let _fresh = members::waiter_with_offer(plain, WAITERS, &fresh, 50, Sign::NOW).await;
        guard.unlock().await.expect("held");
        awaits_holder(&node, &nonce(kind, 50)).await;
        assert_eq!(members::notified(plain, WAITERS).await, stale[..8], "{layout:?}");
        assert_eq!(members::all(plain, WAITERS).await, stale, "{layout:?}");
    }
}

/// If no waiter shows life, the name is free, and the first that hears of it gets it.
#[tokio::test]
async fn a_release_that_finds_no_life_notifies_all() {
    for layout in LAYOUTS {
        for count in [1, 8, 9, 60] {
            let Some((node, guard)) = held(layout).await else { return };
            let (plain, kind) = (&node.plain, kind_of(layout));
            let mut told = plain.listen("quorumlock:wake:stale").await;
            let _handoffs = plain.listen("quorumlock:handoff:stale").await;
            let stale: Vec<_> = (1..=count).map(|number| offer("stale", kind, number)).collect();
            for (step, member) in (1..).zip(&stale) {
                members::add(plain, WAITERS, member, step, Sign::STALE).await;
            }
            guard.unlock().await.expect("held");
            awaits_notified(plain, &stale).await;
            for _ in &stale {
                assert_eq!(told.next().await, "x");
            }
            assert!(!plain.exists("x").await, "{layout:?}, {count}: it is free");
        }
    }
}

/// A process that ended left its members in the queue. They cost a waiter behind them nothing, and a release
/// removes 1,000 of them at most.
#[tokio::test]
async fn waiters_whose_processes_have_ended_cost_the_next_one_nothing() {
    for layout in LAYOUTS {
        for (count, left) in [(64, 0), (999, 0), (1_200, 200)] {
            let Some((node, guard)) = held(layout).await else { return };
            let (plain, kind) = (&node.plain, kind_of(layout));
            let now = members::server_time(plain).await;
            let gone = |step: u64| {
                let score = members::score(step, Sign::STALE, now).to_string();
                [score, format!("gone {kind} {step} 60000 1")]
            };
            let gone: Vec<_> = (1..=count).flat_map(gone).collect();
            let add = ["ZADD", WAITERS].into_iter().chain(gone.iter().map(String::as_str));
            plain.ask::<i64>(&add.collect::<Vec<_>>()).await;
            let live = offer("live", kind, 200);
            let _live = members::waiter_with_offer(plain, WAITERS, &live, 2_000, Sign::NOW).await;
            guard.unlock().await.expect("held");
            if left == 0 {
                awaits_holder(&node, &nonce(kind, 200)).await;
            }
            let queued = left + usize::from(left > 0);
            eventually("they have left", async || {
                (plain.ask::<usize>(&["ZCARD", WAITERS]).await == queued).then_some(())
            })
            .await;
        }
    }
}

/// The waiter that is second after a release asks again, so that the next release finds it alive.
#[tokio::test]
async fn the_waiter_that_becomes_second_is_told() {
    const AWHILE: Sign = Sign::Asked(Duration::from_millis(1_100));
    for layout in LAYOUTS {
        for (sign, first_message) in [(AWHILE, "quorumlock:second:x"), (Sign::NOW, "nothing")] {
            let Some((node, guard)) = held(layout).await else { return };
            let (plain, kind) = (&node.plain, kind_of(layout));
            let [first, next, second, third] =
                ["first", "next", "second", "third"].map(|id| offer(id, kind, 1));
            let _first = members::waiter_with_offer(plain, WAITERS, &first, 1, Sign::NOW).await;
            let mut heard = Vec::new();
            for (step, member) in (2..).zip([&next, &second, &third]) {
                heard.push(members::waiter(plain, WAITERS, member, step, sign).await);
            }
            guard.unlock().await.expect("held");
            awaits_holder(&node, &nonce(kind, 1)).await;
            for (member, messages) in [next, second, third].iter().zip(&mut heard) {
                let expected = if member.starts_with("second") { first_message } else { "nothing" };
                plain.ask::<i64>(&["PUBLISH", &members::channel_of(member), "nothing"]).await;
                assert_eq!(messages.next().await, expected, "{layout:?}: {member}");
            }
            assert!(members::notified(plain, WAITERS).await.is_empty(), "{layout:?}");
        }
    }
}

/// It looks at 64 waiters at most. How long a server takes for one release is compared with what it takes
/// for one with 64 waiters, and for one without: the median of many ignores those in which the machine
/// stalled.
#[tokio::test]
async fn a_release_takes_no_longer_for_a_long_queue() {
    const LOOKS_AT: usize = 64;
    const WAITING: usize = 10_000;
    for layout in LAYOUTS {
        let Some((node, guard)) = held(layout).await else { return };
        let plain = &node.plain;
        let _channel = plain.listen("quorumlock:wake:stale").await;
        let release = a_release(plain, guard).await;
        let release: Vec<_> = release.iter().map(String::as_str).collect();
        let alone = median_us(plain, &release, async || ()).await;
        // One waiter with many members costs as much as many waiters. All show no life.
        let now = members::server_time(plain).await;
        let stale = |step: usize| {
            let score = members::score(step as u64, Sign::STALE, now).to_string();
            [score, format!("stale {} {step} 60000 1", kind_of(layout))]
        };
        let crowd: Vec<String> = (0..WAITING).flat_map(stale).collect();
        let add = async |many: usize| {
            let members = crowd[..2 * many].iter().map(String::as_str);
            let command: Vec<_> = ["ZADD", WAITERS].into_iter().chain(members).collect();
            plain.ask::<i64>(&command).await;
        };
        let few = median_us(plain, &release, async || add(LOOKS_AT).await).await;
        add(WAITING).await;
        let many = median_us(plain, &release, async || add(LOOKS_AT).await).await;
        assert_eq!(plain.ask::<usize>(&["ZCARD", WAITERS]).await, WAITING, "{layout:?}");
        assert!(many < 3 * few, "{layout:?}: {many} us with a crowd, {few} us with a few");
        assert!(many < 200 * alone, "{layout:?}: {many} us with a crowd, {alone} us alone");
    }
}

/// The words of a release by script. Sent again, they release nothing, and look for waiters all the same.
async fn a_release(plain: &Plain, guard: Guard) -> Vec<String> {
    plain.log_all().await;
    plain.ask::<String>(&["CONFIG", "SET", "slowlog-max-len", "100000"]).await;
    members::add(plain, WAITERS, "nobody hash", 1, Sign::NOW).await;
    guard.unlock().await.expect("held");
    eventually("a release looks for waiters", async || {
        let looks = |words: &Vec<String>| words[0] == "EVALSHA" && words[2] == "4";
        plain.slow_log().await.into_iter().find(looks)
    })
    .await
}

/// The median of the time that the server takes for a command, by its own clock, in microseconds.
async fn median_us(plain: &Plain, command: &[&str], before: impl AsyncFn()) -> i64 {
    plain.ask::<String>(&["SLOWLOG", "RESET"]).await;
    for _ in 0..50 {
        before().await;
        plain.ask::<i64>(command).await;
    }
    type Entry = (i64, i64, i64, Vec<String>, String, String);
    let log: Vec<Entry> = plain.ask(&["SLOWLOG", "GET", "-1"]).await;
    let mut took: Vec<_> = log.into_iter().filter(|entry| entry.3[0] == "EVALSHA").collect();
    took.sort_unstable_by_key(|entry| entry.2);
    assert_eq!(took.len(), 50, "all are logged");
    took[25].2.max(1)
}
