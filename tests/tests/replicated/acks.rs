//! `Builder::replicas`: a grant counts once replicas have it.

use std::time::Duration;

use quorumlock::{Guard, Layout, NodeProblem, Replicas, Servers};
use quorumlock_tests::{Plain, Stopwatch, eventually, granted, within};

use crate::{Fleet, NAME, follow, long_timeouts, refusal};

#[tokio::test]
async fn a_grant_comes_when_the_replica_has_it() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let locker =
        long_timeouts().replicas(Replicas::AtLeast(1)).replica_timeout(Duration::from_secs(5));
    let locker = locker.on(Servers::replicated(fleet.urls())).expect("good URLs");
    // This opens the connections and gets a first acknowledgement.
    within("a free lock", locker.lock(NAME)).await.expect("free").unlock().await.expect("held");

    fleet.cut(1);
    let asked = tokio::spawn(locker.lock(NAME).into_future());
    awaits_wait(&fleet.plain[0]).await;
    assert!(fleet.plain[0].exists(NAME).await && !asked.is_finished());
    fleet.heal(1);
    let guard = within("acknowledged", asked).await.expect("no panic").expect("granted");
    assert!(fleet.plain[1].exists(NAME).await, "what is granted is copied");
    guard.unlock().await.expect("held");
}

#[tokio::test]
async fn a_grant_that_no_replica_has_is_given_back_and_told() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let redlock = || long_timeouts().layout(Layout::Redlock);
    // The last way acquires with a plain `SET` and without a token.
    let ways = [
        (false, long_timeouts()),
        (true, long_timeouts()),
        (true, redlock()),
        (true, redlock().fencing(false)),
    ];
    for (alone, builder) in ways {
        let builder =
            builder.replicas(Replicas::AtLeast(1)).replica_timeout(Duration::from_millis(50));
        let locker = match alone {
            true => builder.on(Servers::single(&fleet.urls()[0])),
            false => builder.on(Servers::replicated(fleet.urls())),
        };
        let locker = locker.expect("good URLs");
        fleet.servers[1].pause().expect("ours");
        let said = refusal(&locker).await;
        assert!(matches!(said, NodeProblem::NoReplicas(_)), "{said}");
        // The process may end now.
        assert!(!fleet.plain[0].exists_now(NAME), "given back");
        // Other callers are also refused for missing replicas, not because the lock is held.
        refusal(&locker).await;
        fleet.servers[1].resume().expect("ours");
        granted(&locker, NAME).await.unlock().await.expect("held");
    }
}

/// The number is that of the replicas that the master has.
#[tokio::test]
async fn all_replicas_must_have_a_grant_however_many_there_are() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    let locker = long_timeouts().replicas(Replicas::All).replica_timeout(Duration::from_millis(50));
    let locker = locker.on(Servers::replicated(fleet.urls())).expect("good URLs");
    let guard = granted(&locker, NAME).await;
    for copy in &fleet.plain[1..] {
        assert!(copy.exists(NAME).await, "what is granted is copied");
    }
    guard.unlock().await.expect("held");
    fleet.servers[2].pause().expect("ours");
    let said = refusal(&locker).await;
    assert!(matches!(said, NodeProblem::NoReplicas(_)), "{said}");
    fleet.servers[2].resume().expect("ours");
    granted(&locker, NAME).await.unlock().await.expect("held");
    // A master that has one replica less when a connection begins waits for the other one.
    fleet.servers[2].kill().expect("ours");
    eventually("the master notices", async || {
        let info: String = fleet.plain[0].ask(&["INFO", "replication"]).await;
        info.contains("connected_slaves:1").then_some(())
    })
    .await;
    granted(&locker, NAME).await.unlock().await.expect("held");
}

