//! One call of `lock` or `try_lock` on its way to a guard.

use std::future::Future;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use quorumlock_watchdog::schedule::Terms;
use quorumlock_watchdog::{Instant, Renewal, Standing};

use super::bump::Bumped;
use super::guard::Guard;
use super::handover::{self, Series};
use super::in_queues::InQueues;
use super::lease::Lease;
use super::locker::Inner;
use super::looks::{Denied, Looks, Standpoint};
use super::owners::Place;
use super::turns::{Next, Turn, Wants};
use super::wake::Wake;
use crate::ids::next_id;
use crate::{
    Acquired, Approach, Busy, Error, Grant, Lane, Loss, Name, NodeReport, Nonce, Offer, Settings,
    Term, Unreachable, Woke,
};

/// What is to be locked, and how.
pub(super) struct Wanted {
    pub(super) name: Name,
    pub(super) lease: Duration,
    pub(super) hold_at_most: Option<Duration>,
}

/// One call of `lock` or `try_lock` on its way.
pub(super) struct Quest {
    pub(super) inner: Arc<Inner>,
    pub(super) wanted: Wanted,
    pub(super) deadline: Option<Instant>,
    pub(super) once: bool,
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
        guard.publish_holds().await?;
        Ok(Some(guard))
    }

    /// Takes its turn in this process, then asks the nodes until they grant or time is up (too
    /// few answers end it: SAFETY.md G6); or takes over from a holder in this process. Or goes on from where a
    /// release of its own has put it.
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
        let (lessor, settings) = (&self.inner.lessor, &self.inner.settings);
        let terms = self.offer();
        let join = || InQueues::join(lessor, &self.wanted.name, terms);
        // Declared after the turn, so that the queues are left before the next of this process asks.
        let (begun, mut queues) = match stood {
            Some((asked, queues)) => (asked, Some(queues)),
            // By all clocks: a pause before this is none of the lease's, which may count from an early instant.
            None => (self.inner.clock.now(), None),
        };
        let mut stands = queues.is_some();
        let mut looks = Looks::begin(false);
        // Read before each attempt: what is counted from it may end early, never late.
        let mut asked = begun;
        match turn.others_first(begun) {
            _ if self.once || stands => {}
            Woke::Waiter => (queues, looks) = (Some(join()), Looks::begin(true)),
            Woke::Strangers => {
                // A courtesy, which may not cost the caller the attempt itself.
                let _ = Box::pin(self.in_time(tokio::time::sleep(HEAD_START))).await;
                asked = self.inner.clock.now();
            }
            Woke::Nobody => {}
        }
        let mut verified = 0;
        loop {
            let waited = asked.since(begun);
            let (remaining, kept_out) = if std::mem::take(&mut stands) {
                if self.is_late() {
                    // Leaves the queue, and asks once: a free lock is taken without a wait.
                    queues = None;
                    continue;
                }
                (None, true)
            } else {
                let Looks { gate_first, others_first, everywhere, .. } = looks;
                let term = self.term()?;
                let asks =
                    |queues: &mut InQueues| queues.ask((&term, asked), (waited, others_first));
                let in_line = queues.as_mut().map(asks);
                let waiting = turn.waiting();
                let tokens = handover::tokens(settings.fencing, waiting);
                let alone = in_line.is_none() && waiting == 0;
                let approach = Approach { asked, tokens, gate_first, everywhere, in_line, alone };
                match lessor.acquire(term.clone(), approach).await? {
                    Acquired::Yes(grant) => {
                        queues.as_mut().map(InQueues::served);
                        return Ok(self.granted(asked, term.nonce, (grant, tokens), turn, place));
                    }
                    Acquired::Busy(remaining) => (remaining, false),
                    Acquired::KeptOut(remaining) => (remaining, true),
                    // After a barrier, or a restart: the next round meets verified nodes. Or a counter moved: it
                    // is granted a larger number.
                    Acquired::Again if verified < MOST_VERIFICATIONS => {
                        verified += 1;
                        asked = self.inner.clock.now();
                        continue;
                    }
                    Acquired::Again => return Err(unverified()),
                }
            };
            if self.once || self.is_late() {
                return Err(self.busy(remaining));
            }
            // Listening wakes us once more, so that a release in between is not missed.
            let queues = queues.get_or_insert_with(join);
            turn.contended(self.inner.clock.now());
            looks.denied(Denied { asked, remaining, kept_out });
            // What is offered must not get too old.
            let lease = terms.map_or(self.wanted.lease, |(offer, _)| offer.claim);
            let place_at = Standpoint { lease, waited, nodes: lessor.nodes() };
            // On the heap, as all that only contenders need: a future should be small.
            Box::pin(self.pause(&queues.wake, &mut looks, (remaining, place_at))).await;
            asked = self.inner.clock.now();
            if let Some((nonce, grant)) = queues.heir(asked) {
                let tokens = terms.map_or(0, |(offer, _)| offer.tokens);
                return Ok(self.granted(asked, nonce, (grant, tokens), turn, place));
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
        // A whole block of tokens: when the name is handed over, others here may wait.
        let offer = || Offer::of(self.wanted.ttl(), handover::tokens(fencing, 1));
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

    /// Until somebody says that the lock may be free, or its lease has ended, or time is up: no
    /// message is relied upon (SAFETY.md H22).
    async fn pause(
        &self,
        wake: &Wake,
        looks: &mut Looks,
        (remaining, stands): (Option<Duration>, Standpoint),
    ) {
        let chance = &self.inner.chance;
        let in_time = |wait: Duration| self.left().map_or(wait, |left| left.min(wait));
        let longest = in_time(looks.longest(remaining, stands, chance.fraction()));
        looks.woken(tokio::time::timeout(longest, wake.woken()).await.ok());
        if let Some(spread) = looks.spread() {
            tokio::time::sleep(in_time(spread).mul_f64(chance.fraction())).await;
        }
    }

    fn granted(
        &self,
        now: Instant,
        nonce: Nonce,
        (grant, tokens): (Grant, u64),
        turn: Turn,
        place: Option<Place>,
    ) -> Guard {
        let inner = &self.inner;
        let terms = Terms {
            lease: self.wanted.ttl(),
            until: grant.until,
            hold_until: self.wanted.hold_at_most.map(|limit| now + limit),
        };
        let (series, fence) = Series::begin((now, grant.until), tokens, grant.fence);
        let lease = Arc::new(Lease {
            id: next_id(),
            name: self.wanted.name.clone(),
            nonce,
            fence,
            series,
            standing: Standing::new(inner.clock.clone(), terms),
            holds: AtomicU32::new(1),
            turn: Mutex::new(Some(turn)),
            place: OnceLock::new(),
        });
        lease.settle(place);
        inner.keeper.keep(&lease, now);
        Guard::new(inner.clone(), lease)
    }

    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.since(self.inner.clock.now()))
    }

    fn is_late(&self) -> bool {
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
            Some(left) => tokio::time::timeout(left, waiting).await.map_err(|_| self.busy(None)),
        }
    }

    fn busy(&self, remaining: Option<Duration>) -> Error {
        Busy::new(self.wanted.name.clone(), remaining).into()
    }
}

impl Wanted {
    fn wants(&self) -> Wants {
        Wants { ttl: self.ttl(), hold_at_most: self.hold_at_most }
    }

    fn ttl(&self) -> Duration {
        self.hold_at_most.map_or(self.lease, |limit| limit.min(self.lease))
    }
}

fn unverified() -> Error {
    let what = "had to be verified, or its fencing counter moved meanwhile, again and again";
    Unreachable::new(1, vec![NodeReport::new("a node", what)]).into()
}

/// Each takes one failed round; more in a row than nodes can be repaired at once is no chance.
const MOST_VERIFICATIONS: u32 = 8;
/// How long after our release programs that know of no queue may take the lock before we do.
const HEAD_START: Duration = Duration::from_millis(5);

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
