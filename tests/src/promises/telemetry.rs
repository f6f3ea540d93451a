//! What a program hears of its locks, and what a locker counts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::telemetry::{CallOutcome, Event, HoldEnd, LockKind, Mode};
use quorumlock::{Error, Locker, LossReason};

use super::{LONG_LEASE, NAME, SHORT_LEASE, is_taken_away};
use crate::{Testbed, eventually, within};

/// What was heard, in order.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Told>>>);

#[derive(Clone, Debug, PartialEq)]
enum Told {
    CallBegan(LockKind, String, Mode),
    CallEnded(LockKind, String, CallOutcome),
    HoldBegan(LockKind, String),
    HoldEnded(LockKind, String, HoldEnd, Duration),
    Renewed(usize),
}

impl Heard {
    fn by(bed: &Testbed) -> (Self, Locker) {
        let heard = Self::default();
        let told = heard.clone();
        let locker = bed.build(bed.builder().on_event(move |event| told.hear(event)));
        (heard, locker)
    }

    fn hear(&self, event: &Event<'_>) {
        let told = match event {
            Event::CallBegan { lock } => {
                Told::CallBegan(lock.kind, lock.name.to_owned(), lock.mode)
            }
            Event::CallEnded { lock, outcome, .. } => {
                Told::CallEnded(lock.kind, lock.name.to_owned(), *outcome)
            }
            Event::HoldBegan { lock } => Told::HoldBegan(lock.kind, lock.name.to_owned()),
            Event::HoldEnded { lock, end, left, .. } => {
                Told::HoldEnded(lock.kind, lock.name.to_owned(), *end, *left)
            }
            Event::Renewed { confirmed, .. } => Told::Renewed(*confirmed),
            _ => return,
        };
        self.0.lock().expect("no panic").push(told);
    }

    fn all(&self) -> Vec<Told> {
        self.0.lock().expect("no panic").clone()
    }

    fn ends(&self) -> Vec<HoldEnd> {
        let end = |told: Told| match told {
            Told::HoldEnded(_, _, end, _) => Some(end),
            _ => None,
        };
        self.all().into_iter().filter_map(end).collect()
    }

    fn calls(&self, outcome: CallOutcome) -> u64 {
        let ended =
            |told: &&Told| matches!(told, Told::CallEnded(_, _, found) if *found == outcome);
        self.all().iter().filter(ended).count() as u64
    }
}

/// A hold of each kind is told from the call to the release, with its name.
pub async fn each_kind_of_lock_is_told_from_call_to_release(bed: &Testbed) {
    let (heard, locker) = Heard::by(bed);
    let lock = within("free", locker.lock(NAME)).await.expect("granted");
    lock.unlock().await.expect("held");
    drop(within("free", locker.lock(["{s}b", "{s}a"])).await.expect("granted"));
    drop(within("free", locker.semaphore("p", 2).acquire()).await.expect("granted"));
    drop(within("free", locker.rw_lock("rw").read()).await.expect("granted"));
    let writer = within("free", locker.rw_lock("rw/2").write()).await.expect("granted");
    let reader = writer.downgrade().await.expect("held");
    drop(reader);
    let holds: Vec<_> = heard.all().into_iter().filter(|told| !is_renewal(told)).collect();
    let expected = [
        (LockKind::Lock, NAME),
        (LockKind::All, "{s}a"),
        (LockKind::Permit, "p"),
        (LockKind::Read, "rw"),
        (LockKind::Write, "rw/2"),
    ];
    let mut at = 0;
    for (kind, name) in expected {
        let [Told::CallBegan(asked, of, mode), Told::HoldBegan(begun, _), rest @ ..] = &holds[at..]
        else {
            panic!("{holds:#?}")
        };
        assert!((asked, begun) == (&kind, &kind) && of.contains(name), "{holds:#?}");
        assert_eq!(*mode, bed.mode());
        let [Told::CallEnded(ended, _, outcome), Told::HoldEnded(held, _, end, left), ..] = rest
        else {
            panic!("{holds:#?}")
        };
        assert_eq!((ended, outcome), (&kind, &CallOutcome::Granted));
        let expected = if kind == LockKind::Write { HoldEnd::HandedOff } else { HoldEnd::Released };
        assert!((held, end) == (&kind, &expected) && !left.is_zero(), "{holds:#?}");
        at += 4;
    }
    let [Told::HoldBegan(LockKind::Read, _), Told::HoldEnded(LockKind::Read, ..)] = &holds[at..]
    else {
        panic!("{holds:#?}")
    };
    let stats = locker.stats();
    assert_eq!((stats.granted, stats.released, stats.held, stats.waiting), (5, 6, 0, 0));
}

