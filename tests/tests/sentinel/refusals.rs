//! Wrong addresses and names: each is told, with what to do, and nothing is taken.

use quorumlock::{ConfigError, Error, Locker, NodeProblem, Servers};
use quorumlock_testbed::servers::ServerOptions;
use quorumlock_tests::{Plain, builder, eventually, within};

use crate::{Fleet, MASTER, NAME, monitor};

/// The problem that the locker reports for its one node, and its text.
async fn refusal(locker: &Locker) -> (NodeProblem, String) {
    let error = within("an answer", locker.try_lock(NAME)).await.expect_err("refused");
    let text = error.to_string();
    let Error::Refused(none) = error else { panic!("{error:?}") };
    (none.nodes[0].problem.clone(), text)
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows() {
    let Some(fleet) = Fleet::start(0).await else { return };
    let locker =
        Locker::new(Servers::sentinel(fleet.sentinels.urls(), "other")).expect("good URLs");
    let (problem, text) = refusal(&locker).await;
    assert_eq!(problem, NodeProblem::UnknownMaster("other".into()));
    assert!(text.contains("SENTINEL MASTERS"), "{text}");
}

#[tokio::test]
async fn a_server_in_place_of_a_sentinel_and_the_other_way_round() {
    let Some(fleet) = Fleet::start(0).await else { return };
    let (server, sentinel) = (fleet.servers[0].url(), fleet.sentinels[0].url());
    let locker = Locker::new(Servers::sentinel([server], MASTER)).expect("a good URL");
    assert_eq!(refusal(&locker).await.0, NodeProblem::NotASentinel);
    let single = Locker::single(sentinel).expect("a good URL");
    let (problem, text) = refusal(&single).await;
    assert_eq!(problem, NodeProblem::Sentinel);
    assert!(text.contains("redis-sentinel://"), "{text}");
    let quorum = Locker::quorum(fleet.sentinels.urls()).expect("good URLs");
    assert_eq!(refusal(&quorum).await.0, NodeProblem::Sentinel);
}

/// They monitor two deployments under one name: neither master was promoted over the other.
#[tokio::test]
async fn sentinels_that_name_unrelated_masters() {
    let (Some(one), Some(other)) = (Fleet::start(0).await, Fleet::start(0).await) else { return };
    let mixed = [one.sentinels[0].url(), other.sentinels[0].url()];
    let locker = Locker::new(Servers::sentinel(mixed, MASTER)).expect("good URLs");
    // Each answer may come later than the grace that the first one leaves.
    let text = eventually("both answer", async || {
        let (problem, text) = match within("an answer", locker.try_lock(NAME)).await {
            Ok(_) => return None,
            Err(_) => refusal(&locker).await,
        };
        matches!(problem, NodeProblem::SentinelsDisagree(_)).then_some(text)
    })
    .await;
    assert!(text.contains("SENTINEL REMOVE"), "{text}");
    for fleet in [one, other] {
        let left =
            eventually("released", async || (!fleet.plain[0].exists(NAME).await).then_some(()));
        left.await;
    }
}

#[tokio::test]
async fn no_sentinel_answers() {
    let Some(fleet) = Fleet::start(0).await else { return };
    for sentinel in &fleet.sentinels {
        sentinel.kill().expect("ours");
    }
    let error = within("an answer", fleet.locker().try_lock(NAME)).await.expect_err("nobody tells");
    let Error::Unreachable(none) = &error else { panic!("{error:?}") };
    let NodeProblem::NoSentinel(sentinels) = &none.nodes[0].problem else { panic!("{error}") };
    assert_eq!(sentinels.len(), fleet.sentinels.len());
}

/// A sentinel that has lost its monitors does not outvote the others.
#[tokio::test]
async fn one_sentinel_that_knows_the_name_is_enough() {
    let Some(fleet) = Fleet::start(0).await else { return };
    for sentinel in &fleet.sentinel_plain[1..] {
        sentinel.ask::<String>(&["SENTINEL", "REMOVE", MASTER]).await;
    }
    drop(within("a free lock", fleet.locker().lock(NAME)).await.expect("free"));
}

#[test]
fn bad_input_is_refused_at_once() {
    let config = |made: Result<Locker, Error>| match made {
        Err(Error::Config(error)) => error,
        made => panic!("{made:?}"),
    };
    let none: [&str; 0] = [];
    assert_eq!(config(Locker::new(Servers::sentinel(none, MASTER))), ConfigError::NoNodes);
    for name in ["", "m:6379", "redis://"] {
        let error = config(Locker::new(Servers::sentinel(["redis://a"], name)));
        assert!(matches!(error, ConfigError::BadMasterName { .. }), "{error}");
    }
    let twice = config(Locker::new(Servers::sentinel(["redis://a", "redis://a:26379"], MASTER)));
    assert!(matches!(twice, ConfigError::SameServer { .. }), "{twice}");
    for url in ["redis-sentinel://a", "redis-sentinel://a,/m", "redis-sentinel://a/m?db=1"] {
        let error = config(Locker::single(url));
        assert!(matches!(error, ConfigError::BadUrl { .. }), "{error}");
    }
    let error = config(Locker::quorum(["redis-sentinel://a,b/m", "redis://c", "redis://d"]));
    assert!(error.to_string().contains("names one master and stands alone"), "{error}");
    let fenced = builder().redisson_fenced(true).on(Servers::sentinel(["redis://a"], MASTER));
    assert!(matches!(config(fenced), ConfigError::DoesNotApply { .. }));
    let tls = builder().tls_ca("x").on(Servers::sentinel(["redis://a"], MASTER));
    assert!(matches!(config(tls), ConfigError::DoesNotApply { .. }));
}

/// A sentinel tells an address, and the role is believed from the server alone.
#[tokio::test]
async fn a_replica_that_sentinels_take_for_the_master_is_refused() {
    let Some(fleet) = Fleet::start(1).await else { return };
    let copy = fleet.servers[1].addr().expect("ours").port().to_string();
    fleet.sentinels[1].kill().expect("ours");
    fleet.sentinels[2].kill().expect("ours");
    let liar = Plain::to(fleet.sentinels[0].url()).await;
    liar.ask::<String>(&["SENTINEL", "REMOVE", MASTER]).await;
    monitor(&liar, MASTER, ("127.0.0.1", &copy), &ServerOptions::default()).await;
    let locker = fleet.locker();
    let error = within("an answer", locker.try_lock(NAME)).await.expect_err("a replica");
    let Error::Refused(none) = &error else { panic!("{error:?}") };
    let NodeProblem::NoMaster(servers) = &none.nodes[0].problem else { panic!("{error}") };
    assert!(matches!(servers[0].problem, NodeProblem::Replica(_)), "{error}");
    assert!(!fleet.plain[0].exists(NAME).await && !fleet.plain[1].exists(NAME).await);
}
