//! One call of `lock` or `try_lock` on its way to a guard.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use quorumlock_watchdog::{Instant, Renewal};

use super::bump::Bumped;
use super::guard::Guard;
use super::lease::Lease;
use super::locker::Inner;
use super::owners::Place;
use super::search::{Heard, Search};
use super::turns::{Next, Wants};
use crate::{Busy, ConfigError, Error, Lane, Loss, Name, NodeProblem, Offer, Settings, Term};

/// What is to be locked, and how.
pub(super) struct Wanted {
    pub(super) name: Name,
    pub(super) lease: Duration,
    /// The lease if the caller gave it; else it is the locker's.
    pub(super) explicit_lease: Option<Duration>,
    pub(super) hold_at_most: Option<Duration>,
}

/// One call of `lock` or `try_lock` on its way.
pub(super) struct Quest {
    pub(super) inner: Arc<Inner>,
    pub(super) wanted: Wanted,
    pub(super) deadline: Option<Instant>,
    /// A single look.
    pub(super) once: bool,
    /// Ends with the first attempt that too few nodes answer.
    pub(super) fail_fast: bool,
}

impl Quest {
    /// One task of an owner acquires at a time; the others then share what it got.
    pub(super) async fn enter(&self, place: Place) -> Result<Guard, Error> {
        let held = place.held();
        let mut held = self.in_time(held.lock()).await?;
        if let Some(lease) = held.upgrade()
            && let Some(guard) = self.re_enter(lease).await?
        {
            return Ok(guard);
        }
        let guard = self.seek(Some(place), None).await?;
        *held = Arc::downgrade(guard.lease());
        Ok(guard)
    }

    async fn re_enter(&self, lease: Arc<Lease>) -> Result<Option<Guard>, Error> {
        if lease.join().is_none() {
            return Ok(None);
        }
        let guard = Guard::new(self.inner.clone(), lease.clone());
        // Never a silent re-acquire: the outer hold's work is already unprotected.
        lease.check()?;
        self.wanted.fits(&lease)?;
        guard.publish_holds().await?;
        Ok(Some(guard))
    }

    /// Takes its turn in this process, then asks the nodes until they grant or it has waited for long enough; or
    /// takes over from a holder in this process. Or goes on from where a release of its own has put it.
    pub(super) async fn seek(
        &self,
        place: Option<Place>,
        bumped: Option<Box<Bumped>>,
    ) -> Result<Guard, Error> {
        let (turn, stood) = match bumped {
            Some(bumped) => (bumped.turn, Some((bumped.asked, bumped.queues))),
            None => match self.turn().await? {
                Next::Turn(turn) => (turn, None),
                Next::Guard(guard) => {
                    guard.lease().settle(place);
                    return Ok(guard);
                }
            },
        };
        let (mut search, mut stands) = match stood {
            Some((asked, queues)) => (Search::begin(self, turn, asked, Some(queues)), true),
            // By all clocks: a pause before this is none of the lease's, which may count from an early instant.
            None => (Search::begin(self, turn, self.inner.clock.now(), None), false),
        };
        if !self.once && !stands {
            search.lets_others_go_first().await;
        }
        loop {
            let heard = if std::mem::take(&mut stands) {
                if self.is_late() {
                    // Leaves the queue, and asks once: a free lock is taken without a wait.
                    search.queues = None;
                    continue;
                }
                Ok(Heard::Busy { remaining: None, kept_out: true })
            } else {
                search.ask().await
            };
            match heard {
                Ok(Heard::Granted(granted)) => return Ok(search.granted(granted, place)),
                Ok(Heard::Again) => {}
                Ok(Heard::Busy { remaining, kept_out }) => {
                    if self.once && !kept_out && search.is_split().await? {
                        continue;
                    }
                    if self.once || self.is_late() {
                        return Err(self.busy(remaining));
                    }
                    search.denied(remaining, kept_out).await;
                }
                // On the heap, as all that only contenders need: a future should be small.
                Err(error) => Box::pin(search.rides_out(error)).await?,
            }
            if let Some(granted) = search.heir() {
                return Ok(search.granted(granted, place));
            }
        }
    }

    /// What is asked of the nodes: fresh at every attempt, so that replies of two never mix.
    pub(super) fn term(&self) -> Result<Term, Error> {
        let nonce = self.inner.chance.nonce()?;
        Ok(Term { name: self.wanted.name.clone(), nonce, ttl: self.wanted.ttl(), holds: 1 })
    }

