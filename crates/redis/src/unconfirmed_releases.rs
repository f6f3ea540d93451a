use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use quorumlock_protocol::Instant;

use quorumlock_protocol::{
    Answer, LeaseRequest, QueueAction, ReleaseOutcome, Responder, Unconfirmed,
};

/// Releases that may not have arrived: sent again on the next connection, until the lease that they
/// would release has ended by itself (SAFETY.md G7).
#[derive(Debug, Default)]
pub(super) struct UnconfirmedReleases {
    releases: Mutex<Vec<UnconfirmedRelease>>,
    /// False if there are no releases: then the mutex is not locked, which is the usual case.
    any: AtomicBool,
}

#[derive(Debug)]
pub(super) struct UnconfirmedRelease {
    pub(super) lease: LeaseRequest,
    pub(super) queue_action: Option<QueueAction>,
    pub(super) unconfirmed: Unconfirmed,
    /// The caller that still waits for the answer, if there is one.
    pub(super) to: Responder<Answer<ReleaseOutcome>>,
    /// When the node ends the lease by itself, with what it adds to leases.
    pub(super) until: Instant,
}

/// Every queue has a bound. A release beyond it is not sent again: its lease ends by itself.
const MAX_RELEASES: usize = 65_536;

impl UnconfirmedReleases {
    pub(super) fn add(&self, release: UnconfirmedRelease, now: Instant) {
        let mut releases = self.releases.lock().unwrap_or_else(PoisonError::into_inner);
        if releases.len() == MAX_RELEASES {
            releases.retain(|release| release.until > now);
        }
        if releases.len() < MAX_RELEASES {
            // A repeat does not queue the client again: the node may have to notify another waiter.
            let leaves = |action: &QueueAction| matches!(action, QueueAction::Leave(_));
            let queue_action = release.queue_action.filter(leaves);
            releases.push(UnconfirmedRelease { queue_action, ..release });
            self.any.store(true, Ordering::Release);
        }
    }

    /// Whether there may be unconfirmed releases.
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Takes all releases, and returns those whose lease has not ended at `now`.
    pub(super) fn collect(&self, now: Instant) -> Vec<UnconfirmedRelease> {
        if !self.any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        let mut releases =
            std::mem::take(&mut *self.releases.lock().unwrap_or_else(PoisonError::into_inner));
        releases.retain(|release| release.until > now);
        releases
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use quorumlock_protocol::{HeldInterval, Name, Nonce};
    use quorumlock_watchdog::Clock;

    #[test]
    fn an_unconfirmed_release_is_collected_once_and_ends_with_its_lease() {
        let clock = Clock::manual();
        let releases = UnconfirmedReleases::default();
        let lease = |secs: u64| {
            let (name, nonce) = (Name::new("x").unwrap(), Nonce::from_u128(secs.into()));
            LeaseRequest::new(name, nonce, Duration::from_secs(secs))
        };
        let unconfirmed = Unconfirmed::new(HeldInterval::UNKNOWN);
        for secs in [5, 9] {
            let until = clock.now() + Duration::from_secs(secs);
            let (lease, to) = (lease(secs), Responder::nobody());
            let queue_action = None;
            let release = UnconfirmedRelease { lease, queue_action, unconfirmed, to, until };
            releases.add(release, clock.now());
        }
        clock.advance(Duration::from_secs(5));
        let collected = releases.collect(clock.now());
        let [release] = &collected[..] else { panic!("{collected:?}") };
        assert_eq!(release.lease.nonce, Nonce::from_u128(9));
        assert_eq!(release.until.since(clock.now()), Duration::from_secs(4));
        assert!(releases.collect(clock.now()).is_empty());
    }
}