fn is_renewal(told: &Told) -> bool {
    matches!(told, Told::Renewed(_))
}

/// A call ends once: as busy, by the drop of its future or by `close`, and is counted so.
pub async fn a_call_that_gets_no_lock_is_told_with_its_reason(bed: &Testbed) {
    let ((heard, locker), other) = (Heard::by(bed), bed.locker());
    let held = within("free", other.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    assert!(within("an answer", locker.try_lock(NAME)).await.expect("no error").is_none());
    let waits = locker.lock(NAME).into_future();
    tokio::time::timeout(Duration::from_millis(50), waits).await.expect_err("held");
    within("bad input", locker.lock(NAME).lease(Duration::ZERO)).await.expect_err("no lease");
    assert_eq!((heard.calls(CallOutcome::Busy), heard.calls(CallOutcome::Dropped)), (1, 1));
    let stats = locker.stats();
    assert_eq!((stats.busy, stats.dropped, stats.waiting, stats.granted), (1, 1, 0, 0));
    let waits = tokio::spawn(locker.lock(NAME).into_future());
    eventually("a call that waits", async || (locker.stats().waiting == 1).then_some(())).await;
    within("the close", locker.close()).await;
    let stats = locker.stats();
    assert_eq!((stats.closed, stats.dropped, stats.busy, stats.waiting), (1, 1, 1, 0));
    assert_eq!((heard.calls(CallOutcome::Closed), heard.calls(CallOutcome::Dropped)), (1, 1));
    assert!(matches!(within("its end", waits).await.expect("no panic"), Err(Error::Closed)));
    drop(held);
}

/// A hold that passes to a waiting task of the process ends there, and the next one begins.
pub async fn a_handoff_inside_the_process_is_told(bed: &Testbed) {
    let (heard, locker) = Heard::by(bed);
    // A lease passes on for a short time only, which a loaded machine may miss.
    eventually("a handoff", async || {
        let before = heard.ends().len();
        let first = within("free", locker.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
        let mut waiter = locker.lock(NAME).lease(LONG_LEASE).into_future();
        assert!(futures::poll!(&mut waiter).is_pending(), "it is in the queue of this process");
        assert_eq!((locker.stats().waiting, locker.stats().held), (1, 1));
        first.unlock().await.expect("held");
        let next = within("the handoff", waiter).await.expect("granted");
        assert_eq!((locker.stats().waiting, locker.stats().held), (0, 1));
        next.unlock().await.expect("held");
        assert_eq!(locker.stats().held, 0);
        (heard.ends()[before..] == [HoldEnd::HandedOff, HoldEnd::Released]).then_some(())
    })
    .await;
}

/// A loss is one event with its reason: the guard and the watchdog both notice it, and the guard is then
/// dropped or unlocked.
pub async fn a_loss_is_told_once_with_its_reason(bed: &Testbed) {
    let ((heard, locker), other) = (Heard::by(bed), bed.locker());
    let forced = within("free", locker.lock(NAME).lease(SHORT_LEASE)).await.expect("granted");
    bed.awaits_key(NAME).await;
    assert!(other.mutex(NAME).force_unlock().await.expect("an answer"));
    let taken = within("the loss", forced.lost()).await.why;
    assert!(is_taken_away(taken), "{taken}");
    drop(forced);
    let limited = locker.lock("x").lease(SHORT_LEASE).hold_at_most(SHORT_LEASE);
    let limited = within("free", limited).await.expect("granted");
    assert_eq!(within("the limit", limited.lost()).await.why, LossReason::HoldLimit);
    limited.unlock().await.expect_err("lost");
    // The counter moves before the event is told.
    eventually("both losses", async || (heard.ends().len() == 2).then_some(())).await;
    assert_eq!(locker.stats().lost, 2);
    let expected = [taken, LossReason::HoldLimit].map(HoldEnd::Lost);
    assert_eq!(heard.ends(), expected);
    assert_eq!((locker.stats().held, locker.stats().released), (0, 0));
}

/// Renewals are counted, and a handler that panics ends no renewal and is not called again.
pub async fn a_handler_that_panics_ends_no_renewal(bed: &Testbed) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let locker = bed.build(bed.builder().on_event(move |event| {
        if let Event::Renewed { .. } = event {
            counted.fetch_add(1, Ordering::SeqCst);
            // Without the hook, which would print a backtrace on the watchdog's thread for longer than
            // a lease.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }));
    let guard = within("free", locker.lock(NAME).lease(SHORT_LEASE)).await.expect("granted");
    eventually("three renewals", async || (locker.stats().renewed >= 3).then_some(())).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    guard.check().expect("renewed");
    guard.unlock().await.expect("held");
}
