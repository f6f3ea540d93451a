//! Grants leases on a cluster of etcd.

use std::time::Duration;

use futures::future::join_all;
use quorumlock_core::Lessor;
use quorumlock_protocol::{
    Acquired, BoxFuture, Claim, Error, HeldInterval, Hints, Holder, Lane, LeaseRequest, Name,
    NodeProblem, NodeReport, Precedence, ReleaseOutcome, WaitQueue,
};
use quorumlock_watchdog::Renewal;
use serde_json::json;
use tokio::task::JoinHandle;

use super::client::{Client, decoded, number};
use super::lease::{Attempt, ask, first_held, no_vote, release, renew};
use super::watches::Watches;

/// Locks, and sets of locks, as keys of etcd. A reader of a read-write lock excludes other readers.
pub(super) struct EtcdLessor {
    client: Client,
    watches: Watches,
    max_clock_drift: f64,
}

impl EtcdLessor {
    pub(super) fn new(client: Client, max_clock_drift: f64) -> Self {
        let watches = Watches(client.clone());
        Self { client, watches, max_clock_drift }
    }

    /// Runs work of requests about `name` on the client's runtime. Dropping the future aborts it.
    fn run<T: Send + 'static>(
        &self,
        name: Name,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> BoxFuture<Result<T, Error>> {
        let mut running = AbortOnDrop(self.client.spawn(work));
        let client = self.client.clone();
        Box::pin(async move {
            let ended = |_| {
                let ended = NodeReport::new("etcd", NodeProblem::RuntimeEnded);
                no_vote(&client, name, vec![ended])
            };
            (&mut running.0).await.map_err(ended)?
        })
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Lessor for EtcdLessor {
    /// One: the cluster answers as one.
    fn nodes(&self) -> usize {
        1
    }

    fn acquire(
        &self,
        lease: LeaseRequest,
        fencing: bool,
        hints: Hints,
    ) -> BoxFuture<Result<Acquired, Error>> {
        let (client, name) = (self.client.clone(), lease.claim.label());
        let (looks_first, max_clock_drift) = (hints.is_contended(), self.max_clock_drift);
        let yields = hints.enqueue().is_some_and(|place| place.precedence == Precedence::Yields);
        let waits = hints.enqueue().is_some();
        let attempt = Attempt { lease, fencing, yields, waits, looks_first, max_clock_drift };
        let made = self.run(name, async move { attempt.make(&client).await });
        Box::pin(async move {
            let (acquired, unused) = made.await?;
            unused.into_iter().for_each(|lease| lease.keep());
            Ok(acquired)
        })
    }

    fn renew(&self, leases: Vec<LeaseRequest>, lane: Lane) -> BoxFuture<Vec<Renewal>> {
        let (client, drift) = (self.client.clone(), self.max_clock_drift);
        // As of a single server: a late yes still extends the lease.
        let times = if lane == Lane::Watchdog { 4 } else { 1 };
        let (within, count) = (client.answer_timeout() * times, leases.len());
        let mut renewed = AbortOnDrop(self.client.spawn(async move {
            join_all(leases.iter().map(|lease| renew(&client, lease, within, drift))).await
        }));
        Box::pin(
            async move { (&mut renewed.0).await.unwrap_or_else(|_| vec![Renewal::Unknown; count]) },
        )
    }

    fn release(
        &self,
        lease: LeaseRequest,
        _: HeldInterval,
        _: Lane,
        _: Hints,
    ) -> BoxFuture<Result<ReleaseOutcome, Error>> {
        let (client, name) = (self.client.clone(), lease.claim.label());
        // Not aborted: a caller that does not wait has released the lock as well.
        let (told, answer) = tokio::sync::oneshot::channel();
        self.client.finish(async move {
            let _ = told.send(release(&client, &lease).await);
        });
        self.run(name, async move { answer.await.unwrap_or_else(|_| unreachable!("it is told")) })
    }

    fn inspect(&self, claim: Claim) -> BoxFuture<Result<Option<Holder>, Error>> {
        let (client, name) = (self.client.clone(), claim.label());
        self.run(name.clone(), async move {
            let end = client.clock().now() + client.answer_timeout();
            let Some(held) = first_held(&client, &claim, end).await? else { return Ok(None) };
            let lease = json!({ "ID": held["lease"] });
            let left = ask(&client, &name, "/v3/lease/timetolive", &lease, end).await?;
            let left = left.said.ok().and_then(|said| number(&said["TTL"]));
            Ok(Some(Holder::new(decoded(&held["value"]), left.map(Duration::from_secs), 1)))
        })
    }

    /// Ends the holder's lease, and with it all its names.
    fn force_release(&self, claim: Claim, of: Option<String>) -> BoxFuture<Result<bool, Error>> {
        let (client, name) = (self.client.clone(), claim.label());
        self.run(name.clone(), async move {
            let end = client.clock().now() + client.answer_timeout();
            let Some(held) = first_held(&client, &claim, end).await? else { return Ok(false) };
            if of.is_some_and(|of| of != decoded(&held["value"])) {
                return Ok(false);
            }
            let lease = json!({ "ID": held["lease"] });
            Ok(ask(&client, &name, "/v3/lease/revoke", &lease, end).await?.said.is_ok())
        })
    }

    fn home(&self, _: &Name) -> Option<usize> {
        Some(0)
    }

    fn drain(&self, _: Lane) -> BoxFuture<()> {
        let drained = self.client.spawn(self.client.clone().drain());
        Box::pin(async move { drop(drained.await) })
    }

    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        Some(&self.watches)
    }
}
