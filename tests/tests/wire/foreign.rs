//! A Redisson process against our locker, and keys that are not locks of this layout.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quorumlock::telemetry::{Event, VoteAnswer};
use quorumlock::{Error, Layout, NodeProblem, Servers};
use quorumlock_tests::{builder, eventually, mark_key, scripts_only, within};

use crate::foreign_client::ForeignClient;
use crate::{LONG_LEASE, Node, Quorum, plain_quorum};

const CHANNEL: &str = "redisson_lock__channel:{invoice/7}";

#[tokio::test]
async fn a_redisson_holder_excludes_us_and_its_release_wakes_us() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let foreign = ForeignClient::new(&plain, 1);
    assert_eq!(foreign.try_lock("invoice/7", 120_000).await, None);
    assert_eq!(foreign.try_lock("invoice/7", 120_000).await, None, "twice");
    assert!(locker.try_lock("invoice/7").await.expect("an answer").is_none());
    let holder = locker.mutex("invoice/7").holder().await.expect("an answer").expect("held");
    assert_eq!((holder.id.as_str(), holder.holds), (foreign.id.as_str(), 2));
    let answer = locker.lock("invoice/7").wait(Duration::from_millis(100)).await;
    let Err(Error::Busy(busy)) = answer else { panic!("{answer:?}") };
    let remaining = busy.remaining.expect("the node said so");
    assert!((60_000..=120_000).contains(&remaining.as_millis()), "{remaining:?}");

    let waiter = tokio::spawn(async move { locker.lock("invoice/7").await });
    awaits_listener(&plain).await;
    assert_eq!(foreign.unlock("invoice/7").await, Some(false), "one hold is left");
    assert_eq!(foreign.unlock("invoice/7").await, Some(true));
    let guard = within("woken", waiter).await.expect("no panic").expect("free");
    guard.unlock().await.expect("unlocked");
}

async fn awaits_listener(plain: &quorumlock_tests::Plain) {
    eventually("our waiter listens", async || {
        let (_, listeners) = plain.ask::<(String, usize)>(&["PUBSUB", "NUMSUB", CHANNEL]).await;
        (listeners > 0).then_some(())
    })
    .await;
}

/// A release on the name's own channel reaches all of our lockers and does not say which waiter is
/// next: the first in the queue acquires the lock (PROTOCOL.md W6). The release is by a Redisson
/// process, or by a locker that does not know of waiters.
#[tokio::test]
async fn of_those_who_hear_a_release_the_first_in_line_has_its_turn() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let waiters = quorumlock_tests::waiters("invoice/7");
    for round in 0..6 {
        let foreign = ForeignClient::new(&node.plain, round);
        let holder = builder().on(Servers::single(node.server[0].url())).expect("a good URL");
        let guard = match round % 2 {
            0 => Some(holder.lock("invoice/7").lease(LONG_LEASE).await.expect("free")),
            _ => {
                assert_eq!(foreign.try_lock("invoice/7", 120_000).await, None);
                None
            }
        };
        let (told, mut granted) = tokio::sync::mpsc::unbounded_channel();
        let (mut waiting, asked) = (Vec::new(), [const { AtomicUsize::new(0) }; 6].map(Arc::new));
        for (place, busy) in asked.iter().enumerate() {
            let busy = busy.clone();
            let counts = builder().on_event(move |event| {
                if let Event::Voted { answer: VoteAnswer::Busy, .. } = event {
                    busy.fetch_add(1, Ordering::Relaxed);
                }
            });
            let (told, locker) = (told.clone(), counts.on(Servers::single(node.server[0].url())));
            waiting.push(tokio::spawn(async move {
                let guard = locker.expect("a good URL").lock("invoice/7").lease(LONG_LEASE).await;
                told.send(place).expect("heard");
                guard.expect("free").unlock().await.expect("held");
            }));
            eventually("in line", async || {
                let places: usize = node.plain.ask(&["ZCARD", &waiters]).await;
                (places > place).then_some(())
            })
            .await;
        }
        eventually("all hear", async || {
            let (_, subscribers): (String, usize) =
                node.plain.ask(&["PUBSUB", "NUMSUB", CHANNEL]).await;
            (subscribers == 6).then_some(())
        })
        .await;
        // Each asks at first, and after each of its two subscriptions. A request that is still under way when
        // the name is released may take it.
        eventually("all have asked", async || {
            asked.iter().all(|busy| busy.load(Ordering::Relaxed) > 2).then_some(())
        })
        .await;
        match guard {
            Some(guard) => guard.unlock().await.expect("held"),
            None => assert_eq!(foreign.unlock("invoice/7").await, Some(true)),
        }
        assert_eq!(within("a turn", granted.recv()).await, Some(0), "round {round}");
        for waiter in waiting {
            within("its turn", waiter).await.expect("no panic");
        }
    }
}

#[tokio::test]
async fn we_exclude_a_redisson_process_and_our_release_wakes_it() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let foreign = ForeignClient::new(&plain, 1);
    let guard = locker.lock("invoice/7").lease(LONG_LEASE).await.expect("free");
    let mut messages = plain.listen(CHANNEL).await;
    let left = foreign.try_lock("invoice/7", 30_000).await.expect("refused");
    assert!((30_000..=60_000).contains(&left), "it waits for our lease: {left}");
    assert_eq!(foreign.unlock("invoice/7").await, None, "not its lock");
    guard.check().expect("still held");

    guard.unlock().await.expect("unlocked");
    assert_eq!(messages.next().await, "0");
    assert_eq!(foreign.try_lock("invoice/7", 30_000).await, None);
}

