//! Tests of the watchdog's thread, with a renewer that answers as the test wants.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock_protocol::{LeaseTiming, LossReason, Nonce};
use quorumlock_watchdog::{Clock, LeaseState, Renewal, Renewer, Watchdog, WatchedLease};

#[derive(Debug)]
struct Lease {
    id: u64,
    clock: Clock,
    state: LeaseState,
}

impl Lease {
    fn new(id: u64, lease: Duration) -> Arc<Self> {
        Self::by(&Clock::system(), id, lease)
    }

    fn by(clock: &Clock, id: u64, lease: Duration) -> Arc<Self> {
        let timing = LeaseTiming { lease, until: clock.now() + lease, hold_until: None };
        let state = LeaseState::new(clock.clone(), timing);
        Arc::new(Self { id, clock: clock.clone(), state })
    }
}

impl WatchedLease for Lease {
    fn id(&self) -> u64 {
        self.id
    }
    fn nonce(&self) -> Nonce {
        Nonce::from_u128(self.id.into())
    }
    fn state(&self) -> &LeaseState {
        &self.state
    }
}

#[derive(Debug, PartialEq)]
enum Event {
    Renewed(Vec<u64>),
    Released(u64),
    /// The renewer was dropped, so the thread has ended.
    Ended,
}

struct ScriptedRenewer {
    answer: Arc<Mutex<Answer>>,
    takeover_delay: Duration,
    events: Sender<Event>,
}

impl ScriptedRenewer {
    fn new(answer: &Arc<Mutex<Answer>>, events: Sender<Event>) -> Self {
        Self { answer: answer.clone(), takeover_delay: Duration::ZERO, events }
    }
}

#[derive(Clone, Copy)]
enum Answer {
    Renewed,
    Gone,
    Unknown,
}

impl Drop for ScriptedRenewer {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Ended);
    }
}

impl Renewer for ScriptedRenewer {
    type Lease = Lease;

    fn renew(
        &self,
        batch: Vec<(Arc<Lease>, Duration)>,
    ) -> Pin<Box<dyn Future<Output = Vec<Renewal>> + Send>> {
        let _ = self.events.send(Event::Renewed(batch.iter().map(|(lease, _)| lease.id).collect()));
        let answer = *self.answer.lock().unwrap();
        Box::pin(async move {
            let say = |(lease, ttl): (Arc<Lease>, Duration)| match answer {
                Answer::Renewed => Renewal::Until(lease.clock.now() + ttl),
                Answer::Gone => Renewal::Gone,
                Answer::Unknown => Renewal::Unknown,
            };
            batch.into_iter().map(say).collect()
        })
    }

    fn shard(&self, lease: &Lease) -> u64 {
        lease.id / 100
    }

    fn takeover_delay(&self) -> Duration {
        self.takeover_delay
    }

    fn release(&self, lease: Arc<Lease>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let events = self.events.clone();
        Box::pin(async move {
            let _ = events.send(Event::Released(lease.id));
        })
    }
}

fn watchdog(answer: Answer) -> (Watchdog<ScriptedRenewer>, Arc<Mutex<Answer>>, Receiver<Event>) {
    let (events, seen) = channel();
    let answer = Arc::new(Mutex::new(answer));
    let renewer = ScriptedRenewer::new(&answer, events);
    let watchdog = Watchdog::start(Clock::system(), renewer, LAST_WAIT).expect("a thread");
    (watchdog, answer, seen)
}

/// How long the drop of the last handle waits for releases.
const LAST_WAIT: Duration = Duration::from_secs(20);
/// Generous, because these tests wait for events, not for times.
const MAX_WAIT: Duration = Duration::from_secs(20);

