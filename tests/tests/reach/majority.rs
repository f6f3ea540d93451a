//! A majority is asked first, and the others when they are needed (PROTOCOL.md MAJ1 to MAJ4).

use std::time::Duration;

use futures::future::{join_all, select_all};
use quorumlock::{Error, LossReason, Ticket};
use quorumlock_testbed::servers::{self, Server, ServerOptions, Servers};
use quorumlock_tests::{Plain, builder, eventually, within};

/// Its third is longer than a second.
const LEASE: Duration = Duration::from_secs(6);
/// No key ends by itself during a test.
const LONG: Duration = Duration::from_secs(60);

/// Five servers that have answered this locker once.
async fn five(lease: Duration) -> Option<(Servers, quorumlock::Locker)> {
    let servers = servers::for_test(5, &ServerOptions::default())?;
    let locker = builder()
        .lease(lease)
        .answer_timeout(Duration::from_secs(5))
        .on(quorumlock::Servers::quorum(servers.urls()))
        .expect("a good configuration");
    locker.admit_nodes().await.expect("all answer");
    let guard = within("a free lock", locker.lock("first")).await.expect("granted");
    guard.unlock().await.expect("held");
    for server in servers.iter() {
        let plain = Plain::to(server.url()).await;
        eventually("its release", async || (!plain.exists("first").await).then_some(())).await;
    }
    Some((servers, locker))
}

/// The servers that hold `name`, and those that do not.
async fn holding<'a>(servers: &'a Servers, name: &str) -> (Vec<&'a Server>, Vec<&'a Server>) {
    let (mut holding, mut others) = (Vec::new(), Vec::new());
    for server in servers.iter() {
        match Plain::to(server.url()).await.exists(name).await {
            true => holding.push(server),
            false => others.push(server),
        }
    }
    (holding, others)
}

async fn on_all(servers: impl IntoIterator<Item = &Server>, name: &str) {
    for server in servers {
        let plain = Plain::to(server.url()).await;
        eventually("the lease", async || plain.exists(name).await.then_some(())).await;
    }
}

#[tokio::test]
async fn a_short_hold_is_on_a_majority_and_a_long_one_on_all_nodes() {
    let Some((servers, locker)) = five(LONG).await else { return };
    let mut sets = Vec::new();
    for i in 0..40 {
        let name = format!("n{i}");
        let guard = within("a free lock", locker.lock(&name)).await.expect("granted");
        let (holding, others) = holding(&servers, &name).await;
        guard.unlock().await.expect("held");
        // On a busy machine nodes are late, and others are asked.
        if holding.len() == 3 {
            sets.push(others.iter().map(|server| server.url().to_owned()).collect::<Vec<_>>());
        }
    }
    sets.sort();
    sets.dedup();
    assert!(sets.len() > 1, "names spread over the nodes: {sets:?}");
    let guard = within("a free lock", locker.lock("long")).await.expect("granted");
    on_all(servers.iter(), "long").await;
    guard.unlock().await.expect("held");
    for server in servers.iter() {
        let plain = Plain::to(server.url()).await;
        eventually("its release", async || (!plain.exists("long").await).then_some(())).await;
    }
}

/// A dead client left its key at a node that is asked first.
#[tokio::test]
async fn a_key_that_one_node_keeps_bars_nobody() {
    let Some((servers, locker)) = five(LONG).await else { return };
    let guard = within("a free lock", locker.lock("x")).await.expect("granted");
    let (first, others) = holding(&servers, "x").await;
    guard.unlock().await.expect("held");
    for keeps in &first {
        let plain = Plain::to(keeps.url()).await;
        eventually("its release", async || (!plain.exists("x").await).then_some(())).await;
        plain.ask::<String>(&["SET", "x", "a dead client", "PX", "60000"]).await;
        let guard = within("an answer", locker.try_lock("x")).await.expect("all answer");
        let guard = guard.expect("four of five are free");
        on_all(others.iter().copied(), "x").await;
        guard.unlock().await.expect("held");
        for server in servers.iter().filter(|server| server.url() != keeps.url()) {
            let plain = Plain::to(server.url()).await;
            eventually("its release", async || (!plain.exists("x").await).then_some(())).await;
        }
        plain.ask::<i64>(&["DEL", "x"]).await;
    }
}

