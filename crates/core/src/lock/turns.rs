use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use foldhash::HashMap;
use quorumlock_watchdog::{Clock, Instant};
use tokio::sync::oneshot;

use super::guard::Guard;
use crate::{Error, Name, Woke};

/// Who in this process may be on the wire for a name: one at a time, first come first served.
///
/// The turn belongs to the lease from the first request to the end of the release, so that waiters
/// of one process never contend with each other on the nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<Mutex<Queues>>);

#[derive(Debug, Default)]
struct Queues {
    /// An entry for every name that is somebody's turn: most often nobody waits for it.
    #[expect(clippy::box_collection, reason = "a table has many places, most of them for nobody")]
    waiting: HashMap<Name, Option<Box<VecDeque<Waiter>>>>,
    tickets: u64,
    /// Whom our release of a name woke, and when that was.
    woken: HashMap<Name, (Woke, Instant)>,
    /// When another process was last seen to want a name.
    contended: HashMap<Name, Instant>,
    /// Names whose turn it is of somebody whom no majority answers: since when, and why.
    troubled: HashMap<Name, (Instant, Error)>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    wants: Wants,
    next: oneshot::Sender<Next>,
}

/// What a waiter would take over from a holder in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wants {
    /// What the nodes are to keep without news.
    pub(super) ttl: Duration,
    pub(super) hold_at_most: Option<Duration>,
}

/// What comes to a waiter.
#[derive(Debug)]
pub(super) enum Next {
    /// To ask the nodes.
    Turn(Turn),
    /// The lock itself, handed over by the holder before.
    Guard(Guard),
}

/// The right to be on the wire for a name. Dropped, it goes to the next in the queue.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    name: Name,
}

/// A place in the queue; dropped, it is given up.
#[derive(Debug)]
pub(super) struct Waiting {
    turns: Turns,
    name: Name,
    ticket: u64,
    next: oneshot::Receiver<Next>,
}

/// Asked again within so long after a release, this process lets those go first who waited then.
const COURTESY: Duration = Duration::from_millis(20);
/// For so long a name counts as wanted by others.
const MEMORY: Duration = Duration::from_secs(1);
/// Names that are remembered, before those are forgotten that no longer matter.
const MANY: usize = 1_024;

impl Turns {
    /// The turn, if nobody has it.
    pub(super) fn take(&self, name: &Name) -> Option<Turn> {
        match self.queues().waiting.entry(name.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(free) => free.insert(None),
        };
        Some(Turn { turns: self.clone(), name: name.clone() })
    }

    /// A place in the queue for the turn.
    pub(super) fn wait(&self, name: &Name, wants: Wants) -> Waiting {
        let (tell, next) = oneshot::channel();
        let mut queues = self.queues();
        queues.tickets += 1;
        let ticket = queues.tickets;
        let waiting = Waiting { turns: self.clone(), name: name.clone(), ticket, next };
        match queues.waiting.get_mut(name) {
            Some(queue) => {
                queue.get_or_insert_default().push_back(Waiter { ticket, wants, next: tell });
            }
            None => {
                // Free meanwhile.
                queues.waiting.insert(name.clone(), None);
                drop(queues);
                let turn = Turn { turns: self.clone(), name: name.clone() };
                drop(tell.send(Next::Turn(turn)));
            }
        }
        waiting
    }

    /// Whom our release of `name` woke just now, if that is known.
    pub(super) fn released(&self, name: &Name, woke: Option<Woke>, clock: &Clock) {
        if woke == Some(Woke::Nobody) {
            return;
        }
        let (mut queues, now) = (self.queues(), clock.now());
        let woke = match woke {
            Some(woke) => woke,
            // Somebody, most likely, if others were about just now. If not it costs a round trip.
            None if queues.is_contended(name, || now) => Woke::Waiter,
            None => return,
        };
        if queues.woken.len() >= MANY {
            queues.woken.retain(|_, (_, at)| now.since(*at) < COURTESY);
        }
        queues.woken.insert(name.clone(), (woke, now));
        if woke == Woke::Waiter {
            queues.contended(name, now);
        }
    }

    /// Whether another process wanted `name` lately.
    pub(super) fn is_contended(&self, name: &Name, clock: &Clock) -> bool {
        self.queues().is_contended(name, || clock.now())
    }

    /// Why whoever has the turn for `name` gets no majority's answer, if so.
    pub(super) fn trouble(&self, name: &Name) -> Option<Error> {
        self.queues().troubled.get(name).map(|(_, why)| why.clone())
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    /// Those who wait for a name, if anybody does or did during this turn.
    fn queue(&mut self, name: &Name) -> Option<&mut VecDeque<Waiter>> {
        self.waiting.get_mut(name)?.as_deref_mut()
    }

    fn contended(&mut self, name: &Name, now: Instant) {
        if self.contended.len() >= MANY {
            self.contended.retain(|_, at| now.since(*at) < MEMORY);
        }
        self.contended.insert(name.clone(), now);
    }

    /// The clock is read only if it matters.
    fn is_contended(&self, name: &Name, now: impl FnOnce() -> Instant) -> bool {
        self.contended.get(name).is_some_and(|at| now().since(*at) < MEMORY)
    }
}

impl Turn {
    /// Another process was seen to want the name.
    pub(super) fn contended(&self, now: Instant) {
        self.turns.queues().contended(&self.name, now);
    }

    /// No majority answered what was asked at `asked`: since when, for those who had the turn before, too.
    pub(super) fn troubled(&self, why: &Error, asked: Instant) -> Instant {
        let mut queues = self.turns.queues();
        let (since, last) =
            queues.troubled.entry(self.name.clone()).or_insert_with(|| (asked, why.clone()));
        *last = why.clone();
        *since
    }

