//! The loop of a call that has the local permit: it carries out what [`Waiting`] says.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock_protocol::waiting::{
    Approach, Event, GiveUp, Granted, RefusedBy, Step, WaitOptions, Waiting,
};
use quorumlock_protocol::{
    Acquired, Claim, Error, HandoffOffer, Hints, Instant, LeaseRequest, LeaseTiming, NoMajority,
    NodeProblem, NodeReport, Notified, Settings, next_id, quorum_of,
};
use quorumlock_watchdog::LeaseState;

use super::guard::Guard;
use super::inner::Inner;
use super::lease::Lease;
use super::local_handoff::HandoffChain;
use super::local_queue::LocalPermit;
use super::lock_spec::LockSpec;
use super::queue_ticket::{Handoff, QueueTicket};
use super::slot_choice::SlotChoice;

/// One call, between its local permit and its guard.
pub(super) struct AcquireLoop<'a> {
    inner: &'a Arc<Inner>,
    spec: &'a LockSpec,
    /// Counts the attempts.
    rounds: &'a AtomicU32,
    /// Declared before `permit`, so that the queues are left before the next call of this process
    /// asks.
    ticket: Option<QueueTicket>,
    permit: LocalPermit<Lease>,
    slot: Option<SlotChoice>,
    waiting: Waiting,
    /// When the last event came. A lease that counts from it may end early, never late.
    now: Instant,
    /// Why the last attempt got no majority's answer; `None` if it got one.
    error: Option<Error>,
}

impl<'a> AcquireLoop<'a> {
    pub(super) fn new(
        inner: &'a Arc<Inner>,
        (spec, rounds): (&'a LockSpec, &'a AtomicU32),
        permit: LocalPermit<Lease>,
        now: Instant,
    ) -> Self {
        let waiting = Waiting::new(WaitOptions {
            deadline: spec.deadline,
            strict_order: inner.settings.strict_order,
            once: spec.once,
            fail_fast: spec.fail_fast,
            // Each attempt renews the offer, which must not get too old.
            lease: handoff_offer(inner, spec).map_or(spec.lease, |(offer, _)| offer.ttl),
            set: !spec.claim.is_one(),
            nodes: inner.lessor.nodes(),
            queues: inner.lessor.wait_queue().is_some(),
            polls: inner.settings.polls,
        });
        let slot = spec.claim.slots().map(|_| SlotChoice::new(inner, spec, &permit));
        Self { inner, spec, rounds, ticket: None, permit, slot, waiting, now, error: None }
    }

    /// Carries out one step after the other, until the lock is granted or the call gives up.
    pub(super) async fn run(mut self) -> Result<Guard, Error> {
        let notified = match self.spec.once {
            true => Notified::Nobody,
            false => self.permit.take_notified(self.now),
        };
        let mut event = Event::Permit(notified);
        loop {
            let entropy = &self.inner.entropy;
            event = match self.waiting.on(event, self.now, || entropy.fraction()) {
                Step::Ask(approach) => match self.ask(approach).await {
                    Ok(event) => event,
                    Err(error) => self.no_majority(error),
                },
                // Boxed, as everything that few calls need: the future should be small.
                Step::Inspect => Box::pin(self.inspect()).await,
                Step::Sleep(time) => Box::pin(self.sleep(time)).await,
                Step::Listen(longest) => Box::pin(self.listen(longest)).await,
                Step::Leave(time) => {
                    self.ticket = None;
                    Box::pin(self.sleep(time)).await
                }
                Step::Fail => {
                    let error = self.no_result();
                    self.no_majority(error)
                }
                Step::Hold(granted) => return Ok(self.guard(granted)),
                Step::GiveUp(GiveUp::Busy(remaining)) => {
                    return Err(self.spec.busy(remaining));
                }
                Step::GiveUp(GiveUp::NoMajority) => {
                    return Err(self.error.take().unwrap_or_else(|| self.no_result()));
                }
            };
            event = self.unless_handed_off(event);
        }
    }

    /// The event, unless a release handed the name off to this call meanwhile.
    fn unless_handed_off(&mut self, event: Event) -> Event {
        let Some(ticket) = self.ticket.as_mut().filter(|_| !matches!(event, Event::Granted(_)))
        else {
            return event;
        };
        match ticket.take_handoff(self.now) {
            Handoff::None => event,
            Handoff::Taken(nonce, grant) => {
                self.reached();
                Event::Granted(Granted { asked: self.now, nonce, grant })
            }
            // The call is in no queue, if the reply told it.
            Handoff::TooLate if matches!(event, Event::Refused { .. }) => Event::Retry,
            Handoff::TooLate => event,
        }
    }

