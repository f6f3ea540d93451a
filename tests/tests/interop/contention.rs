//! Many callers of both clients contend for one name, and the count under the lock is exact.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{join, join_all};
use quorumlock_tests::Plain;

use crate::client::{Caller, Reply};
use crate::redisson::beside_redisson;
use crate::testbed::{LONG_LEASE, Testbed};

beside_redisson! { four_threads_and_four_tasks_share_a_name, nothing_is_lost_through_faults }

const NAME: &str = "invoice/7";

/// The data under a lock: a number that is not incremented atomically.
#[derive(Default)]
pub(crate) struct Section {
    number: AtomicU64,
    occupied: AtomicBool,
    shares: RefCell<HashMap<String, u64>>,
}

/// The goal at which a crowd stops.
#[derive(Clone, Copy)]
pub(crate) struct Goal {
    /// The total count,
    pub(crate) total: u64,
    /// and the part of it that each caller must reach.
    pub(crate) each: u64,
    /// Of the callers whose names begin so, one must count, once.
    pub(crate) one_of: Option<&'static str>,
}

impl Section {
    /// Counts once for `who`, which holds the lock.
    async fn enter(&self, who: &str) {
        assert!(!self.occupied.swap(true, Ordering::SeqCst), "{who} is not alone");
        let number = self.number.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.number.store(number + 1, Ordering::SeqCst);
        assert!(self.occupied.swap(false, Ordering::SeqCst), "{who} was not alone");
        *self.shares.borrow_mut().entry(who.to_owned()).or_default() += 1;
    }

    fn number(&self) -> u64 {
        self.number.load(Ordering::SeqCst)
    }

    fn has_reached(&self, goal: Goal, callers: &[Caller<'_>]) -> bool {
        let shares = self.shares.borrow();
        let share = |who: &str| shares.get(who).copied().unwrap_or_default();
        let is_one_of = |who: &str| goal.one_of.is_some_and(|beginning| who.starts_with(beginning));
        let (some, each): (Vec<_>, Vec<_>) =
            callers.iter().map(|caller| caller.who()).partition(|who| is_one_of(who));
        self.number() >= goal.total
            && each.into_iter().all(|who| share(who) >= goal.each)
            && (some.is_empty() || some.into_iter().any(|who| share(who) > 0))
    }
}

/// Lets all callers lock, count and unlock until the goal is reached. Returns the count of each
/// caller, and the number of answers that were neither grants nor releases.
///
/// # Panics
/// If the count is not exact, or if a caller has not counted enough within [`LONGEST`].
pub(crate) async fn contend(callers: &[Caller<'_>], goal: Goal) -> (HashMap<String, u64>, u64) {
    let section = Section::default();
    let count = async |caller: Caller<'_>| {
        let mut errors = 0;
        while !section.has_reached(goal, callers) {
            match caller.lock().await.reply {
                Reply::Ok(_) => section.enter(caller.who()).await,
                _ => {
                    errors += 1;
                    continue;
                }
            }
            if !matches!(caller.unlock().await.reply, Reply::Ok(_)) {
                errors += 1;
            }
        }
        errors
    };
    let all = join_all(callers.iter().map(|caller| count(*caller)));
    let Ok(errors) = tokio::time::timeout(MAX_DURATION, all).await else {
        panic!("somebody starves: {:?}", section.shares.borrow());
    };
    let shares = section.shares.borrow().clone();
    assert_eq!(shares.values().sum::<u64>(), section.number());
    (shares, errors.iter().sum())
}

const MAX_DURATION: Duration = Duration::from_secs(180);

async fn four_threads_and_four_tasks_share_a_name(redisson: &str) {
    let Some(bed) = Testbed::start(redisson, "redisson", 1, LONG_LEASE).await else { return };
    let ((one, theirs), two) = tokio::join!(bed.both(), bed.ours());
    let callers = [
        theirs.caller("java-1", NAME),
        theirs.caller("java-2", NAME),
        theirs.caller("java-3", NAME),
        theirs.caller("java-4", NAME),
        one.caller("ours-1", NAME),
        one.caller("ours-2", NAME),
        two.caller("ours-3", NAME),
        two.caller("ours-4", NAME),
    ];
    let (shares, errors) = contend(&callers, Goal { total: 4_000, each: 20, one_of: None }).await;
    eprintln!("{redisson}: {shares:?}");
    assert_eq!(errors, 0);
}

async fn nothing_is_lost_through_faults(redisson: &str) {
    let Some(bed) = Testbed::start(redisson, "redisson", 1, Duration::from_secs(5)).await else {
        return;
    };
    let ((one, theirs), two) = tokio::join!(bed.both(), bed.ours());
    let callers = [
        theirs.caller("java-1", NAME),
        theirs.caller("java-2", NAME),
        one.caller("ours-1", NAME),
        one.caller("ours-2", NAME),
        two.caller("ours-3", NAME),
        two.caller("ours-4", NAME),
    ];
    let injected = Cell::new(0);
    let done = Cell::new(false);
    let counted = async {
        // A waiter of Redisson that misses a notification asks again only when the lease that it saw
        // has ended, and then competes with callers that take the lock again at once. Which of its
        // threads gets the lock is Redisson's affair: one of them starves the other for minutes.
        let goal = Goal { total: 2_000, each: 20, one_of: Some("java") };
        let mut rounds = Vec::new();
        while injected.get() < FAULTS {
            rounds.push(contend(&callers, goal).await);
        }
        done.set(true);
        rounds
    };
    let (rounds, ()) = join(counted, faults(&bed.plain, &injected, &done)).await;
    eprintln!("{redisson}: {rounds:?}, {} faults", injected.get());
}

/// At least so many faults are injected.
const FAULTS: u64 = 10;

/// Injects faults into a server, one after the other, until `done`, and counts them.
async fn faults(plain: &Plain, injected: &Cell<u64>, done: &Cell<bool>) {
    let faults: [&[&str]; 4] = [
        &["SCRIPT", "FLUSH"],
        &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
        &["CLIENT", "KILL", "TYPE", "pubsub"],
        &["CLIENT", "PAUSE", "200", "ALL"],
    ];
    for fault in faults.iter().cycle() {
        if done.get() {
            break;
        }
        tokio::time::sleep(EVERY).await;
        plain.ask::<redis::Value>(fault).await;
        injected.set(injected.get() + 1);
    }
}

/// The pause between faults. Redisson reconnects and subscribes again within a part of it.
const EVERY: Duration = Duration::from_millis(250);
