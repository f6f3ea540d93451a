//! A forced unlock is heard by its holder by message, and a message alone ends nothing (REL3).

use std::time::Duration;

use quorumlock::{Error, LossReason, Nonce};

use super::NAME;
use crate::testbed::in_a_runtime;
use crate::{MAX_WAIT, Plain, Stopwatch, Testbed, Topology, eventually, within};

/// The next renewal is a third of it away.
const LEASE: Duration = Duration::from_secs(30);

/// A holder hears of a forced unlock within a tenth of the lease, and the loss says so. So do the holder of
/// a permit, all readers, and the holder of several names.
pub async fn a_holder_hears_of_a_forced_unlock_at_once(bed: &Testbed) {
    let (locker, other) = (bed.locker(), bed.locker());
    let lock = within("free", locker.lock(NAME).lease(LEASE)).await.expect("granted");
    let set = within("free", locker.lock(["{a}1", "{a}2"]).lease(LEASE)).await.expect("free");
    let permit =
        within("free", locker.semaphore("pool", 2).acquire().lease(LEASE)).await.expect("granted");
    let reader =
        within("free", locker.rw_lock("catalog").read().lease(LEASE)).await.expect("granted");
    let kept = within("free", locker.lock("kept").lease(LEASE)).await.expect("granted");
    let second =
        within("free", other.rw_lock("catalog").read().lease(LEASE)).await.expect("granted");
    for nonce in [lock.nonce(), second.nonce()] {
        awaits_listener(bed, nonce).await;
    }

    let watch = Stopwatch::start();
    // The unlock itself waits for the nodes that do not answer.
    let (was_held, (lost, took)) = tokio::join!(other.mutex(NAME).force_unlock(), async {
        (within("the loss", lock.lost()).await, watch.elapsed())
    });
    assert!(was_held.expect("an answer"));
    assert!(took < LEASE / 10, "{took:?}");
    assert_eq!(lost.why, LossReason::Forced);
    assert!(lost.to_string().contains("by force"), "{lost}");
    assert!(
        matches!(lock.unlock().await, Err(Error::Lost(lost)) if lost.why == LossReason::Forced)
    );

    let (pool, catalog) = (other.semaphore("pool", 2), other.rw_lock("catalog"));
    let watch = Stopwatch::start();
    let (of_set, of_permit, of_readers, ()) = tokio::join!(
        other.mutex("{a}2").force_unlock(),
        pool.force_release(permit.slot()),
        catalog.force_unlock(),
        async {
            let all = tokio::join!(set.lost(), permit.lost(), reader.lost(), second.lost());
            for lost in [all.0, all.1, all.2, all.3] {
                assert_eq!(lost.why, LossReason::Forced, "{lost}");
            }
            assert!(watch.elapsed() < LEASE / 10, "{:?}", watch.elapsed());
        },
    );
    for was_held in [of_set, of_permit, of_readers] {
        assert!(was_held.expect("an answer"));
    }
    kept.check().expect("nobody took it");
}

/// A thread that blocks hears of it, too.
pub fn a_blocking_holder_hears_of_a_forced_unlock(bed: &Testbed) {
    let guard = bed.blocking().lock(NAME).lease(LEASE).acquire().expect("free");
    let nonce = guard.nonce();
    in_a_runtime(awaits_listener(bed, nonce));
    let (watch, other) = (Stopwatch::start(), bed.blocking());
    std::thread::scope(|threads| {
        threads
            .spawn(|| assert!(other.mutex(NAME).force_unlock().expect("an answer"), "it was held"));
        let lost = guard.lost().expect("the loss");
        assert!(watch.elapsed() < LEASE / 10, "{:?}", watch.elapsed());
        assert_eq!(lost.why, LossReason::Forced);
    });
}

/// Anybody may publish on the channel: the holder asks the nodes, and they say that it holds the lock.
pub async fn a_forged_message_ends_no_lock(bed: &Testbed) {
    let locker = bed.locker();
    // The nodes are asked whether or not the lock would be renewed.
    let limited = locker.lock("limited").lease(LEASE).hold_at_most(LEASE - MAX_WAIT / 4);
    let limited = within("free", limited).await.expect("granted");
    let guard = within("free", locker.lock(NAME).lease(LEASE)).await.expect("granted");
    awaits_listener(bed, guard.nonce()).await;
    let channel = channel(guard.nonce());
    let nonces = [guard.nonce(), limited.nonce()].map(|nonce| nonce.to_string());
    // A renewal of now makes the lease last longer than it can without one.
    let (before, watch) = (guard.valid_for(), Stopwatch::start());
    for node in bed.live().await {
        for text in ["", "nonsense", &nonces[0], &nonces[0].to_uppercase(), &nonces[1]] {
            node.ask::<i64>(&["PUBLISH", &channel, text]).await;
        }
    }
    eventually("the holder asks", async || (guard.valid_for() > before).then_some(())).await;
    assert!(watch.elapsed() < LEASE / 10, "{:?}", watch.elapsed());
    for guard in [guard, limited] {
        guard.check().expect("held");
        assert!(locker.mutex(guard.name()).is_locked().await.expect("an answer"));
        guard.unlock().await.expect("held until here");
    }
}

/// Waits until the holder's process is subscribed at each node that answers, or at one member of a cluster.
async fn awaits_listener(bed: &Testbed, nonce: Nonce) {
    let (channel, mut nodes) = (channel(nonce), bed.live().await);
    if bed.topology() == Topology::Cluster {
        nodes.truncate(1);
    }
    for node in &nodes {
        eventually("the holder listens", async || {
            (listeners(node, &channel).await == 1).then_some(())
        })
        .await;
    }
}

async fn listeners(node: &Plain, channel: &str) -> usize {
    node.ask::<(String, usize)>(&["PUBSUB", "NUMSUB", channel]).await.1
}

fn channel(nonce: Nonce) -> String {
    let nonce = nonce.to_string();
    format!("quorumlock:forced:{}", &nonce[nonce.len() - 12..])
}