    /// Makes one attempt. Of permits, asks for another slot if the first one is taken.
    async fn ask(&mut self, approach: Approach) -> Result<Event, Error> {
        let told = self.ticket.as_mut().and_then(QueueTicket::take_free_slot);
        if let Some(slot) = &mut self.slot {
            slot.begin(told);
        }
        loop {
            let event = self.ask_once(approach).await?;
            match (&mut self.slot, &event) {
                (Some(slot), Event::Refused { remaining, .. })
                    if remaining.is_some() || !approach.yields =>
                {
                    if !slot.try_another() {
                        return Ok(event);
                    }
                }
                _ => return Ok(event),
            }
        }
    }

    async fn ask_once(&mut self, approach: Approach) -> Result<Event, Error> {
        let (inner, spec, asked) = (self.inner, self.spec, self.now);
        let request = self.lease_request()?;
        if approach.subscribe {
            self.subscribe();
        }
        let enqueue = self
            .ticket
            .as_mut()
            .and_then(|ticket| ticket.register_attempt((&request, asked), &approach));
        let alone = self.ticket.is_none() && self.permit.waiting() == 0;
        // A script tells which slots are free, which is worth it once one was refused.
        let first = self.slot.as_ref().is_none_or(|slot| {
            slot.is_first() && !inner.local_queues.is_contended(&spec.claim, &inner.clock)
        });
        let hints = Hints::new(&approach, alone && first && spec.claim.is_one(), enqueue);
        let hints = match &mut self.slot {
            Some(slot) => hints.with_free_slots(slot.reports()),
            None => hints,
        };
        let nonce = request.nonce;
        let fencing = inner.settings.fencing;
        self.rounds.fetch_add(1, Ordering::Relaxed);
        let acquired = inner.lessor.acquire(request, fencing, hints).await;
        if let Some(ticket) = &mut self.ticket {
            match &acquired {
                Ok(Acquired::Retry) | Err(_) => ticket.abandoned(nonce),
                Ok(_) => ticket.answered(),
            }
        }
        let acquired = acquired?;
        let (remaining, by) = match acquired {
            Acquired::Granted(grant) => {
                self.ticket.as_mut().map(QueueTicket::served);
                self.reached();
                return Ok(Event::Granted(Granted { asked, nonce, grant }));
            }
            Acquired::Retry => {
                self.now = inner.clock.now();
                return Ok(Event::Retry);
            }
            Acquired::Busy(remaining) => (remaining, RefusedBy::HomeNode),
            Acquired::BusyElsewhere(remaining) => (remaining, RefusedBy::Others),
            Acquired::Split(remaining) => (remaining, RefusedBy::SplitVotes),
        };
        self.reached();
        self.ticket.as_mut().map(QueueTicket::refused);
        self.now = inner.clock.now();
        if !spec.once {
            self.permit.contended(self.now);
        }
        let place = self.ticket.as_ref().and_then(QueueTicket::take_place);
        Ok(Event::Refused { remaining, by, place })
    }

    /// The lease request of one attempt. Its nonce is fresh, so that the replies of two attempts
    /// never mix.
    fn lease_request(&self) -> Result<LeaseRequest, Error> {
        let nonce = self.inner.nonce()?;
        let label = self.spec.label.clone();
        Ok(LeaseRequest { label, ..LeaseRequest::new(self.claim(), nonce, self.spec.ttl()) })
    }

    /// What an attempt asks for.
    fn claim(&self) -> Claim {
        self.slot.as_ref().map_or_else(|| self.spec.claim.clone(), SlotChoice::claim)
    }

    /// Records that a majority answered.
    fn reached(&mut self) {
        if self.error.take().is_some() {
            self.permit.reached();
            self.inner.telemetry.nodes_answer();
        }
    }