/// Zero is the number of a master whose one replica restarts.
#[tokio::test]
async fn a_master_without_replicas_grants_nothing_where_all_must_have_a_grant() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    for alone in [false, true] {
        fleet.servers[1].kill().expect("ours");
        eventually("the master notices", async || {
            let info: String = fleet.plain[0].ask(&["INFO", "replication"]).await;
            info.contains("connected_slaves:0").then_some(())
        })
        .await;
        let builder = long_timeouts().replicas(Replicas::All);
        let locker = match alone {
            true => builder.on(Servers::single(&fleet.urls()[0])),
            false => builder.on(Servers::replicated(fleet.urls())),
        };
        let locker = locker.expect("good URLs");
        let said = refusal(&locker).await;
        assert!(matches!(said, NodeProblem::NoReplicas(_)), "{said}");
        assert!(!locker.mutex(NAME).is_locked().await.expect("an answer"), "it still answers");
        fleet.servers[1].restart_empty().expect("ours");
        let copy = Plain::to(fleet.servers[1].url()).await;
        follow(&copy, fleet.ways[0].addr().port()).await;
        let guard = granted(&locker, NAME).await;
        assert!(copy.exists(NAME).await, "what is granted is copied");
        guard.unlock().await.expect("held");
    }
}

/// Many acquisitions at once share a `WAIT`, and each gets the result for its own lock.
#[tokio::test]
async fn a_batch_is_judged_as_one() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let locker = long_timeouts()
        .replicas(Replicas::AtLeast(1))
        .on(Servers::replicated(fleet.urls()))
        .expect("good URLs");
    granted(&locker, NAME).await.unlock().await.expect("held");
    let waits = async || {
        let stats: String = fleet.plain[0].ask(&["INFO", "commandstats"]).await;
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
        line.and_then(|line| line.split(',').next()?.parse::<usize>().ok()).expect("some")
    };
    let before = waits().await;
    let names = (0..100).map(|i| format!("many/{i}")).collect::<Vec<_>>();
    let many = futures::future::join_all(names.iter().map(|name| locker.lock(name).into_future()));
    let guards = within("all", many).await;
    let guards = guards.into_iter().collect::<Result<Vec<_>, _>>().expect("all are free");
    for name in &names {
        assert!(fleet.plain[1].exists(name).await, "{name} is copied");
    }
    let spent = waits().await - before;
    assert!(spent < names.len() / 2, "{spent} WAITs for {} locks", names.len());
    drop(guards);
}

/// An old master has no replica any more, while another master has one (H25).
#[tokio::test]
async fn too_few_replicas_send_us_to_look_for_another_master() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    let builder =
        long_timeouts().replicas(Replicas::AtLeast(1)).replica_timeout(Duration::from_millis(500));
    let locker = builder.on(Servers::replicated(fleet.urls())).expect("good URLs");
    // Held until the watchdog's connection has been used, too.
    let guard = within("a free lock", locker.lock("before").lease(LEASE)).await.expect("free");
    outlives_its_lease(&guard).await;
    guard.unlock().await.expect("held");
    fleet.promote(1).await;
    follow(&fleet.plain[2], fleet.port(1)).await;
    granted(&locker, "moves").await.unlock().await.expect("held");

    let guard = within("a free lock", locker.lock(NAME).lease(LEASE)).await.expect("free");
    assert!(fleet.plain[1].exists(NAME).await && fleet.plain[2].exists(NAME).await);
    // Both connections have moved.
    outlives_its_lease(&guard).await;
    guard.unlock().await.expect("held");
}

const LEASE: Duration = Duration::from_secs(2);

async fn outlives_its_lease(guard: &Guard) {
    let since = Stopwatch::start();
    eventually("longer than a lease", async || (since.elapsed() > LEASE).then_some(())).await;
    assert_eq!(guard.check(), Ok(()));
}

async fn awaits_wait(master: &Plain) {
    eventually("a connection is blocked by WAIT", async || {
        let clients: String = master.ask(&["CLIENT", "LIST"]).await;
        let blocked = |line: &str| line.contains(" flags=b ") && line.contains(" cmd=wait ");
        clients.lines().any(blocked).then_some(())
    })
    .await;
}