/// A node of the majority dies, hangs or restarts empty before the first renewal, under a hundred holds.
#[tokio::test]
async fn a_hold_lives_though_one_of_its_nodes_fails_in_its_first_second() {
    type Fails = fn(&Server);
    let fails: [(&str, Fails); 3] = [
        ("dies", |server| server.kill().expect("ours")),
        ("hangs", |server| server.pause().expect("ours")),
        ("restarts empty", |server| server.restart_empty().expect("ours")),
    ];
    for (what, fail) in fails {
        let Some((servers, locker)) = five(LEASE).await else { return };
        let names: Vec<_> = (0..220).map(|i| format!("n{i}")).collect();
        let locks = names.iter().map(async |name| locker.lock(name.as_str()).await);
        let guards = within("free locks", join_all(locks)).await;
        let guards: Vec<_> = guards.into_iter().map(|guard| guard.expect("granted")).collect();
        let exist: Vec<_> =
            ["EXISTS"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let held: usize = Plain::to(servers[0].url()).await.ask(&exist).await;
        fail(&servers[0]);
        assert!(held >= 100, "{what}: the node holds {held}");
        let lost = select_all(guards.iter().map(|guard| Box::pin(guard.lost())));
        let lost = tokio::time::timeout(LEASE * 4 / 3, lost).await.map(|(lost, ..)| lost);
        assert!(lost.is_err(), "{what}: {lost:?}");
        for told in join_all(guards.into_iter().map(quorumlock::Guard::unlock)).await {
            told.expect("still held");
        }
    }
}

/// A node of the bare majority hangs. Another client tries again and again: busy nodes and the late one leave
/// it no majority, so it gives back at once what the holder's top-up needs.
#[tokio::test]
async fn clients_that_try_do_not_keep_a_top_up_out() {
    let lease = Duration::from_secs(3);
    let Some((servers, locker)) = five(lease).await else { return };
    let other = builder()
        .answer_timeout(2 * lease)
        .on(quorumlock::Servers::quorum(servers.urls()))
        .expect("a good configuration");
    let guard = within("a free lock", other.lock("first")).await.expect("granted");
    guard.unlock().await.expect("held");
    let guard = within("a free lock", locker.lock("x")).await.expect("granted");
    let (first, others) = holding(&servers, "x").await;
    first[0].pause().expect("ours");
    let tries = async {
        loop {
            let taken = within("an answer", other.try_lock("x")).await.expect("four nodes answer");
            assert!(taken.is_none(), "two holders");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let lost = tokio::select! {
        () = tries => unreachable!(),
        lost = guard.lost() => Some(lost),
        () = on_all(others, "x") => None,
    };
    assert!(lost.is_none(), "{lost:?}");
    guard.unlock().await.expect("still held");
}

/// Two renewals before a node of a bare majority forgets: the caller's, and the watchdog's.
#[tokio::test]
async fn a_renewal_that_the_caller_asks_for_tops_up_too() {
    let Some((servers, locker)) = five(LONG).await else { return };
    let guard = within("a free lock", locker.lock("x")).await.expect("granted");
    let (first, _) = holding(&servers, "x").await;
    first[0].restart_empty().expect("ours");
    within("an answer", guard.renew()).await.expect("two nodes and two more");
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("still held");
}

/// The process that left the hold has topped it up (PROTOCOL.md TIC1).
#[tokio::test]
async fn a_ticket_of_a_short_hold_survives_a_node() {
    type Fails = fn(&Server);
    let fails: [Fails; 2] =
        [|server| server.kill().expect("ours"), |server| server.restart_empty().expect("ours")];
    for fail in fails {
        let Some((servers, locker)) = five(LONG).await else { return };
        let guard = within("a free lock", locker.lock("x")).await.expect("granted");
        let (first, others) = holding(&servers, "x").await;
        let ticket: Ticket = guard.into_ticket().expect("held");
        on_all(others, "x").await;
        fail(first[2]);
        let guard = within("an answer", locker.resume(&ticket)).await.expect("still held");
        guard.unlock().await.expect("still held");
    }
}

/// An operator releases the lock by force: no node that has carried that out is topped up.
#[tokio::test]
async fn a_forced_release_of_a_short_hold_is_told() {
    let Some((servers, locker)) = five(LONG).await else { return };
    let guard = within("a free lock", locker.lock("x")).await.expect("granted");
    let freed = within("an answer", locker.mutex("x").force_unlock()).await.expect("all answer");
    assert!(freed);
    let lost = within("the loss", guard.lost()).await;
    assert!(matches!(lost.why, LossReason::Forced | LossReason::Gone), "{lost:?}");
    let told = guard.unlock().await;
    assert!(matches!(told, Err(Error::Lost(_))), "{told:?}");
    for server in servers.iter() {
        let plain = Plain::to(server.url()).await;
        eventually("nothing is left", async || (!plain.exists("x").await).then_some(())).await;
    }
}

/// A node that hangs is late once: the next calls ask the others at once, and no call fails.
#[tokio::test]
async fn a_node_that_hangs_is_passed_by() {
    let Some((servers, locker)) = five(LONG).await else { return };
    servers[0].pause().expect("ours");
    for i in 0..20 {
        let name = format!("n{i}");
        let guard = within("four nodes", locker.lock(&name)).await.expect("granted");
        guard.unlock().await.expect("held");
    }
    // It votes again once it answers.
    servers[0].resume().expect("ours");
    let plain = Plain::to(servers[0].url()).await;
    // It is among the first of three names in five.
    let mut names = (0..).map(|i| format!("again{i}"));
    eventually("its vote", async || {
        let name = names.next()?;
        let guard = locker.lock(&name).await.expect("granted");
        let voted = plain.exists(&name).await;
        guard.unlock().await.expect("held");
        voted.then_some(())
    })
    .await;
}

/// The release of a holder whose majority lacks the home node reaches the waiter there. Nobody polls.
#[tokio::test]
async fn a_waiter_at_the_home_node_hears_of_a_release_at_others() {
    let Some((servers, locker)) = five(LONG).await else { return };
    let guard = within("a free lock", locker.lock("x")).await.expect("granted");
    let (first, _) = holding(&servers, "x").await;
    guard.unlock().await.expect("held");
    // Whichever of these is the home node, the holder does not have it.
    for keeps in &first {
        let plain = Plain::to(keeps.url()).await;
        eventually("its release", async || (!plain.exists("x").await).then_some(())).await;
        plain.ask::<String>(&["SET", "x", "a dead client", "PX", "60000"]).await;
        let guard = within("four nodes", locker.lock("x")).await.expect("granted");
        plain.ask::<i64>(&["DEL", "x"]).await;
        let waits = builder()
            .lease(LONG)
            .polls(false)
            .answer_timeout(Duration::from_secs(5))
            .on(quorumlock::Servers::quorum(servers.urls()))
            .expect("a good configuration");
        let waiter = tokio::spawn(async move { waits.lock("x").await?.unlock().await });
        eventually("a waiter", async || {
            let waiting = locker.mutex("x").holder().await.ok().flatten()?.waiters?;
            (waiting > 0).then_some(())
        })
        .await;
        guard.unlock().await.expect("held");
        within("the message", waiter).await.expect("no panic").expect("granted");
    }
}
