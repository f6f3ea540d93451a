use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quorumlock_protocol::{Hints, Lane, LossReason, Nonce, ReplySink};
use quorumlock_watchdog::{Clock, Renewal, Renewer};

use super::lease::Lease;
use super::local_queue::LocalQueues;
use super::telemetry::Telemetry;
use crate::Lessor;

/// Renews and releases leases for the watchdog, on the watchdog's own connections.
pub(super) struct LeaseRenewer {
    pub(super) lessor: Arc<dyn Lessor>,
    pub(super) local_queues: LocalQueues<Lease>,
    pub(super) clock: Clock,
    pub(super) takeover_delay: Duration,
    pub(super) telemetry: Arc<Telemetry>,
    /// All nonces of the locker end as this one does.
    pub(super) first_nonce: Arc<OnceLock<Nonce>>,
}

impl Renewer for LeaseRenewer {
    type Lease = Lease;

    fn renew(
        &self,
        batch: Vec<(Arc<Lease>, Duration)>,
    ) -> Pin<Box<dyn Future<Output = Vec<Renewal>> + Send>> {
        let requests = batch.iter().map(|(lease, ttl)| lease.request(*ttl)).collect();
        let leases: Vec<_> = batch.into_iter().map(|(lease, _)| lease).collect();
        leases.iter().for_each(|lease| self.telemetry.renewal_sent(lease));
        let telemetry = self.telemetry.clone();
        let renewing = self.lessor.renew(requests, Lane::Watchdog);
        Box::pin(async move { telemetry.renew(&leases, renewing).await })
    }

    fn lost(&self, lease: &Lease, loss: LossReason) {
        self.telemetry.hold_ended(lease, loss.into());
    }

    fn shard(&self, lease: &Lease) -> u64 {
        self.lessor.shard(lease.claim.name())
    }

    fn takeover_delay(&self) -> Duration {
        self.takeover_delay
    }

    fn hear_forced(&self, to: Arc<dyn ReplySink<Nonce>>) {
        // A locker that only takes up locks of other processes has no nonces.
        if let (Some(queue), Some(nonce)) = (self.lessor.wait_queue(), self.first_nonce.get()) {
            queue.hear_forced(*nonce, to);
        }
    }

    fn drain(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.lessor.drain(Lane::Watchdog)
    }

    fn run_background(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match self.lessor.admission() {
            Some(admission) => admission.run(),
            None => Box::pin(std::future::pending()),
        }
    }

    fn release(&self, lease: Arc<Lease>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (queues, clock) = (self.local_queues.clone(), self.clock.clone());
        let hints = Hints::contended(queues.is_contended(&lease.local_queue(), &clock));
        let request = lease.request(lease.state.timing().lease);
        let releasing = self.lessor.release(request, lease.held_interval(), Lane::Watchdog, hints);
        let telemetry = self.telemetry.clone();
        Box::pin(async move {
            match telemetry.release(&lease.claim, releasing).await {
                Ok(freed) => queues.released(&lease.local_queue(), freed.notified, &clock),
                Err(error) => {
                    tracing::debug!(name = %lease.claim, %error, "not released: its lease will end");
                }
            }
            lease.release_permit();
        })
    }
}