/// The key is deleted by force or by hand: no holder counts down, but the channel says that the
/// name is free.
#[tokio::test]
async fn a_foreign_delete_with_its_message_wakes_us() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    plain.ask::<i64>(&["HSET", "invoice/7", "8743c9c0-0795-4907-87fd-6c719a6b4586:44", "1"]).await;
    plain.ask::<i64>(&["PEXPIRE", "invoice/7", "120000"]).await;
    let waiter = tokio::spawn(async move { locker.lock("invoice/7").await });
    awaits_listener(&plain).await;
    assert!(!waiter.is_finished());
    plain.ask::<i64>(&["DEL", "invoice/7"]).await;
    plain.ask::<i64>(&["PUBLISH", CHANNEL, "0"]).await;
    drop(within("woken", waiter).await.expect("no panic").expect("free"));
}

/// A message is only advice: a false or malformed message grants nothing.
#[tokio::test]
async fn a_message_alone_frees_nothing() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let foreign = ForeignClient::new(&plain, 1);
    assert_eq!(foreign.try_lock("invoice/7", 120_000).await, None);
    let waiter = tokio::spawn(async move { locker.lock("invoice/7").await });
    awaits_listener(&plain).await;
    for nonsense in ["1", "", "free!", "0"] {
        let asked = node.calls("evalsha").await;
        plain.ask::<i64>(&["PUBLISH", CHANNEL, nonsense]).await;
        let asks_again = async || (node.calls("evalsha").await > asked).then_some(());
        eventually("it asks again", asks_again).await;
    }
    assert!(!waiter.is_finished(), "a message granted it");
    foreign.unlock("invoice/7").await;
    drop(within("woken", waiter).await.expect("no panic").expect("free"));
}

#[tokio::test]
async fn a_name_in_the_other_format_is_an_error_and_not_a_wait() {
    for (ours, theirs) in [(Layout::Redisson, Layout::Redlock), (Layout::Redlock, Layout::Redisson)]
    {
        let Some(node) = Node::start(ours).await else { return };
        let locker = node.locker.clone();
        let other =
            builder().layout(theirs).on(Servers::single(node.server[0].url())).expect("a good URL");
        let guard = other.lock("invoice/7").lease(LONG_LEASE).await.expect("free");
        let waited = within("an answer", locker.lock("invoice/7")).await;
        assert_refused(waited, node.server[0].url(), &lock_of(theirs));
        // A transaction shows only that the name is taken; a script also shows by what.
        let tried = within("an answer", locker.try_lock("invoice/7")).await;
        assert!(scripts_only() || matches!(tried, Ok(None)), "{tried:?}");
        let (by_script, _) = node.by_script(ours);
        let tried = within("an answer", by_script.try_lock("invoice/7")).await;
        assert_refused(tried, node.server[0].url(), &lock_of(theirs));
        guard.check().expect("still held");
        guard.unlock().await.expect("it did not touch the lock");
        drop(within("free again", locker.lock("invoice/7")).await.expect("free"));
    }
}

#[tokio::test]
async fn a_quorum_says_so_too_and_leaves_nothing_behind() {
    for (ours, theirs) in [(Layout::Redisson, Layout::Redlock), (Layout::Redlock, Layout::Redisson)]
    {
        let Some(quorum) = Quorum::start(3, ours).await else { return };
        let (locker, plain) = quorum.clients();
        let other = plain_quorum(theirs, quorum.servers.urls());
        let guard = other.lock("invoice/7").lease(LONG_LEASE).await.expect("free");
        let answer = within("an answer", locker.lock("invoice/7")).await;
        let Err(Error::Refused(none)) = answer else { panic!("{answer:?}") };
        assert!(none.nodes.iter().all(|node| node.problem == lock_of(theirs)), "{none:?}");
        guard.unlock().await.expect("unlocked");
        for node in plain {
            eventually("free", async || (!node.exists("invoice/7").await).then_some(())).await;
        }
    }
}

#[tokio::test]
async fn a_key_that_is_no_lock_at_all_is_an_error() {
    for layout in [Layout::Redisson, Layout::Redlock] {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        plain.ask::<i64>(&["SADD", "invoice/7", "a member"]).await;
        let data = NodeProblem::NotALock { key: "invoice/7".into(), found: "a set".into() };
        let refused = within("an answer", locker.lock("invoice/7")).await;
        assert_refused(refused, node.server[0].url(), &data);
        assert_eq!(plain.ask::<Vec<String>>(&["SMEMBERS", "invoice/7"]).await, ["a member"]);
    }
}

#[tokio::test]
async fn without_a_mark_nothing_is_held() {
    for layout in [Layout::Redisson, Layout::Redlock] {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let mark = mark_key("invoice/7");
        plain.ask::<i64>(&["SADD", mark, "a member"]).await;
        within("an answer", locker.lock("invoice/7")).await.expect_err("no token, no lock");
        assert!(!plain.exists("invoice/7").await, "{layout:?}");
        plain.ask::<i64>(&["DEL", mark]).await;
        drop(within("free", locker.lock("invoice/7")).await.expect("free"));
    }
}

fn assert_refused<T: std::fmt::Debug>(answer: Result<T, Error>, url: &str, problem: &NodeProblem) {
    let Err(Error::Refused(none)) = answer else { panic!("{answer:?}") };
    assert_eq!(none.name.as_ref().map(|name| name.as_str()), Some("invoice/7"));
    assert_eq!((none.of, none.needed, none.answered, none.voted), (1, 1, 1, 0));
    assert_eq!((none.nodes[0].node.as_str(), &none.nodes[0].problem), (url, problem));
}

fn lock_of(layout: Layout) -> NodeProblem {
    let found = format!("a lock of {layout:?}'s layout");
    NodeProblem::WrongType { key: "invoice/7".to_owned(), found }
}
