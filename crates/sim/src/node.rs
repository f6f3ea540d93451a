use std::sync::Arc;

use quorumlock_protocol::admission::members::Terms;
use quorumlock_protocol::admission::{AdmissionRpc, AdmitRequest, Marks, NodeInfo, NoteRequest};
use quorumlock_protocol::{
    Acceptance, Answer, BoxFuture, Fence, HandoffOffer, HeldInterval, Hints, Holder, Incarnation,
    Instant, Lane, LeaseRequest, Name, Node, NodeProblem, NodeReport, QueueAction, ReleaseOutcome,
    ReplyFuture, ReplySink, Responder, Subscription, Vote, WaitEvent, WaitQueue,
};

use super::bug::Bug;
use super::event::Event;
use super::link::LinkId;
use super::request::{AdmissionReply, AdmissionRequest, SimRequest, SimResponder};
use super::store::Store;
use super::world::World;

/// A simulated node as one client sees it. It implements the same trait as the real one.
#[derive(Debug)]
pub struct SimNode {
    world: World,
    client: usize,
    node: usize,
    label: String,
    member: Arc<str>,
}

impl SimNode {
    pub fn new(world: World, client: usize, node: usize) -> Self {
        let (label, member) = world.with(|state| {
            let server = &state.servers[node];
            (server.label.clone(), server.member.clone())
        });
        Self { world, client, node, label, member }
    }

    /// Deletes a lock by hand, as an operator would. Returns whether it existed.
    pub fn delete(&self, name: &Name) -> bool {
        self.world.with(|state| state.servers[self.node].store.drop_lock(name))
    }

    /// Deletes all data by hand. The server keeps running.
    pub fn flush(&self) {
        self.world.with(|state| state.servers[self.node].store = Store::default());
    }

    /// The mark of a name's slot.
    pub fn mark(&self, name: &Name) -> Option<u64> {
        self.world.with(|state| state.servers[self.node].store.marks.get(&name.slot()).copied())
    }

    /// The number of waiters for a name.
    pub fn waiting(&self, name: &Name) -> usize {
        self.world.with(|state| {
            let server = &state.servers[self.node];
            server.store.waiting(name, server.clock.micros(state.now))
        })
    }

    /// Whether the node can notify this client.
    pub fn can_notify(&self) -> bool {
        self.world.with(|state| {
            let process = state.processes.get(self.client);
            process.is_some_and(|process| process.subscribed[self.node].1)
        })
    }

    fn post(&self, lane: Lane, request: SimRequest, to: SimResponder) {
        let link = LinkId { client: self.client, node: self.node, lane };
        self.world.with(|state| state.post(link, request, to));
    }
}

impl Node for SimNode {
    fn label(&self) -> &str {
        &self.label
    }

    fn identity(&self) -> u64 {
        self.world.with(|state| state.identity(self.client, self.node))
    }

    fn incarnation(&self) -> Incarnation {
        self.world.with(|state| state.known_incarnation(self.client, self.node))
    }

    fn acquire(
        &self,
        lease: &LeaseRequest,
        token: Fence,
        incarnation: Incarnation,
        hints: Hints,
        to: Responder<Answer<Vote>>,
    ) {
        let hints = hints.if_notified(self.can_notify());
        self.post(
            Lane::Caller,
            SimRequest::Acquire(lease.clone(), token, incarnation, hints),
            SimResponder::Vote(to),
        );
    }

    fn raise(
        &self,
        lease: &LeaseRequest,
        token: Fence,
        incarnation: Incarnation,
        to: Responder<Answer<Acceptance>>,
    ) {
        self.post(
            Lane::Caller,
            SimRequest::Raise(lease.clone(), token, incarnation),
            SimResponder::Raised(to),
        );
    }

    fn regrant(
        &self,
        lease: &LeaseRequest,
        fence: Fence,
        lane: Lane,
        to: Responder<Answer<Instant>>,
    ) {
        self.post(lane, SimRequest::Regrant(lease.clone(), fence), SimResponder::One(to));
    }

    fn renew(&self, leases: &[LeaseRequest], lane: Lane, to: Responder<Vec<Answer<Instant>>>) {
        self.post(lane, SimRequest::Renew(leases.to_vec()), SimResponder::Until(to));
    }

    fn release(
        &self,
        lease: &LeaseRequest,
        held: HeldInterval,
        lane: Lane,
        hints: Hints,
        to: Responder<Answer<ReleaseOutcome>>,
    ) {
        let hints = hints.if_notified(self.can_notify());
        let queue_action = hints.enqueue().map(|place| QueueAction::KeepPlace(place.waited));
        self.post(lane, SimRequest::release(lease, held, queue_action), SimResponder::Freed(to));
    }

    fn connected_since(&self, lane: Lane) -> Option<Instant> {
        let link = LinkId { client: self.client, node: self.node, lane };
        self.world.with(|state| state.connected_since(link))
    }

    fn inspect(&self, name: &Name, to: Responder<Answer<Option<Holder>>>) {
        self.post(Lane::Caller, SimRequest::Inspect(name.clone()), SimResponder::Holder(to));
    }

    fn force_release(&self, name: &Name, to: Responder<Answer<bool>>) {
        self.post(Lane::Caller, SimRequest::ForceRelease(name.clone()), SimResponder::Forced(to));
    }

    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        Some(self)
    }
}

