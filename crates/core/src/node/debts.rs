use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use quorumlock_watchdog::Instant;

use super::request::Request;
use crate::{Answer, Freed, ReplyTo, Spot, Term, Unconfirmed};

/// Releases that may not have arrived: asked again on the next connection, until the lease that
/// they would give back has ended by itself (SAFETY.md G7).
#[derive(Debug, Default)]
pub(super) struct Debts {
    owed: Mutex<Vec<Debt>>,
    /// Spares the common case the lock.
    any: AtomicBool,
}

#[derive(Debug)]
struct Debt {
    term: Term,
    spot: Option<Spot>,
    unconfirmed: Unconfirmed,
    /// Who still waits for the answer, if anybody does.
    to: ReplyTo<Answer<Freed>>,
    until: Instant,
}

/// Every queue has a bound; beyond it leases end by themselves.
const MOST: usize = 65_536;

impl Debts {
    pub(super) fn owe(
        &self,
        (term, spot, unconfirmed): (Term, Option<Spot>, Unconfirmed),
        to: ReplyTo<Answer<Freed>>,
        now: Instant,
    ) {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        if owed.len() == MOST {
            owed.retain(|debt| debt.until > now);
        }
        if owed.len() < MOST {
            let until = now + term.ttl;
            // A repeat stands nowhere, and looks for waiters everywhere: another may have to be
            // told.
            let spot = spot.filter(|spot| matches!(spot, Spot::Left(_)));
            owed.push(Debt { term, spot, unconfirmed, to, until });
            self.any.store(true, Ordering::Release);
        }
    }

    /// Whether anything may be owed.
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// All that is still owed at `now`.
    pub(super) fn collect(&self, now: Instant) -> Vec<Request> {
        if !self.any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let owed = std::mem::take(&mut *self.owed.lock().unwrap_or_else(PoisonError::into_inner));
        owed.into_iter()
            .filter(|debt| debt.until > now)
            // What is left: if this fails too, it is owed no longer than before.
            .map(|Debt { term, spot, unconfirmed, to, until }| {
                let term = Term { ttl: until.since(now), ..term };
                Request::Release { term, spot, unconfirmed, repeat: true, to }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Held, Name, Nonce};
    use quorumlock_watchdog::Clock;

    #[test]
    fn a_debt_is_collected_once_and_ends_with_its_lease() {
        let clock = Clock::manual();
        let debts = Debts::default();
        let term = |secs: u64| Term {
            name: Name::new("x").unwrap(),
            nonce: Nonce::from_u128(secs.into()),
            ttl: Duration::from_secs(secs),
            holds: 1,
        };
        let unconfirmed = Unconfirmed::new(Held::UNKNOWN);
        for secs in [5, 9] {
            debts.owe((term(secs), None, unconfirmed), ReplyTo::nobody(), clock.now());
        }
        clock.advance(Duration::from_secs(5));
        let collected = debts.collect(clock.now());
        let [Request::Release { term, repeat: true, .. }] = &collected[..] else {
            panic!("{collected:?}");
        };
        assert_eq!((term.nonce, term.ttl), (Nonce::from_u128(9), Duration::from_secs(4)));
        assert!(debts.collect(clock.now()).is_empty());
    }
}
