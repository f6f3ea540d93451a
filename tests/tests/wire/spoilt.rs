//! A key of another type on one node of a quorum costs only that node's vote; on a majority of the
//! nodes the error names the key.

use std::time::Duration;

use quorumlock::{Error, Layout, NodeProblem};
use quorumlock_tests::{Stopwatch, eventually, mark_key, within};

use crate::{LONG_LEASE, Quorum, plain_quorum};

const NAME: &str = "x";

/// The keys to spoil: the name, and the mark of its slot, in both layouts.
fn spoilt() -> [(Layout, &'static str); 4] {
    let mark = mark_key(NAME);
    [
        (Layout::Redisson, NAME),
        (Layout::Redisson, mark),
        (Layout::Redlock, NAME),
        (Layout::Redlock, mark),
    ]
}

#[tokio::test]
async fn one_spoilt_key_of_five_is_no_obstacle() {
    for (layout, key) in spoilt() {
        let Some(quorum) = Quorum::start(5, layout).await else { return };
        let (locker, plain) = quorum.clients();
        plain[2].ask::<i64>(&["RPUSH", key, "a member"]).await;
        for _ in 0..50 {
            let guard = within("an answer", locker.lock(NAME).lease(LONG_LEASE)).await;
            let guard = guard.unwrap_or_else(|error| panic!("{layout:?} {key}: {error}"));
            let holder = within("an answer", locker.mutex(NAME).holder()).await.expect("an answer");
            assert!(holder.is_some_and(|holder| holder.has(guard.nonce())), "{layout:?} {key}");
            guard.unlock().await.expect("held");
        }
        // A renewal works, too.
        let guard = locker.lock(NAME).lease(Duration::from_secs(2)).await.expect("free");
        let until = Stopwatch::start();
        eventually("renewed", async || {
            guard.check().expect("renewed");
            (until.elapsed() > Duration::from_secs(3)).then_some(())
        })
        .await;
        let other = plain_quorum(layout, quorum.servers.urls());
        assert!(within("an answer", other.try_lock(NAME)).await.expect("an answer").is_none());
        assert!(within("an answer", other.mutex(NAME).force_unlock()).await.expect("an answer"));
        drop(guard);
    }
}

#[tokio::test]
async fn a_spoilt_majority_is_refused_by_the_name_of_the_key() {
    for (layout, key) in spoilt() {
        let Some(quorum) = Quorum::start(3, layout).await else { return };
        let (locker, plain) = quorum.clients();
        for node in &plain[..2] {
            node.ask::<i64>(&["RPUSH", key, "a member"]).await;
        }
        let refused = within("an answer", locker.lock(NAME)).await;
        let Err(Error::Refused(none)) = refused else { panic!("{layout:?} {key}: {refused:?}") };
        assert_eq!((none.of, none.needed, none.nodes.len()), (3, 2, 2), "{none:?}");
        let key = key.to_owned();
        let problem = match &*key {
            NAME => NodeProblem::NotALock { key: key.clone(), found: "a list".to_owned() },
            _ => NodeProblem::BadMark { key: key.clone() },
        };
        assert!(none.nodes.iter().all(|node| node.problem == problem), "{none:?}");
        // The grant of the third node is released.
        eventually("free", async || (!plain[2].exists(NAME).await).then_some(())).await;
        for node in &plain[..2] {
            assert_eq!(node.ask::<String>(&["TYPE", &key]).await, "list");
        }
    }
}
