use std::collections::BTreeSet;
use std::sync::Arc;

use quorumlock_protocol::{Instant, expiry};

use super::inbox::Inbox;
use crate::Lessor;
use quorumlock_protocol::waiting::{Approach, Messages};
use quorumlock_protocol::{
    Claim, EnqueueRequest, Grant, HandoffOffer, HeldInterval, Hints, Lane, LeaseRequest, Name,
    Nonce, QueuedAt, Subscription,
};

/// The place of one call in the nodes' queues, or its subscription before it is queued. Dropping
/// the ticket leaves the queues, unless the call has got the name. Where no node keeps a queue, the
/// ticket does nothing: no message comes, and the call polls.
pub(super) struct QueueTicket {
    inbox: Arc<Inbox>,
    lessor: Arc<dyn Lessor>,
    claim: Claim,
    /// The lease that this call accepts by handoff, and the bound on the node's clock drift.
    handoff: Option<(HandoffOffer, f64)>,
    /// The requests that may be queued, oldest first: the last one, and until it is answered the
    /// last one before it that was carried out. None that the name was handed off to.
    offers: Vec<(LeaseRequest, HandoffOffer)>,
    /// The recent attempts, and until when the lease of each is valid if the name is handed off to
    /// it.
    attempts: Vec<(Nonce, Instant)>,
    served: bool,
    /// What the last attempt asked for.
    asked_for: Claim,
    queued_at: QueuedAt,
    /// Of several names, the numbers of those in whose queues the call may be.
    queued_for: BTreeSet<usize>,
    /// One for each name. Empty where no node keeps a queue.
    subscriptions: Vec<Subscription>,
}

impl QueueTicket {
    pub(super) fn join(
        lessor: &Arc<dyn Lessor>,
        claim: &Claim,
        offer: Option<(HandoffOffer, f64)>,
    ) -> Self {
        let inbox = Arc::new(Inbox::default());
        Self {
            subscriptions: lessor.wait_queue().map_or_else(Vec::new, |queue| {
                let subscribe = |name: Name| queue.subscribe(&name, inbox.clone(), 0);
                claim.subscribed_names().map(subscribe).collect()
            }),
            inbox,
            lessor: lessor.clone(),
            claim: claim.clone(),
            asked_for: claim.clone(),
            handoff: offer,
            offers: Vec::new(),
            attempts: Vec::new(),
            served: false,
            queued_at: QueuedAt::default(),
            queued_for: BTreeSet::new(),
        }
    }

    /// All messages of the nodes since the last attempt began, once there are new ones.
    pub(super) async fn messages(&self) -> Messages {
        self.inbox.messages().await
    }

    /// Takes the slot of permits that a node has said is free.
    pub(super) fn take_free_slot(&self) -> Option<u16> {
        self.inbox.take_free_slot()
    }

    /// Registers the attempt of `asked`, and returns the queue entry that it asks for, if there is a
    /// queue. From now on the name may be handed off to this attempt.
    pub(super) fn register_attempt(
        &mut self,
        (request, asked): (&LeaseRequest, Instant),
        approach: &Approach,
    ) -> Option<EnqueueRequest> {
        if self.subscriptions.is_empty() {
            return None;
        }
        self.inbox.reset();
        self.asked_for = request.claim.clone();
        self.offers.truncate(1);
        let previous = self.offers.first().map(|(request, _)| request.nonce);
        let offer = self.handoff.map(|(offer, max_clock_drift)| {
            self.offers.push((request.clone(), offer));
            self.attempts.retain(|(_, until)| *until > asked);
            self.attempts.push((request.nonce, expiry(asked, offer.ttl, max_clock_drift)));
            offer
        });
        Some(EnqueueRequest {
            waited: approach.waited,
            precedence: approach.precedence(),
            handoff: offer,
            previous,
            queued_at: self.queued_at.clone(),
        })
    }

    /// Records that the last attempt was carried out: the queue entry of the attempt before it is
    /// gone.
    pub(super) fn answered(&mut self) {
        self.offers.drain(..self.offers.len().saturating_sub(1));
    }

    /// Records that the last attempt was refused. Of several names, the call waits in the queues of
    /// those that refused it, and in no other (PROTOCOL.md SET4).
    pub(super) fn refused(&mut self) {
        if self.claim.is_one() {
            return;
        }
        let Some(queue) = self.lessor.wait_queue() else { return };
        let now = self.queued_at.take_names();
        let left = std::mem::replace(&mut self.queued_for, now);
        let names: Vec<_> = self.claim.of_each_name().collect();
        for at in left.difference(&self.queued_for) {
            queue.leave(&names[*at], None);
        }
    }

    pub(super) fn served(&mut self) {
        self.served = true;
    }

    /// The grant, if the name was handed off to an attempt whose lease is still valid at `now`.
    /// Gives back every other handoff.
    pub(super) fn take_handoff(&mut self, now: Instant) -> Option<(Nonce, Grant)> {
        let (last, _) = self.offers.last().cloned()?;
        let mut grant = None;
        for handed in self.inbox.take_handoffs() {
            let open = |(nonce, until): &&(Nonce, Instant)| *nonce == handed.nonce && *until > now;
            match self.attempts.iter().find(open) {
                Some((nonce, until)) if grant.is_none() => {
                    grant = Some((
                        *nonce,
                        Grant { until: *until, fence: handed.fence, counted: false },
                    ));
                    // Leaving the queue as this attempt would release what it holds now. A later
                    // attempt may still be queued. While we hold the name, no release hands it off
                    // to that attempt.
                    let held = |(request, _): &(LeaseRequest, _)| request.nonce == *nonce;
                    if let Some(at) = self.offers.iter().position(held) {
                        self.offers.drain(..=at);
                        self.served = self.offers.is_empty();
                    }
                }
                _ => self.release_handoff(LeaseRequest { nonce: handed.nonce, ..last.clone() }),
            }
        }
        grant
    }

    /// Releases what was handed off to this call and it does not hold. A reader may have been granted a
    /// later attempt beside it.
    fn release_unread_handoffs(&self) {
        let Some(offer) = self.handoff.map(|(offer, _)| offer) else { return };
        for handed in self.inbox.take_handoffs() {
            let (claim, nonce) = (self.claim.clone(), handed.nonce);
            self.release_handoff(LeaseRequest { claim, nonce, ttl: offer.ttl, holds: 1 });
        }
    }

    /// Releases a handoff, as after an attempt that was given up.
    fn release_handoff(&self, request: LeaseRequest) {
        // The request is queued by now, and is sent again if it does not arrive.
        let hints = Hints::default();
        drop(self.lessor.release(request, HeldInterval::UNKNOWN, Lane::Caller, hints));
    }
}

impl Drop for QueueTicket {
    /// A node may have notified this waiter meanwhile, or handed the name off to it: both pass on
    /// to the next waiter (PROTOCOL.md W3, W5).
    fn drop(&mut self) {
        // From here on the node gives back what it is told of.
        self.subscriptions.clear();
        self.release_unread_handoffs();
        let Some(queue) = self.lessor.wait_queue() else { return };
        // A slot that this call was told of, and does not need, is free for the next waiter.
        let told = self.take_free_slot().map(|slot| self.claim.with_slot(slot));
        if self.served {
            return told.iter().for_each(|slot| queue.leave(slot, None));
        }
        if self.offers.is_empty() {
            return queue.leave(told.as_ref().unwrap_or(&self.asked_for), None);
        }
        self.offers.iter().rev().for_each(|offer| queue.leave(&self.claim, Some(offer)));
    }
}
