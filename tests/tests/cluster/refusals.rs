//! Wrong addresses, names and options: each is told, with what to do, and nothing is taken.

use std::time::Duration;

use quorumlock::{ConfigError, Error, Locker, NodeProblem, Servers};
use quorumlock_testbed::servers::{ServerOptions, for_test};
use quorumlock_tests::{Plain, Stopwatch, builder, eventually, granted, within};

use crate::{Fleet, name_in, slots_of};

/// The problem that the locker reports for its one node, and its text.
async fn refusal(locker: &Locker, name: &str) -> (NodeProblem, String) {
    let error = within("an answer", locker.try_lock(name)).await.expect_err("refused");
    let text = error.to_string();
    let (Error::Refused(none) | Error::Unreachable(none)) = error else { panic!("{error:?}") };
    (none.nodes[0].problem.clone(), text)
}

#[tokio::test]
async fn a_member_of_a_cluster_in_other_modes() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    let urls = fleet.servers.urls();
    let lockers = [
        Locker::single(&urls[0]),
        Locker::new(Servers::replicated(&urls[..2])),
        Locker::quorum(&urls),
    ];
    for locker in lockers {
        let (problem, text) = refusal(&locker.expect("good URLs"), "x").await;
        let problem = match problem {
            NodeProblem::NoMaster(servers) => servers[0].problem.clone(),
            problem => problem,
        };
        assert_eq!(problem, NodeProblem::ClusterMode, "{text}");
    }
    let (_, text) = refusal(&Locker::single(&urls[0]).expect("a good URL"), "x").await;
    assert!(text.contains("Servers::cluster"), "{text}");
    for plain in &fleet.plain {
        assert_eq!(plain.ask::<i64>(&["DBSIZE"]).await, 0);
    }
}

#[tokio::test]
async fn seeds_that_are_no_members_of_a_cluster() {
    let Some(servers) = for_test(2, &ServerOptions::default()) else { return };
    let one = Locker::new(Servers::cluster([servers[0].url()])).expect("a good URL");
    assert_eq!(refusal(&one, "x").await.0, NodeProblem::NotACluster);
    let both = Locker::new(Servers::cluster(servers.urls())).expect("good URLs");
    let NodeProblem::NoClusterMember(seeds) = refusal(&both, "x").await.0 else { panic!() };
    assert!(seeds.iter().all(|seed| seed.problem == NodeProblem::NotACluster), "{seeds:?}");
    let sentinel = ServerOptions { sentinel: true, ..Default::default() };
    let Some(sentinel) = for_test(1, &sentinel) else { return };
    let locker = Locker::new(Servers::cluster([sentinel[0].url()])).expect("a good URL");
    assert_eq!(refusal(&locker, "x").await.0, NodeProblem::Sentinel);
    for server in &servers {
        assert_eq!(Plain::to(server.url()).await.ask::<i64>(&["DBSIZE"]).await, 0);
    }
}

/// Several names need one slot; with one hash tag they have it.
#[tokio::test]
async fn several_names_of_different_slots() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    let locker = fleet.locker();
    let refused = within("an answer", locker.lock(["a", "b"])).await.expect_err("refused");
    let text = refused.to_string();
    let Error::Config(ConfigError::NamesInCluster { names }) = refused else { panic!("{text}") };
    assert_eq!(names, "a, b");
    assert!(text.contains("hash tag"), "{text}");
    for plain in &fleet.plain {
        assert_eq!(plain.ask::<i64>(&["DBSIZE"]).await, 0);
    }
    for user in 0..16 {
        let names = [format!("{{user{user}}}:a"), format!("{{user{user}}}:b")];
        let set = within("free names", locker.lock(&names)).await.expect("free");
        let refused = within("an answer", locker.try_lock(&names[1])).await;
        assert!(refused.expect("an answer").is_none(), "{names:?}");
        set.unlock().await.expect("held");
    }
}

