use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use foldhash::HashMap;
use quorumlock_protocol::waiting::TUNING;
use quorumlock_protocol::{Claim, Error, Instant, Notified, pick};
use quorumlock_watchdog::Clock;
use tokio::sync::oneshot;

/// One FIFO queue per claim: at most one call of this process contends for it on the nodes.
///
/// Permits have one queue, too: one call waits for them on the nodes. Beside it, one call for each slot
/// may ask for that slot, or hold it.
///
/// The permit belongs to the lease from the first request until its release is queued or confirmed,
/// so that waiters of one process never contend with each other on the nodes. `L` is the type of
/// a lease, which can pass from a holder to a waiter.
#[derive(Debug)]
pub(super) struct LocalQueues<L>(Arc<Mutex<Queues<L>>>);

#[derive(Debug)]
struct Queues<L> {
    /// An entry for every claim whose permit is taken. `None` if nobody has waited for it, which is
    /// the usual case.
    #[expect(clippy::box_collection, reason = "a table has many places, most of them for nobody")]
    waiting: HashMap<Claim, Option<Box<VecDeque<Waiter<L>>>>>,
    /// Of permits, the slots for which calls of this process ask, or which they hold.
    slots: HashMap<Claim, Vec<bool>>,
    tickets: u64,
    /// Whom the last release of a name by this process notified, and when.
    notified: HashMap<Claim, (Notified, Instant)>,
    /// When another process was last seen to contend for a name.
    contended: HashMap<Claim, Instant>,
    /// Names whose permit holder gets no majority's answer: since when, and the last error.
    troubled: HashMap<Claim, (Instant, Error)>,
}

/// A local waiter. Once it has left the queue, it must be given the permit or a lease.
#[derive(Debug)]
pub(super) struct Waiter<L> {
    ticket: u64,
    /// The lease that it would take over from a holder in this process: how long the nodes keep it
    /// without a renewal.
    ttl: Duration,
    pub(super) hold_at_most: Option<Duration>,
    /// What the nodes are to tell of it. They keep that of the holder who asked them.
    label: Option<Arc<str>>,
    next: oneshot::Sender<LocalHandoff<L>>,
}

/// What a local waiter receives.
#[derive(Debug)]
pub(super) enum LocalHandoff<L> {
    /// The permit to ask the nodes.
    Permit(LocalPermit<L>),
    /// The lock itself, handed off by the previous holder. The permit comes with it.
    Lease(Arc<L>),
}

/// The permit to contend for a name on the nodes. When it is dropped, it passes to the next local
/// waiter.
#[derive(Debug)]
pub(super) struct LocalPermit<L> {
    queues: LocalQueues<L>,
    claim: Claim,
    place: Place,
}

/// What a call may ask the nodes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// All of the claim. One call has it.
    Queue,
    /// One slot of permits, beside calls that have others.
    Slot(u16),
    /// A read-write lock, to read, beside all other calls.
    Reader,
}

/// A place in the local queue, as a future of what the waiter receives. Before it is dropped,
/// [`leave`](LocalWaiter::leave) must be called.
#[derive(Debug)]
pub(super) struct LocalWaiter<L> {
    queues: LocalQueues<L>,
    claim: Claim,
    ticket: u64,
    next: oneshot::Receiver<LocalHandoff<L>>,
}

impl<L> LocalQueues<L> {
    /// The permit, if no call of this process has it.
    pub(super) fn take(&self, claim: &Claim) -> Option<LocalPermit<L>> {
        match self.lock().waiting.entry(claim.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(free) => free.insert(None),
        };
        Some(self.permit(claim, Place::Queue))
    }

    /// The permit for a reader, which excludes no other one; or for one of the slots, as
    /// [`take_any_slot`](Self::take_any_slot).
    pub(super) fn take_beside_others(&self, claim: &Claim, share: f64) -> Option<LocalPermit<L>> {
        match claim.slots() {
            Some(_) => self.take_any_slot(claim, share),
            None => Some(self.permit(claim, Place::Reader)),
        }
    }

    /// The permit for one of the slots, if calls of this process have not all of them. `share`, from 0
    /// to 1, draws the slot at which it looks first.
    pub(super) fn take_any_slot(&self, claim: &Claim, share: f64) -> Option<LocalPermit<L>> {
        let slots = claim.slots()?;
        let first = pick(slots.into(), share);
        let slots = (0..slots).map(|at| (usize::from(at) + first) % usize::from(slots));
        slots
            .filter_map(|slot| u16::try_from(slot).ok())
            .find_map(|slot| self.take_slot(claim, slot))
    }