    /// A majority answered.
    pub(super) fn reached(&self) {
        self.turns.queues().troubled.remove(&self.name);
    }

    /// Which other processes were woken when we released the name, just before `now`: they have
    /// their turn first.
    pub(super) fn others_first(&self, now: Instant) -> Woke {
        let mut queues = self.turns.queues();
        // Most often for nobody: then no name is looked up.
        let woken = (!queues.woken.is_empty()).then(|| queues.woken.remove(&self.name)).flatten();
        woken.filter(|(_, at)| now.since(*at) < COURTESY).map_or(Woke::Nobody, |(woke, _)| woke)
    }

    /// How many wait for it.
    pub(super) fn waiting(&self) -> usize {
        self.turns.queues().queue(&self.name).map_or(0, |queue| queue.len())
    }

    /// The next in the queue, taken out of it, if it can take over a lease of `ttl`.
    pub(super) fn heir(&self, ttl: Duration) -> Option<Heir> {
        let mut queues = self.turns.queues();
        let queue = queues.queue(&self.name)?;
        queue.front().filter(|waiter| waiter.wants.ttl == ttl)?;
        queue.pop_front().map(Heir)
    }
}

/// A waiter that left the queue, and must be given something.
#[derive(Debug)]
pub(super) struct Heir(Waiter);

impl Heir {
    pub(super) fn hold_at_most(&self) -> Option<Duration> {
        self.0.wants.hold_at_most
    }

    /// If it has given up meanwhile, `next` is dropped, and goes to the one after.
    pub(super) fn give(self, next: Next) {
        drop(self.0.next.send(next));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut queues = self.turns.queues();
            let Entry::Occupied(mut queue) = queues.waiting.entry(self.name.clone()) else {
                return;
            };
            let next = queue.get_mut().as_deref_mut().and_then(VecDeque::pop_front);
            if next.is_none() {
                queue.remove();
                if !queues.troubled.is_empty() {
                    queues.troubled.remove(&self.name);
                }
            }
            next
        };
        if let Some(waiter) = next {
            let turn = Self { turns: self.turns.clone(), name: self.name.clone() };
            Heir(waiter).give(Next::Turn(turn));
        }
    }
}

impl Future for Waiting {
    type Output = Next;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Next> {
        match Pin::new(&mut self.next).poll(cx) {
            Poll::Ready(Ok(next)) => Poll::Ready(next),
            // Never: whoever leaves the queue is given something.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.next.is_terminated() {
            // It was given something, and stands in the queue no more.
            return;
        }
        let mut queues = self.turns.queues();
        if let Some(queue) = queues.queue(&self.name)
            && let Ok(at) = queue.binary_search_by_key(&self.ticket, |waiter| waiter.ticket)
        {
            queue.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const WANTS: Wants = Wants { ttl: Duration::from_secs(30), hold_at_most: None };

    fn turn(next: Next) -> Turn {
        match next {
            Next::Turn(turn) => turn,
            Next::Guard(_) => panic!("nobody had a guard"),
        }
    }

    #[tokio::test]
    async fn first_come_first_served_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let name = Name::new("x").unwrap();
        let first = turns.take(&name).expect("free");
        assert!(turns.take(&name).is_none());
        let mut second = turns.wait(&name, WANTS);
        let mut third = turns.wait(&name, WANTS);
        assert_eq!(first.waiting(), 2);
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none(), "not before the second");
        drop(turn(second.await));
        drop(turn(third.await));
        assert!(turns.queues().waiting.is_empty());
    }

    #[test]
    fn after_a_release_that_woke_others_they_go_first_once() {
        let (turns, clock) = (Turns::default(), Clock::manual());
        let name = Name::new("x").unwrap();
        let turn = turns.take(&name).expect("free");
        turns.released(&name, None, &clock);
        turns.released(&name, Some(Woke::Nobody), &clock);
        assert_eq!(turn.others_first(clock.now()), Woke::Nobody, "nobody else waits");
        turns.released(&name, Some(Woke::Waiter), &clock);
        assert_eq!(turn.others_first(clock.now()), Woke::Waiter);
        assert_eq!(turn.others_first(clock.now()), Woke::Nobody, "once");
        turns.released(&name, Some(Woke::Waiter), &clock);
        clock.advance(COURTESY);
        assert_eq!(turn.others_first(clock.now()), Woke::Nobody, "they had their time");
        turns.released(&name, None, &clock);
        assert_eq!(turn.others_first(clock.now()), Woke::Waiter, "they were about just now");
        clock.advance(MEMORY);
        turns.released(&name, None, &clock);
        assert_eq!(turn.others_first(clock.now()), Woke::Nobody, "no longer");
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let turns = Turns::default();
        let name = Name::new("x").unwrap();
        let first = turns.take(&name).expect("free");
        let (second, third) = (turns.wait(&name, WANTS), turns.wait(&name, WANTS));
        drop(third);
        assert_eq!(first.waiting(), 1);
        // It has been given the turn, and never looked.
        drop(first);
        drop(second);
        assert!(turns.queues().waiting.is_empty());
    }

    #[test]
    fn only_a_waiter_with_the_same_lease_can_take_it_over() {
        let turns = Turns::default();
        let name = Name::new("x").unwrap();
        let turn = turns.take(&name).expect("free");
        let _waiting = turns.wait(&name, WANTS);
        assert!(turn.heir(Duration::from_secs(1)).is_none());
        assert_eq!(turn.waiting(), 1, "it keeps its place");
        assert!(turn.heir(WANTS.ttl).is_some());
        assert_eq!(turn.waiting(), 0);
    }
}