impl WaitQueue for SimNode {
    fn leave(&self, name: &Name, offered: Option<&(LeaseRequest, HandoffOffer)>) {
        if let Some((lease, offer)) = offered {
            let release =
                SimRequest::release(lease, HeldInterval::UNKNOWN, Some(QueueAction::Leave(*offer)));
            self.post(Lane::Caller, release, SimResponder::Freed(Responder::nobody()));
        } else if self.can_notify() {
            self.post(
                Lane::Caller,
                SimRequest::Dequeue(name.clone()),
                SimResponder::Forced(Responder::nobody()),
            );
        }
    }

    fn supports_handoff(&self) -> bool {
        self.world.with(|state| state.plan.cluster.is_none())
    }

    fn subscribe(
        &self,
        name: &Name,
        to: Arc<dyn ReplySink<WaitEvent>>,
        from: usize,
    ) -> Subscription {
        let (client, node) = (self.client, self.node);
        let id = self.world.with(|state| {
            if state.closed {
                return 0;
            }
            let id = state.processes[client].subscribe(node, name, (to, from));
            match state.processes[client].subscribed[node] {
                (_, true) if state.bug == Some(Bug::NoLookAfterSubscribe) => {}
                // The channel is subscribed already; the new subscriber must retry once all the
                // same.
                (_, true) => state.notify_subscribers(client, node, name, WaitEvent::Retry),
                (true, false) => {}
                (false, false) => {
                    state.processes[client].subscribed[node].0 = true;
                    let delay = state.subscription_latency(client, node);
                    state.after(delay, Event::Subscribe(client, node));
                }
            }
            id
        });
        Box::new(SubscriptionGuard {
            world: self.world.clone(),
            client,
            node,
            name: name.clone(),
            id,
        })
    }
}

impl SimNode {
    fn admission(
        &self,
        request: AdmissionRequest,
    ) -> BoxFuture<Result<AdmissionReply, NodeReport>> {
        let (slot, to) = ReplyFuture::new();
        self.post(Lane::Watchdog, SimRequest::Admission(request), SimResponder::Admission(to));
        let label = self.label.clone();
        Box::pin(async move {
            match slot.await {
                Answer::Yes(filed) => Ok(filed),
                Answer::No(denial) => {
                    Err(NodeReport::new(label, NodeProblem::Malformed(format!("{denial:?}"))))
                }
                Answer::NoAnswer(no_answer) => Err(no_answer.report().clone()),
            }
        })
    }

    fn done(&self, request: AdmissionRequest) -> BoxFuture<Result<bool, NodeReport>> {
        let answer = self.admission(request);
        Box::pin(
            async move { answer.await.map(|reply| matches!(reply, AdmissionReply::Number(1))) },
        )
    }
}

impl AdmissionRpc for SimNode {
    fn member(&self) -> &Arc<str> {
        &self.member
    }

    fn proven(&self) -> bool {
        self.world.with(|state| state.known_proven(self.client, self.node))
    }

    fn node_info(&self) -> BoxFuture<Result<NodeInfo, NodeReport>> {
        let answer = self.admission(AdmissionRequest::NodeInfo);
        let label = self.label.clone();
        Box::pin(async move {
            match answer.await? {
                AdmissionReply::NodeInfo(sheet) => Ok(*sheet),
                AdmissionReply::Number(_) | AdmissionReply::Marks(_) => {
                    Err(NodeReport::new(label, NodeProblem::Malformed("no sheet".into())))
                }
            }
        })
    }

    fn note(&self, note: NoteRequest) -> BoxFuture<Result<bool, NodeReport>> {
        self.done(AdmissionRequest::Note(note))
    }

    fn barrier(&self, incarnation: &str) -> BoxFuture<Result<Marks, NodeReport>> {
        let answer = self.admission(AdmissionRequest::Barrier(incarnation.to_owned()));
        let label = self.label.clone();
        Box::pin(async move {
            match answer.await? {
                AdmissionReply::Marks(marks) => Ok(marks),
                _ => Err(NodeReport::new(label, NodeProblem::Malformed("no marks".into()))),
            }
        })
    }

    fn admit(&self, request: AdmitRequest) -> BoxFuture<Result<bool, NodeReport>> {
        self.done(AdmissionRequest::Admit(request))
    }

    fn write_terms(
        &self,
        found: Incarnation,
        terms: &Terms,
        incarnation: &str,
    ) -> BoxFuture<Result<bool, NodeReport>> {
        self.done(AdmissionRequest::WriteTerms(found, terms.clone(), incarnation.to_owned()))
    }

    fn provision(
        &self,
        found: Option<Incarnation>,
        terms: &Terms,
        incarnation: &str,
    ) -> BoxFuture<Result<bool, NodeReport>> {
        self.done(AdmissionRequest::Provision(found, terms.clone(), incarnation.to_owned()))
    }

    fn other_databases(&self) -> BoxFuture<Result<Vec<u64>, NodeReport>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

struct SubscriptionGuard {
    world: World,
    client: usize,
    node: usize,
    name: Name,
    id: u64,
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        let gone = self.world.with(|state| {
            let process = state.processes.get_mut(self.client)?;
            process.unsubscribe(self.node, &self.name, self.id)
        });
        // Dropped outside the world's lock: it may be the last reference to code that calls back
        // into the world.
        drop(gone);
    }
}