    /// The permit for this slot, if no call of this process has it.
    pub(super) fn take_slot(&self, claim: &Claim, slot: u16) -> Option<LocalPermit<L>> {
        let mut queues = self.lock();
        let none_taken = || vec![false; claim.slots().unwrap_or(0).into()];
        let taken = queues.slots.entry(claim.clone()).or_insert_with(none_taken);
        let place = taken.get_mut(usize::from(slot))?;
        let free = !std::mem::replace(place, true);
        drop(queues);
        free.then(|| self.permit(claim, Place::Slot(slot)))
    }

    fn permit(&self, claim: &Claim, place: Place) -> LocalPermit<L> {
        LocalPermit { queues: self.clone(), claim: claim.clone(), place }
    }

    /// Whether a call of this process asks for this slot, or holds it.
    pub(super) fn has_slot(&self, claim: &Claim, slot: u16) -> bool {
        let queues = self.lock();
        let taken = queues.slots.get(claim);
        taken.and_then(|taken| taken.get(usize::from(slot))).is_some_and(|taken| *taken)
    }

    /// Whether a call of this process waits for the claim on the nodes, or for its turn to do so.
    pub(super) fn has_waiter(&self, claim: &Claim) -> bool {
        self.lock().waiting.contains_key(claim)
    }

    /// Joins the queue for the permit.
    pub(super) fn wait(
        &self,
        claim: &Claim,
        ttl: Duration,
        hold_at_most: Option<Duration>,
        label: Option<Arc<str>>,
    ) -> LocalWaiter<L> {
        let (tell, next) = oneshot::channel();
        let mut queues = self.lock();
        queues.tickets += 1;
        let ticket = queues.tickets;
        let waiting = LocalWaiter { queues: self.clone(), claim: claim.clone(), ticket, next };
        match queues.waiting.get_mut(claim) {
            Some(queue) => {
                let waiter = Waiter { ticket, ttl, hold_at_most, label, next: tell };
                queue.get_or_insert_default().push_back(waiter);
            }
            None => {
                // The permit was returned meanwhile: this waiter receives it.
                queues.waiting.insert(claim.clone(), None);
                drop(queues);
                let permit = self.permit(claim, Place::Queue);
                drop(tell.send(LocalHandoff::Permit(permit)));
            }
        }
        waiting
    }

    /// Records whom this process's release of `claim` notified, if that is known.
    pub(super) fn released(&self, claim: &Claim, notified: Option<Notified>, clock: &Clock) {
        if notified == Some(Notified::Nobody) {
            return;
        }
        let (mut queues, now) = (self.lock(), clock.now());
        let notified = match notified {
            Some(notified) => notified,
            // Other processes contended just now, so the release most likely notified a waiter. A
            // wrong guess costs one round trip.
            None if queues.is_contended(claim, || now) => Notified::Waiter,
            None => return,
        };
        if queues.notified.len() >= TUNING.max_remembered {
            queues.notified.retain(|_, (_, at)| now.since(*at) < TUNING.courtesy);
        }
        queues.notified.insert(claim.clone(), (notified, now));
        if notified == Notified::Waiter {
            queues.contended(claim, now);
        }
    }

    /// Whether another process contended for `claim` within [`Tuning::contended_for`](quorumlock_protocol::waiting::Tuning).
    pub(super) fn is_contended(&self, claim: &Claim, clock: &Clock) -> bool {
        self.lock().is_contended(claim, || clock.now())
    }

    /// Whether a waiter that a release of this process has just notified is to go first.
    pub(super) fn lets_others_first(&self, claim: &Claim, clock: &Clock) -> bool {
        let queues = self.lock();
        let notified = queues.notified.get(claim);
        notified.is_some_and(|(_, at)| clock.now().since(*at) < TUNING.courtesy)
    }

    /// Why the permit holder of `claim` gets no majority's answer, if that is so.
    pub(super) fn trouble(&self, claim: &Claim) -> Option<Error> {
        self.lock().troubled.get(claim).map(|(_, why)| why.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Queues<L>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L> Default for LocalQueues<L> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Queues {
            waiting: HashMap::default(),
            slots: HashMap::default(),
            tickets: 0,
            notified: HashMap::default(),
            contended: HashMap::default(),
            troubled: HashMap::default(),
        })))
    }
}

impl<L> Clone for LocalQueues<L> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<L> Queues<L> {
    /// The waiters for a name; `None` if nobody has waited since the permit was first taken.
    fn queue(&mut self, claim: &Claim) -> Option<&mut VecDeque<Waiter<L>>> {
        self.waiting.get_mut(claim)?.as_deref_mut()
    }

    fn give_slot_back(&mut self, claim: &Claim, slot: u16) {
        let Some(taken) = self.slots.get_mut(claim) else { return };
        if let Some(place) = taken.get_mut(usize::from(slot)) {
            *place = false;
        }
        if !taken.contains(&true) {
            self.slots.remove(claim);
        }
    }

