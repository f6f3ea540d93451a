//! A master whose memory is proven (`docs/PROTOCOL.md` ADM7): after a failover nobody is granted a lock
//! before the leases of the old master have ended. The modes RR (proven) and WW (proven, and all replicas
//! acknowledge) of the lab.

use std::time::Duration;

use quorumlock::{Admission, Builder, Error, Guard, Locker, NodeProblem, Replicas, Servers};
use quorumlock_testbed::servers::{ServerOptions, for_test};
use quorumlock_tests::{Plain, Stopwatch, eventually, granted, waiters, within};

use crate::{Fleet, NAME, assert_both_hold, follow, long_timeouts};

/// L, short enough that a test can wait for it.
const MAX_LEASE: Duration = Duration::from_secs(4);
const LEASE: Duration = Duration::from_secs(3);

fn proven() -> Builder {
    let builder = long_timeouts().admission(Admission::Strict).max_lease(MAX_LEASE).lease(LEASE);
    builder.clock_bound(Duration::from_millis(100))
}

impl Fleet {
    /// A locker on all servers, which counts only what is proven.
    fn proven(&self) -> Locker {
        proven().on(Servers::replicated(self.urls())).expect("good URLs")
    }

    /// A locker that knows the first server only.
    fn on_the_first(&self, builder: Builder) -> Locker {
        builder.on(Servers::replicated([self.servers[0].url()])).expect("a good URL")
    }
}

/// Waits until the lock is granted, and asserts that nobody believes in the first guard then.
async fn granted_after(guard: &Guard, second: &Locker) {
    let since = Stopwatch::start();
    let other = eventually("granted", async || second.try_lock(NAME).await.ok().flatten()).await;
    assert!(guard.check().is_err(), "{guard:?} and {other:?} are valid at once");
    assert!(since.elapsed() > LEASE, "after {:?}", since.elapsed());
}

/// L16.
#[tokio::test]
async fn a_promoted_replica_that_lacks_the_lock_grants_nothing_while_it_is_held() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let (first, second) = (fleet.proven(), fleet.proven());
    first.admit_nodes().await.expect("the master answers");
    fleet.cut(1);
    let guard = granted(&first, NAME).await;
    fleet.fail_over(1).await;
    granted_after(&guard, &second).await;
}

/// L17.
#[tokio::test]
async fn one_acknowledgement_of_two_is_as_good_as_none() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    let builder = proven().replicas(Replicas::AtLeast(1)).replica_timeout(Duration::from_secs(2));
    let first = builder.on(Servers::replicated(fleet.urls())).expect("good URLs");
    first.admit_nodes().await.expect("the master answers");
    fleet.cut(2);
    let guard = granted(&first, NAME).await;
    assert!(fleet.plain[1].exists(NAME).await && !fleet.plain[2].exists(NAME).await);
    fleet.fail_over(2).await;
    granted_after(&guard, &fleet.proven()).await;
}

/// L18.
#[tokio::test]
async fn a_promoted_replica_with_the_old_expiry_grants_nothing_while_the_lock_is_held() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let (first, second) = (fleet.proven(), fleet.proven());
    first.admit_nodes().await.expect("the master answers");
    let guard = granted(&first, NAME).await;
    fleet.copied(NAME, 1).await;
    fleet.cut(1);
    let gone = async || (!fleet.plain[1].exists(NAME).await).then_some(());
    eventually("the replica's copy has ended", gone).await;
    assert_eq!(guard.check(), Ok(()), "renewed at the master");
    fleet.fail_over(1).await;
    granted_after(&guard, &second).await;
}

/// L19, the limit of RR: the old master lives on, and its memory is proven.
#[tokio::test]
async fn an_old_master_that_lives_on_keeps_its_holder() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let (first, second) = (fleet.on_the_first(proven()), fleet.proven());
    first.admit_nodes().await.expect("the master answers");
    let guard = granted(&first, NAME).await;
    fleet.promote(1).await;
    let other = eventually("granted", async || second.try_lock(NAME).await.ok().flatten()).await;
    assert_both_hold(&guard, &other);
}

/// L19 in WW: the old master's renewals count no longer once its replica is promoted.
#[tokio::test]
async fn an_old_master_whose_replicas_must_acknowledge_loses_its_holder() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let builder =
        proven().replicas(Replicas::AtLeast(1)).replica_timeout(Duration::from_millis(300));
    let (first, second) = (fleet.on_the_first(builder), fleet.proven());
    first.admit_nodes().await.expect("the master answers");
    let guard = granted(&first, NAME).await;
    fleet.promote(1).await;
    granted_after(&guard, &second).await;
}

