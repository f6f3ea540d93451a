use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quorumlock_protocol::telemetry::HoldEnd;
use quorumlock_protocol::{
    Claim, ConfigError, Error, Instant, LeaseTiming, LossReason, Nonce, Owner, Settings,
};
use quorumlock_watchdog::{Clock, Watchdog, runtime};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::environment::Environment;
use super::lease::Lease;
use super::lease_renewer::LeaseRenewer;
use super::local_queue::{LocalHandoff, LocalQueues};
use super::owner_table::OwnerTable;
use super::telemetry::Telemetry;
use crate::{Entropy, Lessor};

/// What a locker, its requests and its guards share.
pub(super) struct Inner {
    pub(super) lessor: Arc<dyn Lessor>,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) entropy: Entropy,
    first_nonce: Arc<OnceLock<Nonce>>,
    pub(super) watchdog: Watchdog<LeaseRenewer>,
    pub(super) local_queues: LocalQueues<Lease>,
    pub(super) owners: OwnerTable,
    pub(super) telemetry: Arc<Telemetry>,
    /// True once the locker is closed. Each call that may still be granted a lock holds a receiver.
    pub(super) calls: watch::Sender<bool>,
}

impl Inner {
    pub(super) fn new(
        lessor: Arc<dyn Lessor>,
        settings: Settings,
        environment: Environment,
    ) -> Result<Self, ConfigError> {
        settings.check()?;
        let Environment { clock, entropy, watchdog_on_this_runtime } = environment;
        let queues = LocalQueues::default();
        let telemetry = Arc::new(Telemetry::new(&settings, clock.clone(), lessor.clone()));
        let first_nonce = Arc::new(OnceLock::new());
        let renewer = LeaseRenewer {
            lessor: lessor.clone(),
            local_queues: queues.clone(),
            clock: clock.clone(),
            takeover_delay: settings.takeover_delay,
            telemetry: telemetry.clone(),
            first_nonce: first_nonce.clone(),
        };
        let watchdog = if watchdog_on_this_runtime {
            let runtime = Handle::try_current().map_err(|_| ConfigError::NoRuntime)?;
            let (watchdog, work) = Watchdog::new(clock.clone(), renewer);
            runtime.spawn(work);
            watchdog
        } else {
            Watchdog::start(clock.clone(), renewer, settings.answer_timeout).map_err(|e| {
                ConfigError::System { what: "a thread for the watchdog", why: e.to_string() }
            })?
        };
        Ok(Self {
            lessor,
            settings,
            clock,
            entropy,
            first_nonce,
            watchdog,
            local_queues: queues,
            owners: OwnerTable::default(),
            telemetry,
            calls: watch::Sender::new(false),
        })
    }

    /// A fresh nonce of this locker.
    pub(super) fn nonce(&self) -> Result<Nonce, ConfigError> {
        let nonce = self.entropy.nonce()?;
        Ok(nonce.of_locker(*self.first_nonce.get_or_init(|| nonce)))
    }

    /// Wall-clock time since 1970. It decides no lease.
    pub(super) fn wall_time(&self) -> Duration {
        Duration::from_micros(self.clock.wall_micros())
    }

    /// Fails if the locker is closed, or as [`Inner::ensure_here`].
    pub(super) fn ensure_open(&self) -> Result<(), Error> {
        if *self.calls.borrow() {
            return Err(Error::Closed);
        }
        Ok(self.ensure_here()?)
    }

    /// Fails outside a runtime with timers, and in a fork of the process that made the locker.
    pub(super) fn ensure_here(&self) -> Result<(), ConfigError> {
        self.watchdog.check_process()?;
        runtime::timed()?;
        Ok(())
    }

    /// Fails if `owner` holds another claim that excludes this one: it would wait for itself
    /// (SAFETY.md G8, PROTOCOL.md RW4). While its other tasks still acquire, the owner holds nothing.
    pub(super) fn refuse_self_wait(&self, owner: &Owner, claim: &Claim) -> Result<(), ConfigError> {
        let Some(held) = self.owners.held_against(owner, claim) else { return Ok(()) };
        let name = claim.to_string();
        if claim.is_read_write() {
            return Err(match claim.reads() {
                true => ConfigError::ReadWhileWriting { name },
                false => ConfigError::Upgrade { name },
            });
        }
        let common = claim.common_names(&held).map(ToString::to_string).collect();
        Err(ConfigError::OwnerOverlap { name, held: held.to_string(), common })
    }

    /// Hands a lease that no guard holds any more off to the next waiter of this process. False if
    /// the caller must release the lease on the nodes.
    pub(super) fn hand_off(&self, lease: &Lease, now: Instant) -> bool {
        let timing = lease.state.timing();
        // Other processes may have waited for longer.
        if self.settings.strict_order || !lease.can_hand_off(timing.until, now) {
            return false;
        }
        let Some((permit, next)) = lease.next_waiter(timing.lease) else { return false };
        let hold_at_most = next.hold_at_most;
        let hold_until = hold_at_most.map(|limit| now + limit);
        let successor = |until| {
            let timing = LeaseTiming { until, hold_until, ..timing };
            Arc::new(lease.successor(timing, hold_at_most, now, &self.clock))
        };
        let passed = self.watchdog.hand_off(lease, now, successor);
        let handed = passed.is_some();
        if let Some(successor) = &passed {
            self.telemetry.hold_ended(lease, HoldEnd::HandedOff);
            self.telemetry.hold_began(&successor.claim);
        }
        let refused = next.give(match passed {
            Some(successor) => {
                *successor.permit() = Some(permit);
                LocalHandoff::Lease(successor)
            }
            // The lease was lost meanwhile: the waiter receives the permit alone.
            None => LocalHandoff::Permit(permit),
        });
        if let Some(LocalHandoff::Lease(successor)) = refused {
            self.drop_guard(&successor);
        }
        handed
    }

    /// Removes a guard of the lease. The last one hands the lease off, or leaves its release to the
    /// watchdog. Never blocks. In a fork it does nothing: the lease is that of the parent.
    pub(super) fn drop_guard(&self, lease: &Arc<Lease>) {
        if self.watchdog.check_process().is_err() {
            return;
        }
        if lease.remove_guard() > 0 {
            // The watchdog's next renewal carries the lower count.
            return;
        }
        let now = self.clock.now();
        if !self.hand_off(lease, now) {
            // A lease whose window has shut is lost, also if nobody has noticed it.
            let _ = lease.check_at(now);
            self.telemetry.hold_ended(lease, lease.state.end(LossReason::Released).into());
            self.watchdog.release(lease.clone());
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locker")
            .field("nodes", &self.lessor.nodes())
            .field("watchdog", &self.watchdog)
            .finish_non_exhaustive()
    }
}