    fn contended(&mut self, claim: &Claim, now: Instant) {
        if self.contended.len() >= TUNING.max_remembered {
            self.contended.retain(|_, at| now.since(*at) < TUNING.contended_for);
        }
        self.contended.insert(claim.clone(), now);
    }

    /// Reads the clock only if the name has an entry.
    fn is_contended(&self, claim: &Claim, now: impl FnOnce() -> Instant) -> bool {
        self.contended.get(claim).is_some_and(|at| now().since(*at) < TUNING.contended_for)
    }
}

impl<L> LocalPermit<L> {
    /// The slot, if it is the permit for one slot alone.
    pub(super) fn slot(&self) -> Option<u16> {
        match self.place {
            Place::Slot(slot) => Some(slot),
            Place::Queue | Place::Reader => None,
        }
    }

    /// Records that another process contends for the name.
    pub(super) fn contended(&self, now: Instant) {
        self.queues.lock().contended(&self.claim, now);
    }

    /// Records that no majority answered the attempt of `asked`. Returns since when that is so,
    /// earlier permit holders included.
    pub(super) fn troubled(&self, why: &Error, asked: Instant) -> Instant {
        let mut queues = self.queues.lock();
        let (since, last) =
            queues.troubled.entry(self.claim.clone()).or_insert_with(|| (asked, why.clone()));
        *last = why.clone();
        *since
    }

    /// Records that a majority answered.
    pub(super) fn reached(&self) {
        self.queues.lock().troubled.remove(&self.claim);
    }

    /// Whom this process's release of the name notified just before `now`: those waiters go first.
    /// Answers once per release.
    pub(super) fn take_notified(&self, now: Instant) -> Notified {
        let mut queues = self.queues.lock();
        // Most often empty: then the name is not looked up.
        let woken =
            (!queues.notified.is_empty()).then(|| queues.notified.remove(&self.claim)).flatten();
        woken
            .filter(|(_, at)| now.since(*at) < TUNING.courtesy)
            .map_or(Notified::Nobody, |(notified, _)| notified)
    }

    /// How many local calls wait for the permit.
    pub(super) fn waiting(&self) -> usize {
        self.queues.lock().queue(&self.claim).map_or(0, |queue| queue.len())
    }

    /// Removes the first local waiter from the queue, if it can take over a lease of `ttl` with this label.
    pub(super) fn next_waiter(&self, ttl: Duration, label: Option<&str>) -> Option<Waiter<L>> {
        let mut queues = self.queues.lock();
        let queue = queues.queue(&self.claim)?;
        queue.front().filter(|waiter| waiter.ttl == ttl && waiter.label.as_deref() == label)?;
        queue.pop_front()
    }
}

impl<L> Waiter<L> {
    /// Returns `next` if the waiter gave up meanwhile.
    pub(super) fn give(self, next: LocalHandoff<L>) -> Option<LocalHandoff<L>> {
        self.next.send(next).err()
    }
}

impl<L> Drop for LocalPermit<L> {
    fn drop(&mut self) {
        let next = {
            let mut queues = self.queues.lock();
            match self.place {
                Place::Queue => {}
                Place::Slot(slot) => return queues.give_slot_back(&self.claim, slot),
                Place::Reader => return,
            }
            let Entry::Occupied(mut queue) = queues.waiting.entry(self.claim.clone()) else {
                return;
            };
            let next = queue.get_mut().as_deref_mut().and_then(VecDeque::pop_front);
            if next.is_none() {
                queue.remove();
                if !queues.troubled.is_empty() {
                    queues.troubled.remove(&self.claim);
                }
            }
            next
        };
        if let Some(waiter) = next {
            let permit = self.queues.permit(&self.claim, Place::Queue);
            // If the waiter gave up meanwhile, this drop passes the permit to the following one.
            drop(waiter.give(LocalHandoff::Permit(permit)));
        }
    }
}

impl<L> LocalWaiter<L> {
    /// Gives the place up. A permit that the waiter was given and has not received passes to the
    /// next waiter. Such a lease is returned: nobody else knows of it.
    pub(super) fn leave(&mut self) -> Option<Arc<L>> {
        if self.next.is_terminated() {
            // The waiter has received something, so it has left the queue.
            return None;
        }
        {
            let mut queues = self.queues.lock();
            if let Some(queue) = queues.queue(&self.claim)
                && let Ok(at) = queue.binary_search_by_key(&self.ticket, |waiter| waiter.ticket)
            {
                queue.remove(at);
            }
        }
        // From here on `give` returns what it is to give.
        self.next.close();
        match self.next.try_recv() {
            Ok(LocalHandoff::Lease(lease)) => Some(lease),
            Ok(LocalHandoff::Permit(_)) | Err(_) => None,
        }
    }
}

