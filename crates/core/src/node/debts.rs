use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use quorumlock_watchdog::Instant;

use crate::{Spot, Term};

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
    until: Instant,
}

/// Every queue has a bound; beyond it leases end by themselves.
const MOST: usize = 65_536;

impl Debts {
    pub(super) fn owe(&self, (term, spot): (Term, Option<Spot>), now: Instant) {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        if owed.len() == MOST {
            owed.retain(|debt| debt.until > now);
        }
        if owed.len() < MOST {
            let until = now + term.ttl;
            // It may have left by then.
            let spot = spot.filter(|spot| matches!(spot, Spot::Left(_)));
            owed.push(Debt { term, spot, until });
            self.any.store(true, Ordering::Release);
        }
    }

    /// All that is still owed at `now`.
    pub(super) fn collect(&self, now: Instant) -> Vec<(Term, Option<Spot>)> {
        if !self.any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let owed = std::mem::take(&mut *self.owed.lock().unwrap_or_else(PoisonError::into_inner));
        owed.into_iter()
            .filter(|debt| debt.until > now)
            // What is left: if this fails too, it is owed no longer than before.
            .map(|debt| (Term { ttl: debt.until.since(now), ..debt.term }, debt.spot))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Name, Nonce};
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
        debts.owe((term(5), None), clock.now());
        debts.owe((term(9), None), clock.now());
        clock.advance(Duration::from_secs(5));
        let collected = debts.collect(clock.now());
        assert_eq!(collected.len(), 1);
        assert_eq!(collected[0].0.nonce, Nonce::from_u128(9));
        assert_eq!(collected[0].0.ttl, Duration::from_secs(4));
        assert!(debts.collect(clock.now()).is_empty());
    }
}