    /// On what terms the name may be handed over to us, where it is; and the bound on the node's clock rate.
    pub(super) fn offer(&self) -> Option<(Offer, f64)> {
        let Settings { fencing, rho, .. } = self.inner.settings;
        let offer = || Offer::of(self.wanted.ttl(), fencing);
        self.inner.lessor.hands_over().then(|| (offer(), rho))
    }

    /// Waits for its turn in this process, or for a holder who hands over.
    async fn turn(&self) -> Result<Next, Error> {
        let turns = &self.inner.turns;
        loop {
            let next = match turns.take(&self.wanted.name) {
                Some(turn) => Next::Turn(turn),
                None if self.once => return Err(self.busy(None)),
                None => {
                    let waiting = turns.wait(&self.wanted.name, self.wanted.wants());
                    Box::pin(self.in_time(waiting)).await?
                }
            };
            let Next::Guard(guard) = next else { return Ok(next) };
            if guard.check().is_ok() {
                return Ok(Next::Guard(guard));
            }
            // Lost on its way to us, who never held it. The turn came with it, unless the keeper
            // has passed it on: then there is a queue to stand in again.
            if let Some(turn) = guard.lease().take_turn() {
                return Ok(Next::Turn(turn));
            }
        }
    }

    pub(super) fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.since(self.inner.clock.now()))
    }

    pub(super) fn is_late(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    async fn in_time<T>(&self, waiting: impl Future<Output = T>) -> Result<T, Error> {
        match self.left() {
            None if self.once => {
                tokio::select! {
                    biased;
                    out = waiting => Ok(out),
                    () = std::future::ready(()) => Err(self.busy(None)),
                }
            }
            None => Ok(waiting.await),
            Some(left) => tokio::time::timeout(left, waiting).await.map_err(|_| {
                // Whoever is on the wire for it may wait for the nodes, and not for a holder.
                let trouble = self.inner.turns.trouble(&self.wanted.name);
                trouble.unwrap_or_else(|| self.busy(None))
            }),
        }
    }

    /// Whether it is worth asking again after `error`. New nodes are admitted after the longest lease: a call with a
    /// limit of its own waits for that.
    pub(super) fn heals(&self, error: &Error) -> bool {
        let needs_new = match error {
            Error::Refused(none) | Error::Unreachable(none) => {
                let new = none.nodes.iter().filter(|node| node.problem == NodeProblem::New);
                new.count() > none.of.saturating_sub(none.needed)
            }
            _ => false,
        };
        error.is_retryable() && (self.deadline.is_some() || !needs_new)
    }

    pub(super) fn busy(&self, remaining: Option<Duration>) -> Error {
        Busy::new(self.wanted.name.clone(), remaining).into()
    }
}

impl Wanted {
    fn wants(&self) -> Wants {
        Wants { ttl: self.ttl(), hold_at_most: self.hold_at_most }
    }

    /// Whether the caller may enter `outer`: it asks for what that is, or for nothing.
    fn fits(&self, outer: &Lease) -> Result<(), ConfigError> {
        let held = outer.standing.terms().lease;
        // A hold that is shorter than its lease asks the nodes for no more than itself.
        let would_be = |lease: Duration| outer.hold_at_most.map_or(lease, |limit| limit.min(lease));
        let (what, asked, held) = match (self.explicit_lease, self.hold_at_most) {
            (Some(lease), _) if would_be(lease) != held => ("lease", lease, Some(held)),
            (_, Some(limit)) if outer.hold_at_most != Some(limit) => {
                ("hold_at_most", limit, outer.hold_at_most)
            }
            _ => return Ok(()),
        };
        Err(ConfigError::ReEntryDiffers { name: self.name.clone(), what, asked, held })
    }

    pub(super) fn ttl(&self) -> Duration {
        self.hold_at_most.map_or(self.lease, |limit| limit.min(self.lease))
    }
}

impl Guard {
    /// Tells the nodes how many guards share the lease: an absolute count.
    pub(super) async fn publish_holds(&self) -> Result<(), Error> {
        let lease = self.lease();
        let inner = self.inner();
        let term = lease.term(lease.ttl(inner.clock.now()));
        match inner.lessor.renew(vec![term], Lane::Work).await.first() {
            Some(Renewal::Until(until)) => {
                inner.keeper.renewed(lease, *until).map_err(|why| lease.lost(why))?;
            }
            Some(Renewal::Gone) => {
                let why = inner.keeper.end(lease, Loss::Gone);
                return Err(lease.lost(why).into());
            }
            // Not heard: the watchdog's next renewal carries the count.
            Some(Renewal::Unknown) | None => {}
        }
        Ok(())
    }
}