impl<L> Future for LocalWaiter<L> {
    type Output = LocalHandoff<L>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LocalHandoff<L>> {
        match Pin::new(&mut self.next).poll(cx) {
            Poll::Ready(Ok(next)) => Poll::Ready(next),
            // Never an error: each waiter that leaves the queue is given something.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use quorumlock_protocol::Name;

    use super::*;
    use futures::FutureExt;

    const TTL: Duration = Duration::from_secs(30);

    /// Stands for a lease.
    type Queues = LocalQueues<&'static str>;

    fn permit<L>(next: LocalHandoff<L>) -> LocalPermit<L> {
        match next {
            LocalHandoff::Permit(permit) => permit,
            LocalHandoff::Lease(_) => panic!("nobody had a lease"),
        }
    }

    #[tokio::test]
    async fn first_come_first_served_and_nothing_is_left_behind() {
        let queues = Queues::default();
        let name = Claim::from(Name::new("x").unwrap());
        let first = queues.take(&name).expect("free");
        assert!(queues.take(&name).is_none());
        let mut second = queues.wait(&name, TTL, None, None);
        let mut third = queues.wait(&name, TTL, None, None);
        assert_eq!(first.waiting(), 2);
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none(), "not before the second");
        drop(permit(second.await));
        drop(permit(third.await));
        assert!(queues.lock().waiting.is_empty());
    }

    #[test]
    fn after_a_release_that_woke_others_they_go_first_once() {
        let (queues, clock) = (Queues::default(), Clock::manual());
        let name = Claim::from(Name::new("x").unwrap());
        let permit = queues.take(&name).expect("free");
        queues.released(&name, None, &clock);
        queues.released(&name, Some(Notified::Nobody), &clock);
        assert_eq!(permit.take_notified(clock.now()), Notified::Nobody, "nobody else waits");
        queues.released(&name, Some(Notified::Waiter), &clock);
        assert_eq!(permit.take_notified(clock.now()), Notified::Waiter);
        assert_eq!(permit.take_notified(clock.now()), Notified::Nobody, "once");
        queues.released(&name, Some(Notified::Waiter), &clock);
        clock.advance(TUNING.courtesy);
        assert_eq!(permit.take_notified(clock.now()), Notified::Nobody, "they had their time");
        queues.released(&name, None, &clock);
        assert_eq!(permit.take_notified(clock.now()), Notified::Waiter, "they were about just now");
        clock.advance(TUNING.contended_for);
        queues.released(&name, None, &clock);
        assert_eq!(permit.take_notified(clock.now()), Notified::Nobody, "no longer");
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let queues = Queues::default();
        let name = Claim::from(Name::new("x").unwrap());
        let first = queues.take(&name).expect("free");
        let (mut second, mut third) =
            (queues.wait(&name, TTL, None, None), queues.wait(&name, TTL, None, None));
        assert_eq!(third.leave(), None);
        assert_eq!(first.waiting(), 1);
        // The second waiter was given the permit, but was never polled.
        drop(first);
        assert_eq!(second.leave(), None);
        assert!(queues.lock().waiting.is_empty());
    }

    #[test]
    fn a_lease_that_a_waiter_does_not_receive_comes_back() {
        let queues = Queues::default();
        let name = Claim::from(Name::new("x").unwrap());
        let permit = queues.take(&name).expect("free");
        let mut before = queues.wait(&name, TTL, None, None);
        let next = permit.next_waiter(TTL, None).expect("it waits");
        assert!(next.give(LocalHandoff::Lease(Arc::new("given"))).is_none());
        assert_eq!(before.leave().as_deref(), Some(&"given"), "given before the waiter left");
        assert_eq!(before.leave(), None, "once");
        let mut after = queues.wait(&name, TTL, None, None);
        let next = permit.next_waiter(TTL, None).expect("it waits");
        assert_eq!(after.leave(), None);
        let back = next.give(LocalHandoff::Lease(Arc::new("refused")));
        assert!(matches!(back, Some(LocalHandoff::Lease(_))), "given after it left");
    }

    #[test]
    fn only_a_waiter_with_the_same_lease_and_label_can_take_it_over() {
        let queues = Queues::default();
        let name = Claim::from(Name::new("x").unwrap());
        let permit = queues.take(&name).expect("free");
        let _waiting = queues.wait(&name, TTL, None, None);
        assert!(permit.next_waiter(Duration::from_secs(1), None).is_none());
        assert!(permit.next_waiter(TTL, Some("job 7")).is_none());
        assert_eq!(permit.waiting(), 1, "it keeps its place");
        assert!(permit.next_waiter(TTL, None).is_some());
        assert_eq!(permit.waiting(), 0);
    }
}
