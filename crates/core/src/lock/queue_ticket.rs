use std::collections::BTreeSet;
use std::sync::Arc;

use quorumlock_protocol::{Instant, expiry};

use super::inbox::Inbox;
use crate::Lessor;
use quorumlock_protocol::waiting::{Approach, Messages};
use quorumlock_protocol::{
    Claim, EnqueueRequest, FencingToken, Grant, HandoffOffer, HeldInterval, Hints, Lane,
    LeaseRequest, Name, Nonce, QueuedAt, RemoteGrant, Subscription,
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
    /// The requests whose offer may be open, oldest first: the last one, and those before it that
    /// no later answer has closed. None that the name was handed off to.
    offers: Vec<(LeaseRequest, HandoffOffer)>,
    /// The recent attempts, and until when the lease of each is valid if the name is handed off to
    /// it.
    attempts: Vec<(Nonce, Instant)>,
    /// The attempt that has the name by handoff.
    taken: Option<Nonce>,
    served: bool,
    /// What the last attempt asked for; `None` before the first one that may be queued.
    asked_for: Option<Claim>,
    queued_at: QueuedAt,
    /// Of several names, the numbers of those in whose queues the call may be, and whether the last
    /// attempt had a turn at all of them.
    queued_for: BTreeSet<usize>,
    turn: bool,
    /// Whether a node said that a slot beyond the call's permits is free.
    others_have_more: bool,
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
            asked_for: None,
            handoff: offer,
            offers: Vec::new(),
            attempts: Vec::new(),
            taken: None,
            served: false,
            queued_at: QueuedAt::default(),
            queued_for: BTreeSet::new(),
            turn: false,
            others_have_more: false,
        }
    }

    /// All messages of the nodes since the last attempt began, once there are new ones.
    pub(super) async fn messages(&self) -> Messages {
        self.inbox.messages().await
    }

    /// Takes the slot of permits that a node has said is free. Passes on what this call cannot use: one
    /// more than it asks for, or a number beyond its permits (PROTOCOL.md W3).
    pub(super) fn take_free_slot(&mut self) -> Option<u16> {
        let mut told = self.inbox.take_free_slots();
        let is_ours = |slot: u16| self.claim.with_slot(slot).is_some();
        if let Some(slot) = told.iter().find(|slot| !is_ours(**slot))
            && !std::mem::replace(&mut self.others_have_more, true)
        {
            let name = self.claim.label();
            tracing::warn!(%name, slot, "another program uses more permits of the name: all must agree");
        }
        let slot = told.iter().copied().find(|slot| is_ours(*slot));
        told.retain(|other| Some(*other) != slot);
        if let Some(queue) = self.lessor.wait_queue() {
            told.into_iter().for_each(|slot| queue.pass_on(&self.claim.told_slot(slot)));
        }
        slot
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
        self.asked_for = Some(request.claim.clone());
        self.turn = approach.turn;
        let earlier = self.offers.iter().map(|(request, offer)| (request.nonce, *offer)).collect();
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
            earlier,
            queued_at: self.queued_at.clone(),
        })
    }

    /// Records that the last attempt was carried out: the queue entries of those before it are gone,
    /// and none of them has the name, unless the reply told it.
    pub(super) fn answered(&mut self) {
        if self.queued_at.handoffs().is_empty() {
            self.offers.drain(..self.offers.len().saturating_sub(1));
        }
    }

    /// Records that the attempt has no answer, and is released: a handoff to it counts no more, and its
    /// queue entry may be there.
    pub(super) fn abandoned(&mut self, nonce: Nonce) {
        self.attempts.retain(|(other, _)| *other != nonce);
    }

    /// Records that the last attempt was refused. Of several names, the call waits in the queues of
    /// those that refused it, and in no other, except for a turn (PROTOCOL.md SET4, SET5).
    pub(super) fn refused(&mut self) {
        if self.claim.is_one() {
            return;
        }
        let Some(queue) = self.lessor.wait_queue() else { return };
        let refused = self.queued_at.take_names();
        let now = if self.turn { (0..self.claim.count()).collect() } else { refused };
        let left = std::mem::replace(&mut self.queued_for, now);
        let names: Vec<_> = self.claim.of_each_name().collect();
        for at in left.difference(&self.queued_for) {
            queue.leave(&names[*at], None);
        }
    }

    pub(super) fn served(&mut self) {
        self.served = true;
    }

    /// The place in the queue that nodes told when they refused the last attempt.
    pub(super) fn take_place(&self) -> Option<u32> {
        self.queued_at.take_place()
    }

    /// What a release handed off to this call, as a message or the reply to a later attempt told
    /// (PROTOCOL.md W5). Gives back all that the call does not take.
    pub(super) fn take_handoff(&mut self, now: Instant) -> Handoff {
        let handed = self.handed_off();
        let open = |nonce: Nonce| {
            let attempt = self.attempts.iter().find(|(other, _)| *other == nonce);
            attempt.filter(|(_, until)| *until > now).copied()
        };
        let Some((nonce, until)) = handed.iter().find_map(|handed| open(handed.nonce)) else {
            self.give_back(&handed);
            return if handed.is_empty() { Handoff::None } else { Handoff::TooLate };
        };
        // A message and a reply may tell of one handoff, each with a token.
        let tokens =
            handed.iter().filter(|handed| handed.nonce == nonce).map(|handed| handed.token);
        let token = tokens.max().unwrap_or(FencingToken::NONE);
        self.taken = Some(nonce);
        self.give_back(&handed);
        // Leaving the queue as this attempt would release what it holds now. Other attempts may still be
        // queued, and those of a reader may hold the name beside this one.
        self.offers.retain(|(request, _)| request.nonce != nonce);
        self.served = self.offers.is_empty();
        Handoff::Taken(nonce, Grant { until, token, counted: false })
    }

    fn handed_off(&self) -> Vec<RemoteGrant> {
        [self.inbox.take_handoffs(), self.queued_at.take_handoffs()].concat()
    }

    /// Releases what was handed off to this call, except what it holds.
    fn give_back(&self, handed: &[RemoteGrant]) {
        let Some(offer) = self.handoff.map(|(offer, _)| offer) else { return };
        for handed in handed.iter().filter(|handed| self.taken != Some(handed.nonce)) {
            let (claim, nonce) = (self.claim.clone(), handed.nonce);
            self.release_handoff(LeaseRequest::new(claim, nonce, offer.ttl));
        }
    }

    /// Releases a handoff, as after an attempt that was given up.
    fn release_handoff(&self, request: LeaseRequest) {
        // The request is queued by now, and is sent again if it does not arrive.
        let hints = Hints::default();
        drop(self.lessor.release(request, HeldInterval::UNKNOWN, Lane::Caller, hints));
    }
}

/// What [`QueueTicket::take_handoff`] found.
pub(super) enum Handoff {
    None,
    /// The attempt has the name.
    Taken(Nonce, Grant),
    /// The leases of these attempts are no longer valid.
    TooLate,
}

impl Drop for QueueTicket {
    /// A node may have notified this waiter meanwhile, or handed the name off to it: both pass on
    /// to the next waiter (PROTOCOL.md W3, W5).
    fn drop(&mut self) {
        // From here on the node gives back what it is told of.
        self.subscriptions.clear();
        self.give_back(&self.handed_off());
        let Some(queue) = self.lessor.wait_queue() else { return };
        if !self.served && self.offers.is_empty() {
            self.asked_for.iter().for_each(|claim| queue.leave(claim, None));
        } else if !self.served {
            self.offers.iter().rev().for_each(|offer| queue.leave(&self.claim, Some(offer)));
        }
        // A slot that this call was told of, and does not need, is free for the next waiter.
        let told = self.inbox.take_free_slots();
        told.into_iter().for_each(|slot| queue.pass_on(&self.claim.told_slot(slot)));
    }
}
