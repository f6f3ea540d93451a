use std::collections::BTreeSet;
use std::time::Duration;

use futures::TryStreamExt as _;
use futures::future::{join, join_all};
use quorumlock::{Error, Layout, NodeProblem, Replicas, Servers};
use quorumlock_protocol::Name;
use quorumlock_tests::{eventually, within};

use crate::{Fleet, MASTERS, name_in, slots_of, source};

/// Each lock is on the master of its slot and nowhere else.
async fn a_hundred_names(fleet: Option<Fleet>) {
    let Some(fleet) = fleet else { return };
    for layout in [Layout::Redisson, Layout::Redlock] {
        let [locker, other] = [0, 1].map(|at| {
            fleet.builder().layout(layout).on(Servers::cluster([fleet.servers[at].url()]))
        });
        let (locker, other) = (locker.expect("a good URL"), other.expect("a good URL"));
        let names: Vec<_> = (0..100).map(|i| format!("{layout:?}/{i}")).collect();
        let lock =
            async |name: &String| within("a free lock", locker.lock(name)).await.expect("free");
        let mut guards = join_all(names.iter().map(lock)).await;
        let mut used = [0; MASTERS];
        for (name, guard) in names.iter().zip(&guards) {
            let slot = Name::new(name).expect("a good name").slot();
            for (at, plain) in fleet.plain[..MASTERS].iter().enumerate() {
                let [first, last] = slots_of(at);
                let here = (first..=last).contains(&slot);
                used[at] += usize::from(here);
                assert_eq!(here, plain.send::<bool>(&["EXISTS", name]).await == Ok(true), "{name}");
            }
            assert!(guard.token().get() > 0);
            assert!(other.try_lock(name).await.expect("it answers").is_none(), "{name}");
            assert!(other.mutex(name).is_locked().await.expect("it answers"));
        }
        assert!(used.iter().all(|used| *used > 0), "{used:?}");
        // A fresh locker knows one member only.
        let fresh = fleet
            .builder()
            .layout(layout)
            .on(Servers::cluster([fleet.servers[2].url()]))
            .expect("a URL");
        let (mut listed, mut held) = (BTreeSet::new(), fresh.list());
        while let Some(lock) = within("a lock", held.try_next()).await.expect("all answer") {
            assert!(listed.insert(lock.name), "listed twice");
        }
        assert_eq!(listed, names.iter().cloned().collect());
        let fences: Vec<_> = guards.iter().map(quorumlock::Guard::token).collect();
        for guard in guards.drain(..) {
            guard.unlock().await.expect("held");
        }
        for (name, before) in names.iter().zip(fences) {
            let guard = within("a free lock", other.lock(name)).await.expect("free");
            assert!(guard.token() > before, "{name}");
            assert!(locker.mutex(name).force_unlock().await.expect("it answers"));
            assert!(!other.mutex(name).is_locked().await.expect("it answers"));
        }
    }
}

