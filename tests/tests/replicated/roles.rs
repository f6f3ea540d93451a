//! Which server a locker uses.

use quorumlock::{Locker, NodeProblem, Servers};
use quorumlock_tests::{Plain, eventually, granted, within};

use crate::{Fleet, NAME, assert_both_hold, follow, long_timeouts, refusal};

#[tokio::test]
async fn the_master_is_found_whatever_the_order() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    for by in 0..3 {
        let mut urls = fleet.urls();
        urls.rotate_left(by);
        let locker = long_timeouts().on(Servers::replicated(&urls)).expect("good URLs");
        let guard = within("a free lock", locker.lock(NAME)).await.expect("free");
        assert!(fleet.plain[0].exists(NAME).await, "{urls:?}");
        guard.unlock().await.expect("held");
    }
}

/// A writable replica would even grant, and its master would later undo the grant (H11, REP3).
#[tokio::test]
async fn a_replica_grants_nothing_and_says_whose_it_is() {
    let Some(fleet) = Fleet::start(1, &["--replica-read-only", "no"]).await else { return };
    let locker = long_timeouts().on(Servers::single(&fleet.urls()[1])).expect("a good URL");
    let said = refusal(&locker).await;
    let master = format!("127.0.0.1:{}", fleet.ways[0].addr().port());
    assert_eq!(said, NodeProblem::Replica(master));
    fleet.promote(1).await;
    drop(granted(&locker, NAME).await);
}

#[tokio::test]
async fn without_a_master_every_address_is_reported() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    fleet.servers[0].kill().expect("ours");
    let said = refusal(&fleet.locker()).await;
    let NodeProblem::NoMaster(mut told) = said else { panic!("{said:?}") };
    told.sort_by_key(|each| fleet.urls().iter().position(|url| *url == each.node));
    let told: Vec<_> = told.into_iter().map(|each| each.problem).collect();
    let [NodeProblem::NotConnected(_), NodeProblem::Replica(_), NodeProblem::Replica(_)] =
        &told[..]
    else {
        panic!("{told:?}")
    };
}

/// A connection stays open while the server's role changes: no caller gets READONLY while another
/// server is the master.
#[tokio::test]
async fn a_demoted_master_is_left() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let locker = fleet.locker();
    let kept = within("a free lock", locker.lock("kept")).await.expect("free");
    fleet.copied("kept", 1).await;
    fleet.promote(1).await;
    follow(&fleet.plain[0], fleet.port(1)).await;

    let guard = within("an answer", locker.lock(NAME)).await.expect("asked at the new master");
    assert!(fleet.plain[1].exists(NAME).await, "there");
    guard.unlock().await.expect("held");
    // The lock was copied before the promotion, so the new master holds it, too.
    kept.unlock().await.expect("held");
    eventually("given back", async || (!fleet.plain[1].exists("kept").await).then_some(())).await;
}

#[tokio::test]
async fn a_demoted_master_that_is_alone_says_so_and_may_come_back() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let locker = long_timeouts().on(Servers::single(&fleet.urls()[0])).expect("a good URL");
    drop(within("a free lock", locker.lock("before")).await.expect("free"));
    fleet.promote(1).await;
    follow(&fleet.plain[0], fleet.port(1)).await;
    let replica = NodeProblem::Replica(format!("127.0.0.1:{}", fleet.port(1)));
    // The first request that gets READONLY can be the release of what the transaction may have
    // taken: then the locker connects to the server again before it sends the script.
    let said = refusal(&locker).await;
    let read_only = matches!(&said, NodeProblem::Refused { code, .. } if code == "READONLY");
    assert!(read_only || said == replica, "{said:?}");
    assert_eq!(refusal(&locker).await, replica);
    fleet.promote(0).await;
    drop(granted(&locker, NAME).await);
}

/// The old master lives on without replicas (H25, REP4): a locker that starts now uses the new one,
/// whatever the order of the addresses.
#[tokio::test]
async fn of_two_masters_the_promoted_one_is_taken() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let elder: Locker = fleet.locker();
    let stays = within("a free lock", elder.lock("elder")).await.expect("free");
    fleet.cut(1);
    fleet.promote(1).await;
    let [old, new] = [0, 1].map(|i: usize| fleet.plain[i].clone());
    for reversed in [false, true] {
        let mut urls = fleet.urls();
        if reversed {
            urls.reverse();
        }
        let locker = long_timeouts().on(Servers::replicated(&urls)).expect("good URLs");
        let guard = within("a free lock", locker.lock(NAME)).await.expect("free");
        assert!(only(&new, &old).await, "{urls:?}");
        guard.unlock().await.expect("held");
    }
    // L19, without `WAIT`: the locker that stayed connected has not heard of the promotion.
    let newcomer = within("a free lock", fleet.locker().lock(NAME)).await.expect("free");
    let guard = within("a free lock", elder.lock(NAME)).await.expect("free");
    assert!(old.exists(NAME).await && new.exists(NAME).await);
    assert_both_hold(&newcomer, &guard);
    stays.unlock().await.expect("held");
}

async fn only(there: &Plain, elsewhere: &Plain) -> bool {
    there.exists(NAME).await && !elsewhere.exists(NAME).await
}
