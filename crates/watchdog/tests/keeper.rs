//! The watchdog's thread, with a renewer that says what the test wants.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock_watchdog::schedule::Terms;
use quorumlock_watchdog::{Clock, Keeper, Leased, Loss, Renewal, Renewer, Standing};

#[derive(Debug)]
struct Lease {
    id: u64,
    clock: Clock,
    standing: Standing,
}

impl Lease {
    fn new(id: u64, lease: Duration) -> Arc<Self> {
        let clock = Clock::system();
        let until = clock.now() + lease;
        let terms = Terms { lease, until, hold_until: None };
        let standing = Standing::new(clock.clone(), terms);
        Arc::new(Self { id, clock, standing })
    }
}

impl Leased for Lease {
    fn id(&self) -> u64 {
        self.id
    }
    fn standing(&self) -> &Standing {
        &self.standing
    }
}

#[derive(Debug, PartialEq)]
enum Event {
    Renewed(Vec<u64>),
    Released(u64),
    /// The renewer itself is gone, and so the thread.
    Ended,
}

struct Says {
    answer: Arc<Mutex<Answer>>,
    events: Sender<Event>,
}

#[derive(Clone, Copy)]
enum Answer {
    Renewed,
    Gone,
    Unknown,
}

impl Drop for Says {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Ended);
    }
}

impl Renewer for Says {
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

    fn release(&self, lease: Arc<Lease>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let events = self.events.clone();
        Box::pin(async move {
            let _ = events.send(Event::Released(lease.id));
        })
    }
}

fn keeper(answer: Answer) -> (Keeper<Says>, Arc<Mutex<Answer>>, Receiver<Event>) {
    let (events, seen) = channel();
    let answer = Arc::new(Mutex::new(answer));
    let keeper =
        Keeper::start(Clock::system(), Says { answer: answer.clone(), events }).expect("a thread");
    (keeper, answer, seen)
}

/// Generous: these tests wait for events, not for times.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn leases_are_renewed_together_and_stand_longer_than_one_lease() {
    let (keeper, _, seen) = keeper(Answer::Renewed);
    let lease = Duration::from_millis(300);
    let (a, b) = (Lease::new(1, lease), Lease::new(2, lease));
    keeper.keep(&a, Clock::system().now());
    keeper.keep(&b, Clock::system().now());
    let mut renewed = 0;
    while renewed < 10 {
        match seen.recv_timeout(SOON).expect("a renewal") {
            Event::Renewed(ids) => renewed += ids.len(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((a.standing.check(), b.standing.check()), (Ok(()), Ok(())));
    assert_eq!(keeper.len(), 2);
}

/// SAFETY.md H26.
#[test]
fn gone_is_told_at_once_and_cleaned_up_when_its_holder_has_heard() {
    let (keeper, answer, seen) = keeper(Answer::Gone);
    let lease = Lease::new(1, SOON);
    keeper.keep(&lease, Clock::system().now());
    assert_eq!(keeper.end(&lease, Loss::Gone), Loss::Gone);
    assert_eq!(lease.standing.check(), Err(Loss::Gone));
    // The keeper has turned to another lease since: it did what was due before that.
    *answer.lock().unwrap() = Answer::Unknown;
    keeper.keep(&Lease::new(2, Duration::from_millis(60)), Clock::system().now());
    while match seen.recv_timeout(SOON).expect("the end of the other") {
        Event::Released(1) => panic!("released under its holder"),
        Event::Released(id) => id != 2,
        Event::Renewed(ids) => !ids.contains(&1) || panic!("a lost lease was renewed"),
        Event::Ended => panic!("the keeper has ended"),
    } {}
    keeper.release(lease.clone());
    assert_eq!(seen.recv_timeout(SOON), Ok(Event::Released(1)));
    keeper.release(lease.clone());
    assert!(!keeper.forget(&lease), "given up already");
    drop(keeper);
    assert_eq!(seen.recv_timeout(SOON), Ok(Event::Ended), "and nothing was released twice");
}

/// SAFETY.md H26.
#[test]
fn a_holder_who_does_not_hear_keeps_the_nodes_until_the_window_that_he_was_told_shuts() {
    let (keeper, _, seen) = keeper(Answer::Gone);
    let lease = Lease::new(1, Duration::from_millis(300));
    let told = lease.standing.until();
    keeper.keep(&lease, Clock::system().now());
    assert_eq!(seen.recv_timeout(SOON), Ok(Event::Renewed(vec![1])));
    assert_eq!(seen.recv_timeout(SOON), Ok(Event::Released(1)), "and it was asked for no more");
    assert!(lease.clock.now() >= told);
    assert_eq!(lease.standing.check(), Err(Loss::Gone), "the first reason stays");
    assert!(keeper.is_empty());
}

#[test]
fn unknown_is_tried_again_until_the_window_shuts() {
    let (keeper, answer, seen) = keeper(Answer::Unknown);
    let lease = Lease::new(1, Duration::from_secs(2));
    keeper.keep(&lease, Clock::system().now());
    for _ in 0..3 {
        assert_eq!(seen.recv_timeout(SOON), Ok(Event::Renewed(vec![1])));
        assert_eq!(lease.standing.check(), Ok(()), "unknown is not lost");
    }
    *answer.lock().unwrap() = Answer::Renewed;
    seen.recv_timeout(SOON).expect("one more try");
    let healed = Lease::new(2, Duration::from_millis(120));
    *answer.lock().unwrap() = Answer::Unknown;
    keeper.keep(&healed, Clock::system().now());
    while seen.recv_timeout(SOON).expect("an end") != Event::Released(2) {}
    assert_eq!(healed.standing.check(), Err(Loss::WindowShut));
}

#[test]
fn the_thread_ends_with_the_last_handle_after_all_releases() {
    let (keeper, _, seen) = keeper(Answer::Renewed);
    let lease = Lease::new(7, SOON);
    keeper.keep(&lease, Clock::system().now());
    keeper.release(lease);
    drop(keeper);
    assert_eq!(seen.recv_timeout(SOON), Ok(Event::Released(7)));
    assert_eq!(seen.recv_timeout(SOON), Ok(Event::Ended));
}

#[tokio::test]
async fn flush_waits_for_the_releases() {
    let (keeper, _, seen) = keeper(Answer::Renewed);
    for id in 0..50 {
        let lease = Lease::new(id, SOON);
        keeper.keep(&lease, Clock::system().now());
        keeper.release(lease);
    }
    keeper.flush().await;
    let released = seen.try_iter().filter(|e| matches!(e, Event::Released(_))).count();
    assert_eq!(released, 50);
    assert!(keeper.is_empty());
}
