//! The queues of waiters: advice, never safety. A node may have none.

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{Claim, FencingToken, LeaseRequest, Name, Nonce, ReplySink};

/// The queues of waiters of one node, or of a lessor's nodes: who is told that a name is free.
///
/// A waiter enters a queue by the request that refuses it ([`Node::acquire`](crate::Node::acquire)):
/// no release falls between the two.
pub trait WaitQueue {
    /// Tells `to` that the name may be free or was handed off: when this waiter is at the head of
    /// the queue, and whenever messages may have been missed (at once, or as soon as there is a
    /// connection, and after each new connection). The messages come from `from`; those of several
    /// nodes, from `from` and the numbers after it. The subscription ends when the result is
    /// dropped.
    fn subscribe(
        &self,
        name: &Name,
        to: Arc<dyn ReplySink<WaitEvent>>,
        from: usize,
    ) -> Subscription;
    /// Leaves the queues for the names of a claim. If the node has already notified this locker, it notifies the
    /// next waiter. If the node has already handed the name off to this locker, the name is
    /// released: `offered` is the locker's last lease request and its offer.
    fn leave(&self, claim: &Claim, offered: Option<&(LeaseRequest, HandoffOffer)>);
    /// Notifies the next waiter for a claim, if it is free: this locker was notified of it, and has no use
    /// for it. The locker keeps its place in the queues.
    fn pass_on(&self, claim: &Claim);
    /// Tells `to` the nonces of holds that somebody releases by force, of the locker whose nonces end as
    /// `locker` does. Asking again changes nothing. By default nobody is told: a holder then learns of
    /// it at its next renewal.
    fn hear_forced(&self, locker: Nonce, to: Arc<dyn ReplySink<Nonce>>) {
        let _ = (locker, to);
    }
    /// Whether a release may hand the name off to a queued waiter ([`EnqueueRequest::handoff`]).
    /// Only where the vote of one node is the lock.
    fn supports_handoff(&self) -> bool {
        false
    }
}

/// Keeps a subscription while it lives.
pub type Subscription = Box<dyn Any + Send + Sync>;

/// A place in a node's queue for a name. A denied waiter takes the place, and a release then
/// notifies that waiter alone. Advice, never safety.
#[derive(Clone, Debug)]
pub struct EnqueueRequest {
    /// How long the waiter has waited. The queue is first come, first served: a waiter that was
    /// notified in vain keeps its seniority.
    pub waited: Duration,
    /// Before whom the waiter may take a free name.
    pub precedence: Precedence,
    /// The lease that this waiter accepts by handoff from another client's release, where
    /// [`WaitQueue::supports_handoff`].
    pub handoff: Option<HandoffOffer>,
    /// The waiter's earlier attempts whose offer may still be open. The node removes their queue
    /// entries. If a release has handed the name off to one of them, that attempt has the name, and
    /// the node tells it ([`QueuedAt::take_handoffs`]).
    pub earlier: Vec<(Nonce, HandoffOffer)>,
    /// Where the waiter may be queued by now. All its attempts share it.
    pub queued_at: QueuedAt,
}

/// Which waiters a request for a free name goes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// Before none: a free name goes to those before this waiter in the queue, and to those that were
    /// notified and have not asked yet.
    Yields,
    /// Before all: the request takes a free name, whether or not others wait.
    AsItComes,
    /// The waiter was notified, and asks because of that: no waiting writer keeps it out.
    Notified,
    /// As [`Precedence::AsItComes`], and the waiter for several names has a turn: if it is refused it waits
    /// in the queues of all of them, so that releases leave each free name to it (PROTOCOL.md SET5).
    Turn,
}

/// The nodes of a lessor at which a waiter may be queued: those that it asked to enqueue it. Of
/// several names, also the names in whose queues it is. Also what the nodes said when they refused.
#[derive(Clone, Debug, Default)]
pub struct QueuedAt(Arc<Mutex<Queued>>);

#[derive(Debug, Default)]
struct Queued {
    nodes: BTreeSet<usize>,
    names: BTreeSet<usize>,
    place: Option<u32>,
    handoffs: Vec<RemoteGrant>,
}

impl QueuedAt {
    /// A node is asked to enqueue the waiter.
    pub fn add(&self, node: usize) {
        self.lock().nodes.insert(node);
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> Vec<usize> {
        self.lock().nodes.iter().copied().collect()
    }

    /// A node has enqueued the waiter for this one of several names.
    pub fn add_name(&self, at: usize) {
        self.lock().names.insert(at);
    }

    /// The names for which nodes have enqueued the waiter since the last call.
    pub fn take_names(&self) -> BTreeSet<usize> {
        std::mem::take(&mut self.lock().names)
    }

    /// A node that refused the waiter has it at this place of its queue: 1 is the head.
    pub fn set_place(&self, place: u32) {
        let mut queued = self.lock();
        queued.place = Some(queued.place.map_or(place, |other| other.min(place)));
    }

    /// The waiter's place in the queue, the first one of several nodes, as they said since the last call.
    pub fn take_place(&self) -> Option<u32> {
        self.lock().place.take()
    }

    /// A release handed the name off to an earlier attempt of the waiter, as the node said when it was
    /// asked again (PROTOCOL.md W5).
    pub fn add_handoff(&self, handed: RemoteGrant) {
        self.lock().handoffs.push(handed);
    }

    /// What was handed off, and nobody has taken.
    pub fn handoffs(&self) -> Vec<RemoteGrant> {
        self.lock().handoffs.clone()
    }

    /// What was handed off, as nodes said since the last call.
    pub fn take_handoffs(&self) -> Vec<RemoteGrant> {
        std::mem::take(&mut self.lock().handoffs)
    }

    fn lock(&self) -> MutexGuard<'_, Queued> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lease that a waiter accepts by handoff.
///
/// A handoff is a grant that another client's release carries out. It answers the one attempt whose
/// nonce it names, and the lease counts from before that attempt was sent (SAFETY.md G1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandoffOffer {
    /// How long the node keeps a name that was handed off, without a renewal: the whole lease.
    pub ttl: Duration,
    /// Whether the waiter gets tokens.
    pub fencing: bool,
}

/// What a waiter is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEvent {
    /// The name may be free, or a message may have been missed: ask.
    Retry,
    /// The name was released, and another waiter may come first: ask, and yield to the waiters before
    /// this one. Also for a waiter that is second now: the next release serves it if it shows life.
    Released,
    /// The name is free, and this waiter is at the head of the node's queue. Of permits, the slot that
    /// is free.
    Head(Option<u16>),
    /// A release handed the name off to this waiter.
    Granted(RemoteGrant),
}

/// A name that was handed off to the attempt with this nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteGrant {
    /// The waiter's attempt that was granted.
    pub nonce: Nonce,
    /// The last token of its block.
    pub token: FencingToken,
}

/// What a release does with the client's place in the node's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAction {
    /// Leave: the client gives up waiting, and may still be queued with this offer.
    Leave(HandoffOffer),
    /// Queue again with this waited time, so that the client keeps its seniority; notify nobody.
    KeepPlace(Duration),
}

/// Whom a release told that the name is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notified {
    /// Nobody waits.
    Nobody,
    /// Subscribers of the name's channel: programs that know of no queue.
    Channel,
    /// The first waiter in the node's queue.
    Waiter,
}