    fn no_majority(&mut self, error: Error) -> Event {
        // Nothing is wrong with the nodes: only the task that served their connections ended.
        if let Error::Unreachable(none) = &error
            && none.nodes.iter().any(|node| node.problem == NodeProblem::RuntimeEnded)
        {
            self.now = self.inner.clock.now();
            return Event::Retry;
        }
        let since = self.permit.troubled(&error, self.now);
        let may_heal = self.spec.heals(&error);
        if self.error.is_none() && may_heal && !self.spec.fail_fast {
            self.inner.telemetry.waits_for_nodes(&self.spec.claim, &error);
        }
        self.error = Some(error);
        self.now = self.inner.clock.now();
        Event::NoMajority { since, may_heal }
    }

    /// The error of a call whose attempts ended with [`Acquired::Retry`] too often: nodes had to be
    /// verified, or other clients moved their marks.
    fn no_result(&self) -> Error {
        let nodes = self.inner.lessor.nodes();
        let report = NodeReport::new("its nodes", NodeProblem::Reverified);
        let name = Some(self.spec.claim.label());
        NoMajority::new(name, (nodes, quorum_of(nodes)), 0, vec![report]).into()
    }

    /// Whether any name is held. One that too few nodes say is held may be free.
    async fn inspect(&mut self) -> Event {
        for claim in self.claim().of_each_name() {
            match self.inner.lessor.inspect(claim).await {
                Ok(None) => {}
                Ok(Some(_)) => return Event::Inspected { held: true },
                Err(error) if error.names_holder() => {}
                Err(error) => {
                    self.error = Some(error);
                    return Event::NoMajority { since: self.now, may_heal: false };
                }
            }
        }
        Event::Inspected { held: false }
    }

    async fn sleep(&mut self, time: Duration) -> Event {
        tokio::time::sleep(time).await;
        self.now = self.inner.clock.now();
        Event::Timer
    }

    /// No message is relied upon (SAFETY.md H22).
    async fn listen(&mut self, longest: Duration) -> Event {
        let told = tokio::time::timeout(longest, self.subscribe().messages()).await;
        self.now = self.inner.clock.now();
        let Ok(messages) = told else { return Event::Timer };
        // It may change once more servers are known by their run ids (PROTOCOL.md W7).
        let home = self.inner.lessor.home(&self.spec.claim.queue());
        Event::Messages(messages, home)
    }

    /// A new subscription wakes this call once, so that a release before it is not missed.
    fn subscribe(&mut self) -> &QueueTicket {
        let Self { inner, spec, .. } = *self;
        let offer = handoff_offer(inner, spec);
        self.ticket.get_or_insert_with(|| QueueTicket::join(&inner.lessor, &spec.claim, offer))
    }

    /// Makes the guard of a grant.
    fn guard(self, granted: Granted) -> Guard {
        let Granted { asked, nonce, grant } = granted;
        let claim = self.claim();
        let Self { inner, spec, permit, slot, ticket, .. } = self;
        drop(ticket);
        // A holder of a slot keeps the permit for this slot alone, and a reader keeps none: the next
        // call may ask for other slots, or read, too.
        let permit = match slot {
            Some(slot) => slot.permit(permit),
            None => (!claim.is_shared()).then_some(permit),
        };
        let timing = LeaseTiming {
            lease: spec.ttl(),
            until: grant.until,
            hold_until: spec.hold_at_most.map(|limit| asked + limit),
        };
        let tokens = HandoffChain::begin(asked, grant);
        let state = LeaseState::new(inner.clock.clone(), timing);
        let lease = Arc::new(Lease {
            permit: Mutex::new(permit),
            hold_at_most: spec.hold_at_most,
            label: spec.label.clone(),
            ..Lease::new(next_id(), (claim, nonce), tokens, state, asked)
        });
        inner.telemetry.hold_began(&lease.claim);
        inner.watchdog.watch(&lease, asked);
        Guard::new(inner.clone(), lease)
    }
}

/// The lease that a call accepts by handoff, if the lessor supports handoff, and the bound on the
/// node's clock drift. A hold with a label is asked for: the node that hands a name off knows no label.
fn handoff_offer(inner: &Inner, spec: &LockSpec) -> Option<(HandoffOffer, f64)> {
    let Settings { fencing, max_clock_drift, .. } = inner.settings;
    let queue = inner
        .lessor
        .wait_queue()
        .filter(|_| spec.label.is_none() && spec.claim.accepts_handoff())?;
    let offer = || HandoffOffer { ttl: spec.ttl(), fencing };
    queue.supports_handoff().then(|| (offer(), max_clock_drift))
}
