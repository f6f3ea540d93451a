//! The holds of one name as operations, and what the checker says of them.
//!
//! To acquire takes from the request to the moment at which the holder learns of the grant. To
//! release takes no time: the holder ceases to believe. So the lock must be free when the next
//! client is granted it, by whatever the servers did.

use std::collections::BTreeMap;

use quorumlock_lab::history::{SLOT, TOGETHER};
use quorumlock_lab::record::Attempt;
use stateright::semantics::{ConsistencyTester as _, LinearizabilityTester};

use crate::lock::{Lock, Op, Ret};

/// One hold of one name. Times have one clock, whatever its unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) reads: bool,
    pub(crate) token: Option<u64>,
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    pub(crate) until: u64,
}

/// The holds of one name, and how many may have it at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfName {
    pub(crate) places: usize,
    pub(crate) holds: Vec<Hold>,
}

/// What the checker says of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// It is a history of a lock.
    pub(crate) excludes: bool,
    /// It is a history of a lock whose tokens rise.
    pub(crate) fences: bool,
}

/// The checker tries orders of operations, which takes the longer the more there are: a history is
/// cut where nobody believes.
const WINDOW: usize = 8;

/// The holds of each name in the rows of `attempts.csv`. Holders that never believed are left out.
pub(crate) fn by_name(attempts: &[Attempt]) -> BTreeMap<String, OfName> {
    let mut names = BTreeMap::<String, OfName>::new();
    for attempt in attempts {
        let (Some(granted), Some(until)) = (attempt.granted_ns, attempt.believed_until_ns) else {
            continue;
        };
        let Attempt { reads, token, asked_ns: asked, .. } = *attempt;
        for name in attempt.name.split(TOGETHER) {
            let of = names.entry(name.to_owned()).or_default();
            of.places = if name.contains(SLOT) { 1 } else { attempt.permits as usize };
            of.holds.push(Hold { reads, token, asked, granted, until });
        }
    }
    for of in names.values_mut() {
        of.holds.retain(|hold| hold.granted < hold.until);
    }
    names
}

/// What the checker says of all names of a history.
pub(crate) fn verdict<'a>(names: impl Iterator<Item = &'a OfName>) -> Verdict {
    let mut verdict = Verdict { excludes: true, fences: true };
    for of in names {
        // A history that no lock explains, no lock with tokens explains either.
        verdict.excludes &= linearizable(of, false);
        verdict.fences &= verdict.excludes && linearizable(of, true);
    }
    verdict
}

/// Whether the holds are those of a lock; `fenced`: of one whose tokens rise.
fn linearizable(of: &OfName, fenced: bool) -> bool {
    let (mut token, mut since) = (0, 0);
    windows(&of.holds).into_iter().all(|window| {
        let fits = history(&window, since, Lock::new(of.places, fenced, token)).is_consistent();
        let tokens = window.iter().filter_map(|hold| hold.token);
        token = tokens.fold(token, u64::max);
        since = window.iter().map(|hold| hold.until).fold(since, u64::max);
        fits
    })
}

/// The holds in the order of their grants, cut where nobody believes and all tokens before are below
/// those after: readers that wait at a cut may have been granted in another order.
fn windows(holds: &[Hold]) -> Vec<Vec<Hold>> {
    let mut holds = holds.to_vec();
    holds.sort_by_key(|hold| (hold.granted, hold.until));
    let shared = holds.iter().any(|hold| hold.reads);
    let mut least_after = vec![u64::MAX; holds.len() + 1];
    for (place, hold) in holds.iter().enumerate().rev() {
        least_after[place] = least_after[place + 1].min(hold.token.unwrap_or(u64::MAX));
    }
    let (mut windows, mut window) = (Vec::new(), Vec::<Hold>::new());
    let (mut until, mut largest) = (0, 0);
    for (place, hold) in holds.into_iter().enumerate() {
        let apart = hold.granted >= until && (!shared || largest < least_after[place]);
        if apart && window.len() >= WINDOW {
            windows.push(std::mem::take(&mut window));
        }
        until = until.max(hold.until);
        largest = largest.max(hold.token.unwrap_or_default());
        window.push(hold);
    }
    windows.push(window);
    windows
}

/// The operations in the order of time. At one instant, holds end before others begin.
fn history(window: &[Hold], since: u64, lock: Lock) -> LinearizabilityTester<usize, Lock> {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Moment {
        Asked,
        Ended,
        Granted,
    }
    let mut moments = Vec::new();
    for (number, hold) in window.iter().enumerate() {
        moments.push((hold.asked.max(since).min(hold.granted), Moment::Asked, number));
        moments.push((hold.granted, Moment::Granted, number));
        moments.push((hold.until, Moment::Ended, number));
    }
    moments.sort_unstable();
    let mut tester = LinearizabilityTester::new(lock);
    // As few threads as there are operations at the same time: the checker's work grows with them.
    let (mut idle, mut threads) = (Vec::new(), BTreeMap::new());
    for (_, moment, hold) in moments {
        let reads = window[hold].reads;
        let told = match moment {
            Moment::Asked => {
                let thread = idle.pop().unwrap_or(threads.len());
                threads.insert(hold, thread);
                tester.on_invoke(thread, Op::Acquire { hold, reads })
            }
            Moment::Granted => tester.on_return(threads[&hold], Ret::Granted(window[hold].token)),
            Moment::Ended => {
                let thread = threads.get(&hold).copied().unwrap_or_default();
                idle.push(thread);
                tester.on_invret(thread, Op::Release { hold }, Ret::Released)
            }
        };
        told.expect("one operation of a thread at a time");
    }
    tester
}

#[test]
fn planted_histories_are_told_apart() {
    let hold = |asked, granted, until, token| Hold {
        reads: false,
        token: Some(token),
        asked,
        granted,
        until,
    };
    let of = |places, holds: &[Hold]| {
        let of = OfName { places, holds: holds.to_vec() };
        let Verdict { excludes, fences } = verdict(std::iter::once(&of));
        (excludes, fences)
    };
    let (a, b, c) = (hold(0, 1, 5, 7), hold(0, 5, 8, 8), hold(2, 9, 12, 9));
    assert_eq!(of(1, &[a, b, c]), (true, true));
    assert_eq!(of(1, &[a, Hold { granted: 4, ..b }, c]), (false, false), "two believe");
    assert_eq!(of(1, &[a, b, Hold { token: Some(7), ..c }]), (true, false), "a token twice");
    assert_eq!(of(1, &[a, b, Hold { token: Some(3), ..c }]), (true, false), "a token falls");
    assert_eq!(of(2, &[a, Hold { granted: 4, ..b }, c]), (true, true), "two permits");
    let reads = |hold| Hold { reads: true, ..hold };
    assert_eq!(of(1, &[reads(a), reads(hold(0, 4, 8, 6))]), (true, true), "readers, in any order");
    assert_eq!(of(1, &[reads(a), reads(hold(2, 4, 8, 6))]), (true, false), "it asked later");
    assert_eq!(of(1, &[reads(a), hold(0, 4, 8, 8)]), (false, false), "a writer beside a reader");
}
