//! A client is cut off from the majority of five nodes, or receives no answers. The lab's L28 judges
//! the holds; these tests say what each client is told.
//!
//! In both modes: nothing can be locked, the error names the nodes, and a held lock is lost before
//! another client gets it. Grants of which the client never heard are gone when the network is back,
//! or when their leases end.

use quorumlock::{Admission, Error, Locker, LossReason};
use quorumlock_testbed::servers::{Server, ServerOptions, Servers};
use quorumlock_tests::{MAX_WAIT, Plain, Proxy, Way, eventually, within};

use crate::setup::{LEASE, NAME, Strict, builder, in_both, same_member, succession, voters};

#[tokio::test]
async fn without_the_majority_nothing_can_be_locked_and_what_was_held_is_lost_in_time() {
    in_both(async |mode| {
        let Some(net) = Net::start(mode).await else { return };
        let guard = within("free", net.client.lock(NAME)).await.expect("free");
        net.ways[..3].iter().for_each(Proxy::cut);
        assert_unreachable(&net, "another").await;
        drop(succession(&guard, &net.other).await);
        assert_eq!(within("told", guard.lost()).await.why, LossReason::WindowShut);
        drop(guard);

        // The client's late requests meet a new holder, and must not harm it.
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
        // The client's renewals arrive, but it never hears of that.
        net.ways[..3].iter().for_each(|way| way.lose(Way::Replies));
        let next = succession(&guard, &net.other).await;
        assert_eq!(within("told", guard.lost()).await.why, LossReason::WindowShut);
        next.unlock().await.expect("held");
        // The watchdog does not renew a lost lease: the remaining keys end with it.
        net.awaits_no_key().await;
    })
    .await;
}

#[tokio::test]
async fn grants_that_were_never_heard_of_are_given_back() {
    in_both(async |mode| {
        let Some(net) = Net::start(mode).await else { return };
        net.ways[..3].iter().for_each(|way| way.lose(Way::Replies));
        // Longer than any wait here, so that only a release explains the grant below.
        let lease = if mode == Strict { LEASE } else { MAX_WAIT * 2 };
        let refused = within("an answer", net.client.try_lock(NAME).lease(lease)).await;
        assert!(matches!(refused, Err(Error::Unreachable(_))), "{refused:?}");
        net.ways[0].awaits_lost().await;
        net.awaits_no_key().await;
        drop(within("free", net.other.try_lock(NAME)).await.expect("answers").expect("free"));
    })
    .await;
}

/// Five nodes, a client with a proxy of its own to each, and another client that reaches all
/// directly.
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
        // In plain Redlock, too, renewals must happen within the test.
        let builder = || builder(mode).lease(LEASE);
        let by_way = ways.iter().zip(&servers).map(|(way, server)| same_member(way, server));
        let client = builder().on(quorumlock::Servers::quorum(by_way)).expect("good URLs");
        let other = builder().on(quorumlock::Servers::quorum(servers.urls())).expect("good URLs");
        let net = Self { servers, ways, client, other };
        // All connections exist before the fault.
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

/// The client gets an error with the names of the three nodes that it cannot reach.
async fn assert_unreachable(net: &Net, name: &str) {
    let refused = within("an answer", net.client.lock(name).fail_fast()).await;
    let Err(Error::Unreachable(why)) = refused else { panic!("not refused: {refused:?}") };
    for way in &net.ways[..3] {
        assert!(why.nodes.iter().any(|node| node.node == way.url()), "{why}");
    }
}