/// The label of a hold is on the master of its own slot, which may be another one than that of the lock.
#[tokio::test]
async fn a_hold_on_any_shard_has_a_label_of_its_own() {
    let Some(fleet) = Fleet::start().await else { return };
    let (ours, asks) = (fleet.locker(), fleet.locker());
    for job in 0..12 {
        let (name, label) = (format!("job/{job}"), format!("number {job}"));
        let guard = within("free", ours.lock(&name).label(&label)).await.expect("granted");
        eventually("its label", async || {
            let holder = asks.mutex(&name).holder().await.expect("it answers").expect("held");
            (holder.label.as_ref() == Some(&label)).then_some(())
        })
        .await;
        let key = format!("quorumlock:owner:{}", guard.nonce());
        within("held", guard.unlock()).await.expect("released");
        for plain in &fleet.plain[..MASTERS] {
            eventually("deleted", async || {
                (plain.send::<bool>(&["EXISTS", &key]).await != Ok(true)).then_some(())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_hundred_names_over_all_shards() {
    a_hundred_names(Fleet::start().await).await;
}

#[tokio::test]
async fn a_hundred_names_over_all_shards_of_the_second_kind_of_server() {
    a_hundred_names(Fleet::start_second().await).await;
}

/// The members have the password of the one that was given, and the replicas of a shard acknowledge its
/// locks.
#[tokio::test]
async fn replicas_of_each_shard_acknowledge() {
    let Some(source) = source() else { return };
    let fleet = Fleet::start_on(&source, 1, Some("secret"), Duration::from_secs(60)).await;
    let locker = fleet
        .builder()
        .replicas(Replicas::AtLeast(1))
        .on(Servers::cluster([fleet.servers[1].url()]))
        .expect("good");
    for master in 0..MASTERS {
        let name = name_in(slots_of(master)[0]);
        let guard = within("a free lock", locker.lock(&name)).await.expect("acknowledged");
        let copy = &fleet.plain[MASTERS + master];
        copy.ask::<String>(&["READONLY"]).await;
        assert!(copy.exists(&name).await, "{name}");
        guard.unlock().await.expect("held");
    }
    fleet.servers[MASTERS].pause().expect("ours");
    let error = within("an answer", locker.try_lock(name_in(0))).await.expect_err("too few");
    let Error::Refused(none) = &error else { panic!("{error:?}") };
    assert!(matches!(none.nodes[0].problem, NodeProblem::NoReplicas(_)), "{error}");
    let other = within("a free lock", locker.lock(name_in(slots_of(1)[0]))).await;
    drop(other.expect("the replica of another master acknowledges"));
}

/// A waiter is queued at the master of its name, under the id that it listens to there.
#[tokio::test]
async fn a_release_notifies_the_waiter_of_another_process() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    let (holder, other) = (fleet.locker(), fleet.locker());
    let mut channels = BTreeSet::new();
    for (at, plain) in fleet.plain.iter().enumerate() {
        let name = name_in(slots_of(at)[1]);
        let guard = within("a free lock", holder.lock(&name)).await.expect("free");
        let waiter = tokio::spawn(other.lock(&name).into_future());
        let queue = Name::new(&name).expect("a good name").waiters_key();
        let id = eventually("queued", async || {
            let queued: Vec<String> = plain.ask(&["ZRANGE", &queue, "0", "-1"]).await;
            Some(queued.first()?.split(' ').next()?.to_owned())
        })
        .await;
        let channel = format!("quorumlock:wake:{id}");
        let (_, subscribers): (String, i64) = plain.ask(&["PUBSUB", "NUMSUB", &channel]).await;
        assert_eq!(subscribers, 1, "at the master of the name");
        guard.unlock().await.expect("held");
        drop(within("notified", waiter).await.expect("no panic").expect("free"));
        channels.insert(channel);
    }
    // A message reaches all members, and must reach a waiter once.
    assert_eq!(channels.len(), MASTERS);
}

/// Renewals at one master do not wait for another that hangs.
#[tokio::test]
async fn a_master_that_hangs_delays_no_renewal_at_others() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    let locker = fleet.builder().answer_timeout(Duration::from_secs(5));
    let locker = locker.on(Servers::cluster(fleet.servers.urls())).expect("good URLs");
    let lease = Duration::from_secs(6);
    let names = |master: usize| {
        let [first, last] = slots_of(master);
        (first..last).step_by(100).map(name_in).collect::<Vec<_>>()
    };
    // At the same time, so that they are renewed at the same time.
    let lock = async |name: &String| {
        within("a free lock", locker.lock(name).lease(lease)).await.expect("free")
    };
    let (here, there) = (names(0), names(1));
    let (lost, kept) =
        join(join_all(here.iter().map(lock)), join_all(there.iter().map(lock))).await;
    fleet.servers[0].pause().expect("ours");
    // The answers of that master would have taken four answer timeouts.
    eventually("locks at the master that hangs are lost", async || {
        lost.iter().all(|guard| guard.check().is_err()).then_some(())
    })
    .await;
    for guard in &kept {
        assert_eq!(guard.check(), Ok(()));
        assert!(fleet.plain[1].exists(guard.name()).await);
    }
    fleet.servers[0].resume().expect("ours");
}