/// The master is demoted, copies the memory of the other server with its own admission record, and is
/// promoted again: the same process, the same scripts, the same incarnation, another memory.
#[tokio::test]
async fn a_master_that_was_a_replica_meanwhile_grants_nothing_while_the_lock_is_held() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let (first, second) = (fleet.on_the_first(proven()), fleet.on_the_first(proven()));
    first.admit_nodes().await.expect("the master answers");
    granted(&second, "another").await.unlock().await.expect("held");
    fleet.copied("quorumlock:node", 1).await;
    fleet.cut(1);
    let guard = granted(&first, NAME).await;
    fleet.promote(1).await;
    follow(&fleet.plain[0], fleet.port(1)).await;
    fleet.promote(0).await;
    assert!(!fleet.plain[0].exists(NAME).await, "its memory of the lock is lost");
    assert!(fleet.plain[0].exists("quorumlock:node").await, "its admission record came back");
    granted_after(&guard, &second).await;
}

/// A replica may be promoted with a copy of the admission record.
#[tokio::test]
async fn a_lone_server_with_a_replica_is_refused_by_name() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let locker = proven().on(Servers::single(fleet.servers[0].url())).expect("a good URL");
    let Err(Error::Refused(none)) = locker.admit_nodes().await else { panic!("admitted") };
    let NodeProblem::Unfit(unfit) = &none.nodes[0].problem else { panic!("{none}") };
    assert_eq!((unfit.what, &*unfit.found), ("connected replicas", "1"));
    assert!(none.to_string().contains("replicated"), "{none}");
}

/// A server that is not proven frees names for everybody, and hands none off: a handoff is a vote.
#[tokio::test]
async fn a_server_that_is_not_proven_hands_nothing_off() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let server = Plain::to(servers[0].url()).await;
    server.set_mark(NAME, 7).await;
    let _handed = server.listen("quorumlock:handoff:w").await;
    let _woken = server.listen("quorumlock:wake:w").await;
    for (builder, hands_off) in [(long_timeouts(), true), (proven(), false)] {
        server.ask::<()>(&["DEL", NAME]).await;
        server.ask::<()>(&["HSET", NAME, &format!("{}:1", uuid(1)), "1"]).await;
        server.ask::<()>(&["PEXPIRE", NAME, "60000"]).await;
        let member = format!("w hash {}:1 60000 1", uuid(2));
        server.ask::<()>(&["ZADD", &waiters(NAME), &asks_now(&server).await, &member]).await;
        let locker = builder.on(Servers::single(servers[0].url())).expect("a good URL");
        assert!(locker.mutex(NAME).force_unlock().await.expect("it answers"), "it was held");
        assert_eq!(server.exists(NAME).await, hands_off);
    }
}

/// The score of a queue member whose waiter came long ago and asks now (queue.lua).
async fn asks_now(server: &Plain) -> String {
    let (seconds, _): (u64, u64) = server.ask(&["TIME"]).await;
    (2 * (2 * seconds % 1_024)).to_string()
}

fn uuid(n: u8) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// The record is another when the holder unlocks: the connection that it was verified on knows nothing yet.
#[tokio::test]
async fn a_server_whose_record_is_another_hands_nothing_off() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let locker = || proven().on(Servers::single(servers[0].url())).expect("a good URL");
    let (holder, waits) = (locker(), locker());
    holder.admit_nodes().await.expect("it answers");
    let guard = granted(&holder, NAME).await;
    let waiter = tokio::spawn(waits.lock(NAME).into_future());
    queued(servers[0].url()).await;
    let since = Stopwatch::start();
    let other = "0".repeat(32);
    let record = ["HSET", "quorumlock:node", "stamp", &other, "life", "0/0"];
    assert_eq!(Plain::to(servers[0].url()).await.ask::<i64>(&record).await, 0);
    guard.unlock().await.expect("held");
    drop(within("granted", waiter).await.expect("no panic").expect("no error"));
    assert!(since.elapsed() > MAX_LEASE, "handed off after {:?}", since.elapsed());
}

/// Waits until a waiter is queued that accepts a handoff.
async fn queued(url: &str) {
    let server = Plain::to(url).await;
    eventually("queued", async || {
        let members: Vec<String> = server.ask(&["ZRANGE", &waiters(NAME), "0", "-1"]).await;
        members.iter().any(|member| member.split(' ').count() == 5).then_some(())
    })
    .await;
}
