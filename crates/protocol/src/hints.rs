//! How one attempt asks the nodes, as one value.

use crate::waiting::Approach;
use crate::{EnqueueRequest, FreeSlots, Precedence};

/// How one attempt asks the nodes, or gives up what it got: advice, never safety.
///
/// The caller makes it, the lessor passes it on, and the node reads it. A new tactic adds a field
/// here, and no argument or method to [`Node`](crate::Node) or to the trait `Lessor`.
///
/// The default: other clients want the name, and the caller does not wait for it.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    home_first: bool,
    enqueue_on_all: bool,
    uncontended: bool,
    by_script: bool,
    /// Of permits: where the nodes that refuse tell which slots are free.
    free_slots: Option<FreeSlots>,
    /// Boxed, because requests are moved often and few of them enqueue.
    enqueue: Option<Box<EnqueueRequest>>,
}

impl Hints {
    /// The hints of an attempt that a waiter makes. `uncontended`: no other client is known to want
    /// the name. `enqueue`: the caller's place in the queue if it is refused.
    pub fn new(approach: &Approach, uncontended: bool, enqueue: Option<EnqueueRequest>) -> Self {
        let Approach { home_first, enqueue_on_all, by_script, .. } = *approach;
        let enqueue = enqueue.map(Box::new);
        Self { home_first, enqueue_on_all, uncontended, by_script, free_slots: None, enqueue }
    }

    /// The caller does not wait for the name. `contended`: other clients want it.
    pub fn contended(contended: bool) -> Self {
        Self { uncontended: !contended, ..Self::default() }
    }

    /// The caller waits for the name: this is its place in the queue if it is refused.
    pub fn queued(enqueue: EnqueueRequest) -> Self {
        Self { enqueue: Some(Box::new(enqueue)), ..Self::default() }
    }

    /// Of permits: the nodes that refuse tell which slots are free.
    #[must_use]
    pub fn with_free_slots(self, free_slots: FreeSlots) -> Self {
        Self { free_slots: Some(free_slots), ..self }
    }

    /// Where a node that refuses tells which slots of the permits are free.
    pub fn free_slots(&self) -> Option<&FreeSlots> {
        self.free_slots.as_ref()
    }

    /// Whether only the name's home node is asked first, and the others once it has granted. This
    /// keeps many contenders from splitting the votes.
    pub fn asks_home_first(&self) -> bool {
        self.home_first
    }

    /// Whether a refused waiter is queued at all nodes, and not at the home node alone.
    pub fn enqueues_on_all(&self) -> bool {
        self.enqueue_on_all
    }

    /// For a node at which the waiter is not queued.
    #[must_use]
    pub fn away_from_home(self) -> Self {
        match self.enqueue {
            None => self,
            // A refusal need not report the remaining lease. Others contend for the name, so the
            // node uses the script, which moves no mark when it refuses.
            Some(_) => Self { uncontended: true, by_script: true, enqueue: None, ..self },
        }
    }

    /// For the nodes that are asked after the home node, which alone decides whether other waiters
    /// go first.
    #[must_use]
    pub fn after_home(mut self) -> Self {
        if let Some(enqueue) = &mut self.enqueue
            && enqueue.precedence == Precedence::Yields
        {
            enqueue.precedence = Precedence::AsItComes;
        }
        self
    }

    /// For a node that can notify the caller or cannot. A caller that the node cannot notify is not
    /// queued: it would block the waiters behind it. A caller that is queued already stays queued,
    /// with the nonce of this attempt.
    #[must_use]
    pub fn if_notified(mut self, can_notify: bool) -> Self {
        self.enqueue = self.enqueue.filter(|enqueue| can_notify || !enqueue.earlier.is_empty());
        self
    }

    /// For a node whose releases cannot hand a name off to the caller, or can.
    #[must_use]
    pub fn if_handed_off(mut self, can_hand_off: bool) -> Self {
        if let Some(enqueue) = &mut self.enqueue {
            enqueue.handoff = enqueue.handoff.filter(|_| can_hand_off);
        }
        self
    }

    /// The caller's place in the queue if it is refused.
    pub fn enqueue(&self) -> Option<&EnqueueRequest> {
        self.enqueue.as_deref()
    }

    /// Whether other clients want the name, so that its release should notify one of them.
    pub fn is_contended(&self) -> bool {
        !self.uncontended || self.enqueue.is_some()
    }

    /// Whether the node may answer without its script. Then a refusal does not report the remaining
    /// lease and queues nobody, and the mark moves also if the caller is refused.
    pub fn may_skip_script(&self) -> bool {
        !self.is_contended() && !self.by_script
    }
}