/// The permissions that OPERATIONS tells: those of one server, and two more.
#[tokio::test]
async fn a_user_with_few_permissions() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    let page = include_str!("../../../docs/OPERATIONS.md");
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER locker")).expect("the line");
    let mut of_one_server: Vec<_> = line.split(' ').collect();
    of_one_server.retain(|word| !word.starts_with('>') && *word != "~*");
    of_one_server.extend([">p", "~*"]);
    let allow = async |more: &[&str]| {
        for plain in &fleet.plain {
            plain.ask::<String>(&[&of_one_server[..], more].concat()).await;
        }
    };
    let url = format!("redis://locker:p@{}", fleet.servers[0].addr().expect("ours"));
    let locker = fleet.builder().on(Servers::cluster([&url])).expect("a good URL");
    allow(&[]).await;
    let (problem, text) = refusal(&locker, "x").await;
    assert!(matches!(problem, NodeProblem::Permission(_)), "{text}");
    allow(&["+cluster|slots", "+asking"]).await;
    let slot = slots_of(1)[0];
    let (name, lease) = (name_in(slot), Duration::from_secs(2));
    let guard = granted(&locker, &name).await;
    guard.unlock().await.expect("held");
    let guard = within("a free lock", locker.lock(&name).lease(lease)).await.expect("free");
    // Its key is where only requests with `ASKING` reach it.
    fleet.begin_move(slot, 1, 2).await;
    fleet.move_keys(slot, 1, 2).await;
    let since = Stopwatch::start();
    eventually("the lease is over", async || (since.elapsed() > lease).then_some(())).await;
    assert_eq!(guard.check(), Ok(()));
    fleet.end_move(slot, 1, 2).await;
    guard.unlock().await.expect("held");
}

/// One seed that answers is enough, also if it is a replica.
#[tokio::test]
async fn one_seed_is_enough() {
    let Some(fleet) = Fleet::start().await else { return };
    let locker = Locker::new(Servers::cluster(["redis://127.0.0.1:1", fleet.servers[4].url()]))
        .expect("good");
    drop(within("a free lock", locker.lock("x")).await.expect("free"));
    let nobody = Locker::new(Servers::cluster(["redis://127.0.0.1:1", "redis://127.0.0.1:2"]))
        .expect("good");
    let (problem, text) = refusal(&nobody, "x").await;
    assert!(matches!(problem, NodeProblem::NoClusterMember(_)), "{text}");
}

#[tokio::test]
async fn a_cluster_without_full_coverage() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    for plain in &fleet.plain {
        plain.ask::<String>(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).await;
    }
    let slot = slots_of(0)[0];
    for plain in &fleet.plain {
        plain.ask::<String>(&["CLUSTER", "DELSLOTS", &slot.to_string()]).await;
    }
    let locker = fleet.locker();
    let (problem, text) = refusal(&locker, &name_in(slot)).await;
    assert!(matches!(problem, NodeProblem::SlotNotServed(_)), "{text}");
    assert!(text.contains("CLUSTER ADDSLOTS"), "{text}");
    drop(within("a free lock", locker.lock(name_in(slot + 1))).await.expect("free"));
}

#[tokio::test]
async fn a_name_whose_keys_have_several_slots() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    let locker = fleet.locker();
    for name in ["a{", "a}", "a{}b"] {
        let error = within("an answer", locker.try_lock(name)).await.expect_err("refused");
        let Error::Config(ConfigError::NameInCluster { name: told }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(told, name);
        let error = locker.mutex(name).is_locked().await.expect_err("refused");
        assert!(matches!(error, Error::Config(_)), "{error:?}");
    }
    drop(within("a free lock", locker.lock("a{b}c")).await.expect("free"));
    let Some(server) = for_test(1, &ServerOptions::default()) else { return };
    let single = Locker::single(server[0].url()).expect("a good URL");
    drop(within("a free lock", single.lock("a{")).await.expect("elsewhere it is a name"));
}

#[test]
fn bad_input_is_refused_at_once() {
    let config = |made: Result<Locker, Error>| match made {
        Err(Error::Config(error)) => error,
        made => panic!("{made:?}"),
    };
    let none: [&str; 0] = [];
    assert_eq!(config(Locker::new(Servers::cluster(none))), ConfigError::NoNodes);
    for url in ["redis://a/1", "unix:///tmp/redis.sock"] {
        let error = config(Locker::new(Servers::cluster([url])));
        assert!(matches!(error, ConfigError::DoesNotApply { .. }), "{error}");
    }
    let twice = config(Locker::new(Servers::cluster(["redis://a", "redis://a:6379"])));
    assert!(matches!(twice, ConfigError::SameServer { .. }), "{twice}");
    let error = config(Locker::new(Servers::cluster(["redis-sentinel://a/m"])));
    assert!(matches!(error, ConfigError::BadUrl { .. }), "{error}");
    for builder in [
        builder().redisson_fenced(true),
        builder().admission(quorumlock::Admission::Strict),
        builder().tls_ca("x"),
        builder().replica_timeout(Duration::from_millis(100)),
    ] {
        let error = config(builder.on(Servers::cluster(["redis://a"])));
        assert!(matches!(error, ConfigError::DoesNotApply { .. }), "{error}");
    }
}
