//! What the log says of a command that is refused.

use quorumlock::Builder;
use quorumlock_tests::{Log, eventually, within};
use tracing::subscriber;

use crate::{Bed, LONG_LEASE};

#[tokio::test]
async fn a_command_that_locks_do_without_is_told_once() {
    let Some(bed) = Bed::start(1, Builder::default()).await else { return };
    bed.allow(&["resetchannels", "-info", "-client|setname"]).await;
    let log = Log::default();
    let _guard = subscriber::set_default(log.subscriber());
    // A test that meets the event while this one begins to listen may have switched it off for all.
    eventually("the log is listened to", async || {
        tracing::callsite::rebuild_interest_cache();
        let guard = within("free", bed.locker().lock("y")).await.expect("granted");
        guard.unlock().await.expect("released");
        (!log.warnings().is_empty()).then_some(())
    })
    .await;
    log.clear();
    let (locker, other) = (bed.locker(), bed.locker());
    for round in 0..3 {
        let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let waiting = tokio::spawn(other.lock("x").lease(LONG_LEASE).into_future());
        eventually("both lockers have met the refusals", async || {
            (log.warnings().len() >= 5).then_some(())
        })
        .await;
        guard.unlock().await.expect("released");
        drop(within("free", waiting).await.expect("no panic").expect("granted"));
        if round < 2 {
            bed.plain[0].ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        }
    }
    let mut told = log.warnings();
    told.sort();
    for (command, lost, lockers) in [
        ("client|setname", "`CLIENT LIST` shows no name of the connections", 2..=2),
        ("info", "a replica, a restart and two addresses of one server go unnoticed", 2..=2),
        // A locker that waits; the other one may wait, too.
        ("subscribe", "waiters poll", 1..=2),
    ] {
        let of = |text: &&String| text.contains(&format!("command=\"{command}\""));
        let texts: Vec<_> = told.iter().filter(of).collect();
        assert!(lockers.contains(&texts.len()), "{told:#?}");
        assert!(texts.iter().all(|text| text.contains(lost)), "{told:#?}");
    }
}
