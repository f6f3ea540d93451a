use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorumlock_protocol::Instant;

/// The holds that were renewed, and so last: when each began, and whether it was told that it lasts long.
#[derive(Debug, Default)]
pub(super) struct LongHolds(Mutex<BTreeMap<HoldKey, bool>>);

/// When a hold began, and the id of its lease, which the next hold of the process may share.
pub(super) type HoldKey = (Instant, u64);

impl LongHolds {
    /// Notes that the hold goes on. True, once, if it has lasted for `limit` by now.
    pub(super) fn goes_on(&self, hold: HoldKey, now: Instant, limit: Option<Duration>) -> bool {
        let mut holds = self.holds();
        let told = holds.entry(hold).or_insert(false);
        let is_long = limit.is_some_and(|limit| now.since(hold.0) >= limit);
        is_long && !std::mem::replace(told, true)
    }

    /// Forgets a hold that has ended. True if it was told that it lasts long.
    pub(super) fn ended(&self, hold: HoldKey) -> bool {
        self.holds().remove(&hold).unwrap_or(false)
    }

    /// When the oldest one began.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.holds().keys().next().map(|(begun, _)| *begun)
    }

    fn holds(&self) -> MutexGuard<'_, BTreeMap<HoldKey, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_hold_is_told_once_and_the_oldest_is_known() {
        let (start, second) = (Instant::from_nanos(1), Duration::from_secs(1));
        let (first, next) = ((start, 1), (start + second, 1));
        let holds = LongHolds::default();
        assert!(!holds.goes_on(first, start + second, Some(second * 2)));
        assert!(holds.goes_on(first, start + second * 2, Some(second * 2)));
        assert!(!holds.goes_on(first, start + second * 3, Some(second * 2)));
        assert!(!holds.goes_on(next, start + second * 9, None));
        assert_eq!(holds.oldest(), Some(start));
        assert_eq!((holds.ended(first), holds.ended(first)), (true, false));
        assert_eq!((holds.oldest(), holds.ended(next)), (Some(start + second), false));
        assert_eq!(holds.oldest(), None);
    }
}
