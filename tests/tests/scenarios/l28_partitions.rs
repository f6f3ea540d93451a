//! L28: a client is cut off from a minority of five nodes, from the majority, or only hears no
//! answers.
//!
//! In both modes: a minority is not missed; without the majority nothing can be locked, which is
//! said with names, and what was held is lost before somebody else gets it. Grants of which the
//! client never heard (orphans) are gone when the network is back, or with their leases.

use quorumlock::{Admission, Error, Locker, Loss};
use quorumlock_lab::servers::{Server, ServerOptions, Servers};
use quorumlock_tests::{PATIENCE, Plain, Proxy, Stopwatch, Way, eventually, within};

use crate::ground::{LEASE, NAME, Strict, builder, in_both, succession, voters};

#[tokio::test]
async fn a_minority_that_is_cut_off_is_not_missed() {
    in_both(async |mode| {
        let Some(net) = Net::start(mode).await else { return };
        net.ways[3..].iter().for_each(Proxy::cut);
        let watch = Stopwatch::start();
        let guard = within("three of five", net.client.lock(NAME)).await.expect("free");
        eventually("it outlives its lease", async || {
            guard.check().expect("renewed by three of five");
            (watch.elapsed() > LEASE * 2).then_some(())
        })
        .await;
        let denied = net.other.try_lock(NAME).await.expect("five of five");
        assert!(denied.is_none(), "two holders");
        guard.unlock().await.expect("held");

        net.ways.iter().for_each(Proxy::heal);
        // What the minority was asked for and given back comes late, both.
        net.awaits_no_key().await;
        within("free", net.other.lock(NAME)).await.expect("free").unlock().await.expect("held");
    })
    .await;
}

#[tokio::test]
async fn without_the_majority_nothing_can_be_locked_and_what_was_held_is_lost_in_time() {
    in_both(async |mode| {
        let Some(net) = Net::start(mode).await else { return };
        let guard = within("free", net.client.lock(NAME)).await.expect("free");
        net.ways[..3].iter().for_each(Proxy::cut);
        assert_unreachable(&net, "another").await;
        drop(succession(&guard, &net.other).await);
        assert_eq!(within("told", guard.lost()).await.why, Loss::WindowShut);
        drop(guard);

        // Its late requests meet a new holder, and must not hurt it.
        let next = within("free", net.other.lock(NAME)).await.expect("free");
        assert_unreachable(&net, NAME).await;
        net.ways.iter().for_each(Proxy::heal);
        let other = eventually("it is back", async || net.client.lock("another").await.ok()).await;
        assert!(net.client.try_lock(NAME).await.expect("answers").is_none(), "two holders");
        assert_eq!(next.check(), Ok(()));
        next.unlock().await.expect("held");
        drop(other);
        net.awaits_no_key().await;
    })
    .await;
}

#[tokio::test]
async fn a_holder_that_hears_no_answers_is_told_before_the_nodes_let_go() {
    in_both(async |mode| {
        let Some(net) = Net::start(mode).await else { return };
        let guard = within("free", net.client.lock(NAME)).await.expect("free");
        // Its renewals arrive, and it never knows.
        net.ways[..3].iter().for_each(|way| way.lose(Way::Replies));
        let next = succession(&guard, &net.other).await;
        assert_eq!(within("told", guard.lost()).await.why, Loss::WindowShut);
        next.unlock().await.expect("held");
        // Nobody renews what is lost: whatever is left ends with its lease.
        net.awaits_no_key().await;
    })
    .await;
}

#[tokio::test]
async fn grants_that_were_never_heard_of_are_given_back() {
    in_both(async |mode| {
        let Some(net) = Net::start(mode).await else { return };
        net.ways[..3].iter().for_each(|way| way.lose(Way::Replies));
        // Longer than anybody waits here, so that only a release explains what follows.
        let lease = if mode == Strict { LEASE } else { PATIENCE * 2 };
        let refused = within("an answer", net.client.try_lock(NAME).lease(lease)).await;
        assert!(matches!(refused, Err(Error::Unreachable(_))), "{refused:?}");
        net.ways[0].awaits_lost().await;
        net.awaits_no_key().await;
        drop(within("free", net.other.try_lock(NAME)).await.expect("answers").expect("free"));
    })
    .await;
}

/// Five nodes, a client with a way of its own to each, and another that reaches all.
struct Net {
    servers: Servers,
    ways: Vec<Proxy>,
    client: Locker,
    other: Locker,
}

impl Net {
    async fn start(mode: Admission) -> Option<Self> {
        let servers = voters(mode, 5, &ServerOptions::default()).await?;
        let to = |server: &Server| Proxy::to(server.addr().expect("ours"));
        let ways: Vec<_> = servers.iter().map(to).collect();
        // Renewals are to come within the test in plain Redlock, too.
        let builder = || builder(mode).lease(LEASE);
        let client = builder().quorum(ways.iter().map(Proxy::url)).expect("good URLs");
        let other = builder().quorum(servers.urls()).expect("good URLs");
        let net = Self { servers, ways, client, other };
        // All connections are there before anything happens to them.
        for locker in [&net.client, &net.other] {
            drop(within("free", locker.lock(NAME)).await.expect("free"));
            net.awaits_no_key().await;
        }
        Some(net)
    }

    async fn awaits_no_key(&self) {
        for server in &self.servers {
            let plain = Plain::to(server.url()).await;
            eventually("no key is left", async || (!plain.exists(NAME).await).then_some(())).await;
        }
    }
}

/// The client is told, with the names of the three that it cannot reach.
async fn assert_unreachable(net: &Net, name: &str) {
    let refused = within("an answer", net.client.lock(name).fail_fast()).await;
    let Err(Error::Unreachable(why)) = refused else { panic!("not refused: {refused:?}") };
    for way in &net.ways[..3] {
        assert!(why.nodes.iter().any(|node| node.node == way.url()), "{why}");
    }
}
