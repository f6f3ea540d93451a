//! L31: a gray node: for a while it executes nothing, then all that was sent meanwhile, so that an
//! acquisition or a release comes late, after the holds that it belonged to (`SAFETY.md`
//! G7, H16, H17).
//!
//! A lock that knows its holds by their owner only is then given back for a later hold: that is the
//! negative control. Ours match nonces, in both modes: whatever comes late does nothing.

use std::time::Duration;

use quorumlock::{Admission, Locker};
use quorumlock_lab::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, Proxy, Stopwatch, eventually, within};

use crate::ground::{NAME, builder, in_both, voters};

#[tokio::test]
async fn by_owners_a_late_release_frees_a_later_hold() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let way = Proxy::to(servers[0].addr().expect("ours"));
    let (old, new) = (Plain::to(&way.url()).await, Plain::to(servers[0].url()).await);
    let take = ["SET", NAME, "owner", "NX", "PX", "60000"];
    let mine = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end \
                return 0";
    let give_back = ["EVAL", mine, "1", NAME, "owner"];
    old.ask::<String>(&take).await;

    way.hold_old_connections();
    let late = tokio::spawn(async move { old.ask::<u32>(&give_back).await });
    way.awaits_held().await;
    // No answer: the same owner asks again, on a new connection.
    assert_eq!(new.ask::<u32>(&give_back).await, 1);
    new.ask::<String>(&take).await;

    way.heal();
    assert_eq!(within("the late release", late).await.expect("no panic"), 1, "it freed something");
    assert!(!new.exists(NAME).await, "the later hold is gone, and its owner believes in it");
}

#[tokio::test]
async fn a_late_release_frees_no_later_hold() {
    in_both(async |mode| {
        let Some(gray) = Gray::start(mode).await else { return };
        let guard = within("free", gray.holder.lock(NAME)).await.expect("two of three");
        gray.way.hold_old_connections();
        // The gray node does not answer: too few to know that it is given back.
        drop(guard.unlock().await);
        gray.way.awaits_held().await;
        // The release is owed, and sent again on a new connection; then it can be locked again.
        let later = eventually("locked again", async || gray.holder.lock(NAME).await.ok()).await;
        let held: String = gray.node.ask(&["GET", NAME]).await;

        gray.hears_what_was_held().await;
        assert_eq!(later.check(), Ok(()));
        // The attempts in between come late as well, and would take what the release had freed.
        assert_eq!(gray.node.ask::<Option<String>>(&["GET", NAME]).await, Some(held));
        let denied = gray.other.try_lock(NAME).await.expect("all answer");
        assert!(denied.is_none(), "two holders");
        later.unlock().await.expect("still held by both");
    })
    .await;
}

#[tokio::test]
async fn a_late_acquisition_hurts_no_holder_and_leaves_nothing_behind() {
    in_both(async |mode| {
        let Some(gray) = Gray::start(mode).await else { return };
        gray.way.hold_old_connections();
        let given_up = gray.holder.try_lock(NAME).await;
        assert!(given_up.is_err(), "one of three: {given_up:?}");
        let guard = within("free", gray.other.lock(NAME)).await.expect("all answer");
        let held: String = gray.node.ask(&["GET", NAME]).await;

        gray.hears_what_was_held().await;
        assert_eq!(gray.node.ask::<String>(&["GET", NAME]).await, held, "another's nonce");
        assert_eq!(guard.check(), Ok(()));
        guard.unlock().await.expect("held");
        eventually("nothing is left", async || (!gray.node.exists(NAME).await).then_some(())).await;
    })
    .await;
}

#[tokio::test]
async fn a_stopped_nodes_backlog_does_nothing_when_it_goes_on() {
    in_both(async |mode| {
        let Some(gray) = Gray::start(mode).await else { return };
        let reachable = builder(mode).quorum(gray.servers.urls()).expect("good URLs");
        drop(within("free", reachable.lock(NAME)).await.expect("free"));
        gray.servers[1].pause().expect("ours");
        // Longer than its connections are kept without an answer: new ones are tried, too.
        let watch = Stopwatch::start();
        let mut last = None;
        while watch.elapsed() < STALL * 2 {
            for locker in [&reachable, &gray.other] {
                let guard = within("free", locker.lock(NAME)).await.expect("two of three");
                assert!(last < Some(guard.fence()), "{last:?} before {}", guard.fence());
                last = Some(guard.fence());
                guard.unlock().await.expect("two of three");
            }
        }
        let guard = within("free", reachable.lock(NAME)).await.expect("two of three");
        gray.servers[1].resume().expect("ours");
        let another = eventually("it answers the other", async || {
            let held = gray.other.lock("another").await.ok()?;
            gray.node.exists("another").await.then_some(held)
        })
        .await;
        drop(another);
        assert!(gray.other.try_lock(NAME).await.expect("all answer").is_none(), "two holders");
        assert_eq!(guard.check(), Ok(()));
        guard.unlock().await.expect("held");
        eventually("nothing is left", async || (!gray.node.exists(NAME).await).then_some(())).await;
    })
    .await;
}

/// Twice the answer timeout: so long is a connection kept that says nothing.
const STALL: Duration = Duration::from_secs(2);

/// Three nodes. The holder reaches the first, and the gray one by a way of its own.
struct Gray {
    servers: Servers,
    way: Proxy,
    /// To the third node: never open.
    _cut: Proxy,
    holder: Locker,
    other: Locker,
    /// A plain client of the gray node.
    node: Plain,
}

impl Gray {
    async fn start(mode: Admission) -> Option<Self> {
        let servers = voters(mode, 3, &ServerOptions::default()).await?;
        let to = |i: usize| Proxy::to(servers[i].addr().expect("ours"));
        let (way, cut) = (to(1), to(2));
        cut.cut();
        let urls = [servers[0].url().to_owned(), way.url(), cut.url()];
        let holder = builder(mode).quorum(urls).expect("good URLs");
        let other = builder(mode).quorum(servers.urls()).expect("good URLs");
        let node = Plain::to(servers[1].url()).await;
        // Their connections are there before the node turns gray.
        for locker in [&holder, &other] {
            drop(within("free", locker.lock(NAME)).await.expect("free"));
            eventually("given back", async || (!node.exists(NAME).await).then_some(())).await;
        }
        Some(Self { servers, way, _cut: cut, holder, other, node })
    }

    /// All of it is executed, though the client has long given up those connections.
    async fn hears_what_was_held(&self) {
        self.way.awaits_held().await;
        eventually("the holder has new connections", async || {
            self.holder.try_lock("another").await.ok()
        })
        .await;
        self.way.deliver_late().await;
    }
}