#[test]
fn leases_are_renewed_together_and_stand_longer_than_one_lease() {
    let (watchdog, _, seen) = watchdog(Answer::Renewed);
    let lease = Duration::from_millis(300);
    let (a, b) = (Lease::new(1, lease), Lease::new(2, lease));
    watchdog.watch(&a, Clock::system().now());
    watchdog.watch(&b, Clock::system().now());
    let mut renewed = 0;
    while renewed < 10 {
        match seen.recv_timeout(MAX_WAIT).expect("a renewal") {
            Event::Renewed(ids) => renewed += ids.len(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((a.state.check(), b.state.check()), (Ok(()), Ok(())));
    assert_eq!(watchdog.len(), 2);
}

/// A server that hangs delays no renewal at others.
#[tokio::test]
async fn leases_of_different_shards_are_renewed_by_separate_calls() {
    let (events, seen) = channel();
    let renewer = ScriptedRenewer::new(&Arc::new(Mutex::new(Answer::Renewed)), events);
    let (watchdog, work) = Watchdog::new(Clock::system(), renewer);
    let asked = Clock::system().now();
    for id in [101, 1, 102, 2] {
        watchdog.watch(&Lease::new(id, MAX_WAIT), asked - MAX_WAIT);
    }
    // All are due by now.
    let work = tokio::spawn(work);
    let mut renewed = Vec::new();
    while renewed.len() < 2 {
        match seen.try_recv() {
            Ok(Event::Renewed(mut ids)) => {
                ids.sort_unstable();
                renewed.push(ids);
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => tokio::task::yield_now().await,
        }
    }
    assert_eq!(renewed, [[1, 2], [101, 102]]);
    drop(watchdog);
    work.await.unwrap();
}

/// SAFETY.md H26.
#[test]
fn gone_is_told_at_once_and_cleaned_up_when_its_holder_has_heard() {
    let (watchdog, answer, seen) = watchdog(Answer::Gone);
    let lease = Lease::new(1, MAX_WAIT);
    watchdog.watch(&lease, Clock::system().now());
    assert_eq!(watchdog.end(&lease, LossReason::Gone), LossReason::Gone);
    assert_eq!(lease.state.check(), Err(LossReason::Gone));
    // The release of a second lease proves that the watchdog has done what was due before it.
    *answer.lock().unwrap() = Answer::Unknown;
    watchdog.watch(&Lease::new(2, Duration::from_millis(60)), Clock::system().now());
    while match seen.recv_timeout(MAX_WAIT).expect("the end of the other") {
        Event::Released(1) => panic!("released under its holder"),
        Event::Released(id) => id != 2,
        Event::Renewed(ids) => !ids.contains(&1) || panic!("a lost lease was renewed"),
        Event::Ended => panic!("the keeper has ended"),
    } {}
    watchdog.release(lease.clone());
    assert_eq!(seen.recv_timeout(MAX_WAIT), Ok(Event::Released(1)));
    watchdog.release(lease.clone());
    assert!(!watchdog.stop_renewing(&lease), "given up already");
    drop(watchdog);
    assert_eq!(seen.recv_timeout(MAX_WAIT), Ok(Event::Ended), "and nothing was released twice");
}

/// SAFETY.md H26.
#[test]
fn a_holder_who_does_not_hear_keeps_the_nodes_until_the_window_that_he_was_told_shuts() {
    let (watchdog, _, seen) = watchdog(Answer::Gone);
    let lease = Lease::new(1, Duration::from_millis(300));
    let told = lease.state.until();
    watchdog.watch(&lease, Clock::system().now());
    assert_eq!(seen.recv_timeout(MAX_WAIT), Ok(Event::Renewed(vec![1])));
    assert_eq!(seen.recv_timeout(MAX_WAIT), Ok(Event::Released(1)), "and it was asked for no more");
    assert!(lease.clock.now() >= told);
    assert_eq!(lease.state.check(), Err(LossReason::Gone), "the first reason stays");
    assert!(watchdog.is_empty());
}

/// PROTOCOL.md WIN3.
#[tokio::test]
async fn with_a_takeover_delay_a_lost_lease_is_released_that_long_after_its_furthest_end() {
    let (delay, clock) = (MAX_WAIT / 2, Clock::manual());
    let (watchdog, seen) = delaying(&clock, delay);
    let (asked, nanosecond) = (clock.now(), Duration::from_nanos(1));
    let (dropped, unlocked) =
        (Lease::by(&clock, 1, MAX_WAIT), Lease::by(&clock, 2, MAX_WAIT + nanosecond));
    for lease in [&dropped, &unlocked] {
        watchdog.watch(lease, asked);
        // A node denies the next renewal, but the holder may have been told of this one.
        watchdog.renewed(lease, lease.state.until() + MAX_WAIT).unwrap();
        watchdog.renewed(lease, asked + MAX_WAIT / 2).unwrap();
        assert_eq!(watchdog.end(lease, LossReason::Gone), LossReason::Gone);
    }
    watchdog.release(dropped.clone());
    assert!(!watchdog.stop_renewing(&unlocked), "left to the watchdog");
    assert_eq!(settled(&watchdog, &seen).await, []);
    clock.advance(MAX_WAIT * 2 + delay - nanosecond);
    assert_eq!(settled(&watchdog, &seen).await, [], "nor asked for again");
    clock.advance(nanosecond);
    assert_eq!(settled(&watchdog, &seen).await, [Event::Released(1)]);
    clock.advance(nanosecond);
    assert_eq!(settled(&watchdog, &seen).await, [Event::Released(2)]);
    assert!(watchdog.is_empty());
}

/// PROTOCOL.md WIN3.
#[tokio::test]
async fn with_a_takeover_delay_a_valid_lease_is_released_at_once() {
    let clock = Clock::manual();
    let (watchdog, seen) = delaying(&clock, MAX_WAIT);
    let (dropped, unlocked) = (Lease::by(&clock, 1, MAX_WAIT), Lease::by(&clock, 2, MAX_WAIT));
    for lease in [&dropped, &unlocked] {
        watchdog.watch(lease, clock.now());
    }
    assert_eq!(dropped.state.end(LossReason::Released), LossReason::Released);
    watchdog.release(dropped.clone());
    assert!(watchdog.stop_renewing(&unlocked), "its holder releases it");
    assert_eq!(settled(&watchdog, &seen).await, [Event::Released(1)]);
    assert!(watchdog.is_empty());
}

/// A watchdog with a takeover delay, on the test's own runtime.
fn delaying(
    clock: &Clock,
    takeover_delay: Duration,
) -> (Watchdog<ScriptedRenewer>, Receiver<Event>) {
    let (events, seen) = channel();
    let answer = Arc::new(Mutex::new(Answer::Unknown));
    let mut renewer = ScriptedRenewer::new(&answer, events);
    renewer.takeover_delay = takeover_delay;
    let (watchdog, work) = Watchdog::new(clock.clone(), renewer);
    tokio::spawn(work);
    (watchdog, seen)
}

/// What the watchdog does by now: the first round gives up what is due, the second one releases it.
async fn settled(watchdog: &Watchdog<ScriptedRenewer>, seen: &Receiver<Event>) -> Vec<Event> {
    watchdog.flush().await;
    watchdog.flush().await;
    seen.try_iter().collect()
}

#[test]
fn unknown_is_tried_again_until_the_window_shuts() {
    let (watchdog, answer, seen) = watchdog(Answer::Unknown);
    let lease = Lease::new(1, Duration::from_secs(2));
    watchdog.watch(&lease, Clock::system().now());
    for _ in 0..3 {
        assert_eq!(seen.recv_timeout(MAX_WAIT), Ok(Event::Renewed(vec![1])));
        assert_eq!(lease.state.check(), Ok(()), "unknown is not lost");
    }
    *answer.lock().unwrap() = Answer::Renewed;
    seen.recv_timeout(MAX_WAIT).expect("one more try");
    let healed = Lease::new(2, Duration::from_millis(120));
    *answer.lock().unwrap() = Answer::Unknown;
    watchdog.watch(&healed, Clock::system().now());
    while seen.recv_timeout(MAX_WAIT).expect("an end") != Event::Released(2) {}
    assert_eq!(healed.state.check(), Err(LossReason::WindowShut));
}

#[test]
fn the_thread_ends_with_the_last_handle_after_all_releases() {
    let (watchdog, _, seen) = watchdog(Answer::Renewed);
    let lease = Lease::new(7, MAX_WAIT);
    watchdog.watch(&lease, Clock::system().now());
    watchdog.release(lease);
    drop(watchdog);
    assert_eq!(seen.recv_timeout(MAX_WAIT), Ok(Event::Released(7)));
    assert_eq!(seen.recv_timeout(MAX_WAIT), Ok(Event::Ended));
}

/// Nodes that carry a release out later than the majority.
struct SlowMinority(Arc<AtomicBool>);

impl Renewer for SlowMinority {
    type Lease = Lease;

    fn renew(
        &self,
        _: Vec<(Arc<Lease>, Duration)>,
    ) -> Pin<Box<dyn Future<Output = Vec<Renewal>> + Send>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn release(&self, _: Arc<Lease>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn drain(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let drained = self.0.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            drained.store(true, Ordering::SeqCst);
        })
    }
}

/// The process may end after it.
#[test]
fn the_drop_of_the_last_handle_waits_for_all_nodes() {
    let drained = Arc::new(AtomicBool::new(false));
    let renewer = SlowMinority(drained.clone());
    let watchdog = Watchdog::start(Clock::system(), renewer, LAST_WAIT).expect("a thread");
    let lease = Lease::new(7, MAX_WAIT);
    watchdog.watch(&lease, Clock::system().now());
    watchdog.release(lease);
    drop(watchdog);
    assert!(drained.load(Ordering::SeqCst));
}

#[tokio::test]
async fn flush_waits_for_the_releases() {
    let (watchdog, _, seen) = watchdog(Answer::Renewed);
    for id in 0..50 {
        let lease = Lease::new(id, MAX_WAIT);
        watchdog.watch(&lease, Clock::system().now());
        watchdog.release(lease);
    }
    watchdog.flush().await;
    let released = seen.try_iter().filter(|e| matches!(e, Event::Released(_))).count();
    assert_eq!(released, 50);
    assert!(watchdog.is_empty());
}
