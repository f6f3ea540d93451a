//! Between a client's code and the node: each answer and each message passes here, and the ledger
//! records it.

use std::sync::{Arc, Mutex, PoisonError};

use quorumlock_protocol::{
    Acceptance, Answer, Instant, Name, OnDropped, QueuedAt, ReleaseOutcome, ReplySink, Responder,
    Vote, WaitEvent,
};

use super::bug::Bug;
use super::request::{SimAnswer, SimRequest};
use super::world::World;

/// A request whose answer is awaited.
#[derive(Clone, Debug)]
pub struct Posted {
    pub client: usize,
    pub node: usize,
    pub request: SimRequest,
    /// When it was posted, on the client's clock and in the world's time.
    pub asked: Instant,
    pub at: u64,
    /// How many requests for its first lease had been written before.
    pub written: u32,
    /// The place of the waiter that asks.
    pub queued_at: Option<QueuedAt>,
    /// With a planted bug: the request goes to a node that is not proven.
    pub unproven: bool,
}

/// A type of answer that the ledger follows.
pub trait Followed: OnDropped + Sized + Send + 'static {
    fn into_answer(self) -> SimAnswer;
    /// `None` if the answer is of another type.
    fn from_answer(answer: SimAnswer) -> Option<Self>;
}

macro_rules! followed {
    ($type:ty, $variant:ident) => {
        impl Followed for $type {
            fn into_answer(self) -> SimAnswer {
                SimAnswer::$variant(self)
            }

            fn from_answer(answer: SimAnswer) -> Option<Self> {
                match answer {
                    SimAnswer::$variant(answer) => Some(answer),
                    _ => None,
                }
            }
        }
    };
}

followed!(Answer<Vote>, Vote);
followed!(Answer<Acceptance>, Raised);
followed!(Answer<Instant>, One);
followed!(Vec<Answer<Instant>>, Until);
followed!(Answer<ReleaseOutcome>, Freed);

/// Sends a request again.
pub type Again<T> = Box<dyn Fn(Responder<T>) + Send + Sync>;

/// Passes the answer on, once the ledger has recorded it.
pub struct Tap<T: Followed> {
    pub world: World,
    pub posted: Posted,
    pub to: Mutex<Option<Responder<T>>>,
    /// Runs once the ledger has recorded the answer: a planted bug.
    pub after: Option<fn(&World, &Posted)>,
    /// Sends the request again, if the node was verified anew before it was sent: a planted bug.
    pub again: Option<Again<T>>,
}

impl<T: Followed> ReplySink<T> for Tap<T> {
    fn collect(&self, _: usize, answer: T) {
        let to = self.to.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(to) = to else { return };
        let posted = &self.posted;
        let answer = answer.into_answer();
        if let Some(again) = &self.again
            && self.world.with(|state| state.was_not_sent(posted, &answer))
        {
            return again(to);
        }
        let Some(answer) = self.world.with(|state| state.delivered(posted, answer)) else {
            // The process is dead, or the run is over.
            return drop(to);
        };
        if let Some(answer) = T::from_answer(answer) {
            to.send(answer);
        }
        if let Some(after) = self.after {
            after(&self.world, posted);
        }
        self.world.with(|state| state.check_answer(posted));
    }
}

/// Passes the messages of a node to a waiter on.
pub struct MessageTap {
    pub world: World,
    pub client: usize,
    pub to: Arc<dyn ReplySink<WaitEvent>>,
}

impl ReplySink<WaitEvent> for MessageTap {
    fn collect(&self, from: usize, event: WaitEvent) {
        let hears = self.world.with(|state| {
            if state.closed {
                return false;
            }
            let retries = event == WaitEvent::Retry;
            state.processes[self.client].wake_ups.1 |= retries;
            !(retries && state.bug == Some(Bug::NoLookAfterSubscribe))
        });
        if hears {
            self.to.collect(from, event);
        }
    }
}

/// Ends a waiter's subscription.
pub struct Unsubscribe {
    pub world: World,
    pub client: usize,
    pub node: usize,
    pub name: Name,
}

impl Drop for Unsubscribe {
    fn drop(&mut self) {
        self.world.with(|state| {
            if let Some(process) = state.processes.get_mut(self.client) {
                process.unsubscribe(self.node, &self.name);
            }
        });
    }
}
