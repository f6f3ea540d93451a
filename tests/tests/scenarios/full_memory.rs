//! Memory is full (`SAFETY.md` H14, H15, `PROTOCOL.md` ADM5). The lab's L33 and L34 judge the holds;
//! these tests say what each client is told.
//!
//! Under strict admission a locker that connects refuses nodes that may evict a lock, and names the
//! setting. (Only new connections see a policy that is changed later.) Where nothing may be evicted,
//! renewals and releases need no memory and still work, on new connections too; a new acquisition is
//! refused, and the error has the servers' own words.

use quorumlock::{Admission, Error, NodeProblem, NodeReport};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, Stopwatch, eventually, missed, second_server, within};

use crate::setup::{LEASE, NAME, Redlock, Strict, admit, builder};

#[tokio::test]
async fn under_strict_admission_nodes_that_evict_are_refused_by_the_name_of_the_setting() {
    let Some(servers) = for_test(3, &evicting()) else { return };
    let locker =
        builder(Strict).on(quorumlock::Servers::quorum(servers.urls())).expect("good URLs");
    let refused = within("an answer", locker.try_lock(NAME)).await;
    let Err(Error::Refused(why)) = refused else { panic!("not refused: {refused:?}") };
    for node in &why.nodes {
        let NodeProblem::Unfit(unfit) = &node.problem else { panic!("{why:?}") };
        assert_eq!((unfit.what, unfit.found.as_str()), ("maxmemory-policy", "volatile-lru"));
    }
}

fn evicting() -> ServerOptions {
    let args = ["--maxmemory", "16mb", "--maxmemory-policy", "volatile-lru"];
    ServerOptions { args: args.map(str::to_owned).to_vec(), ..Default::default() }
}

#[tokio::test]
async fn in_plain_redlock_what_is_held_is_kept_and_nothing_new_is_granted() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    what_is_held_is_kept(Redlock, servers).await;
}

#[tokio::test]
async fn under_strict_admission_what_is_held_is_kept_and_nothing_new_is_granted() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    what_is_held_is_kept(Strict, servers).await;
}

/// Valkey queues a transaction when it is full, and Redis does not.
#[tokio::test]
async fn a_full_redis_renews_by_the_scripts_that_it_has() {
    let Some(redis) = second_server() else {
        return missed("no Redis here; scripts/get-redis fetches one");
    };
    let servers = Servers::start_with(&redis, 3, &ServerOptions::default()).expect("it starts");
    what_is_held_is_kept(Strict, servers).await;
}

async fn what_is_held_is_kept(mode: Admission, servers: Servers) {
    admit(mode, &servers).await;
    let locker = builder(mode).on(quorumlock::Servers::quorum(servers.urls())).expect("good URLs");
    let guard = within("free", locker.lock(NAME).lease(LEASE)).await.expect("free");
    let full = Stopwatch::start();
    let mut nodes = Vec::new();
    for server in &servers {
        let plain = Plain::to(server.url()).await;
        plain.ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]).await;
        nodes.push(plain);
    }

    for name in [NAME, "another"] {
        let newcomer =
            builder(mode).on(quorumlock::Servers::quorum(servers.urls())).expect("good URLs");
        let refused = within("an answer", newcomer.try_lock(name)).await;
        match refused {
            Ok(None) if name == NAME => {}
            Err(Error::Refused(why)) if name != NAME => {
                let full = |node: &NodeReport| matches!(node.problem, NodeProblem::OutOfMemory(_));
                assert!(why.nodes.iter().all(full), "the servers' reason: {why:?}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    eventually("it outlives its lease", async || {
        guard.check().expect("renewed");
        (full.elapsed() > LEASE * 2).then_some(())
    })
    .await;
    for node in &nodes {
        node.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    }
    guard.unlock().await.expect("still held, and given back");
    for node in &nodes {
        eventually("the release", async || (!node.exists(NAME).await).then_some(())).await;
        node.ask::<String>(&["CONFIG", "SET", "maxmemory", "0"]).await;
    }
    drop(within("room again", locker.lock(NAME)).await.expect("free"));
}
