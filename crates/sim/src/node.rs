use std::sync::{Arc, Mutex};

use quorumlock_protocol::admission::members::Terms;
use quorumlock_protocol::admission::{AdmissionRpc, AdmitRequest, Marks, NodeInfo, NoteRequest};
use quorumlock_protocol::{
    Acceptance, Answer, BoxFuture, Claim, ConfigError, FencingToken, HandoffOffer, HeldInterval,
    Hints, Holder, Incarnation, Instant, Lane, LeaseRequest, Name, Node, NodeReport, Nonce,
    ReleaseOutcome, ReplySink, Responder, Subscription, Vote, WaitEvent, WaitQueue, expiry,
};
use quorumlock_redis::RedisNode;
use quorumlock_redis::simulation::{SimulatedClient, Site};

use super::bug::Bug;
use super::faults::Fault;
use super::invariants::wake;
use super::mutants;
use super::network::SimNetwork;
use super::plan::Plan;
use super::request::SimRequest;
use super::server::label;
use super::tap::{Again, Followed, MessageTap, Posted, Tap, Unsubscribe};
use super::time::node_wall_clock;
use super::world::World;
use crate::dice::Dice;

/// A node of a simulated client: the library's own, over the simulated network. The simulation
/// follows what passes between the client's code and the node.
#[derive(Clone, Debug)]
pub struct SimNode {
    world: World,
    client: usize,
    node: usize,
    bug: Option<Bug>,
    inner: Arc<RedisNode>,
    /// With some planted bugs: the same node without admission.
    unbound: Option<Arc<RedisNode>>,
}

impl SimNode {
    /// The nodes of a client process.
    ///
    /// # Errors
    /// As the library: the plan is wrong.
    pub fn all(world: &World, client: usize) -> Result<Vec<Self>, ConfigError> {
        let (plan, bug) = world.with(|state| (state.plan.clone(), state.bug));
        let inner = redis_nodes(world, &plan, client, true)?;
        let asks_unproven = matches!(bug, Some(Bug::RenewsUnproven | Bug::RecreatesUnproven));
        let mut unbound = match asks_unproven {
            true => redis_nodes(world, &plan, client, false)?,
            false => Vec::new(),
        }
        .into_iter();
        let nodes: Vec<_> = inner
            .into_iter()
            .enumerate()
            .map(|(node, inner)| Self {
                world: world.clone(),
                client,
                node,
                bug,
                inner: Arc::new(inner),
                unbound: unbound.next().map(Arc::new),
            })
            .collect();
        let known = nodes.iter().map(|node| Arc::downgrade(&node.inner)).collect();
        world.with(|state| state.processes[client].nodes = known);
        Ok(nodes)
    }

    /// Dials the node now, before its first request.
    pub fn connect(&self) {
        connect(&self.inner);
    }

    fn posted(&self, request: SimRequest) -> Option<Posted> {
        let up = self.inner.connected_since(Lane::Caller).is_some_and(|at| at > Instant::NEVER);
        self.world.with(|state| state.posted((self.client, self.node), request, up))
    }

    /// Posts a request for a vote, and returns the node that it goes to.
    fn posted_vote(&self, request: SimRequest) -> Option<(Posted, &RedisNode)> {
        let voter = self.voter(&request);
        let unproven = !std::ptr::eq(voter, &*self.inner);
        Some((Posted { unproven, ..self.posted(request)? }, voter))
    }

    fn tap<T: Followed>(&self, posted: Posted, to: Responder<T>) -> Responder<T> {
        self.tap_again(posted, to, None)
    }

    fn tap_again<T: Followed>(
        &self,
        posted: Posted,
        to: Responder<T>,
        again: Option<Again<T>>,
    ) -> Responder<T> {
        let frees = self.bug == Some(Bug::FreesUnheard);
        let after: Option<fn(&World, &Posted)> = frees.then_some(mutants::frees_unheard);
        let (world, to) = (self.world.clone(), Mutex::new(Some(to)));
        let tap = Tap { world, posted, to, after, again };
        Responder::new(Arc::new(tap), 0)
    }

    /// The node that a request for a vote goes to.
    fn voter(&self, request: &SimRequest) -> &RedisNode {
        match &self.unbound {
            Some(unbound)
                if mutants::asks_unproven(self.bug, request)
                    && !AdmissionRpc::proven(&*self.inner) =>
            {
                unbound
            }
            _ => &self.inner,
        }
    }

    /// The incarnation that a request rests on, as `voter` knows it.
    fn incarnation_of(&self, asked: Incarnation, voter: &RedisNode) -> Incarnation {
        match std::ptr::eq(voter, &*self.inner) {
            true => asked,
            false => voter.incarnation(),
        }
    }

    /// A planted bug: an acquisition is bound to the incarnation of when it is sent.
    fn acquire_when_sent(
        &self,
        posted: Posted,
        (lease, token): (LeaseRequest, FencingToken),
        hints: Hints,
        to: Responder<Answer<Vote>>,
    ) {
        let again: Again<_> = {
            let (node, posted, lease) = (self.clone(), posted.clone(), lease.clone());
            let hints = hints.clone();
            Box::new(move |to| {
                node.acquire_when_sent(posted.clone(), (lease.clone(), token), hints.clone(), to);
            })
        };
        let to = self.tap_again(posted, to, Some(again));
        self.inner.acquire(&lease, token, self.inner.incarnation(), hints, to);
    }
}

/// Dials the node now, before its first request.
pub fn connect(node: &RedisNode) {
    for lane in [Lane::Caller, Lane::Watchdog] {
        node.renew(&[], lane, Responder::nobody());
    }
}

/// The library's own nodes of a client process, over the simulated network. Nothing follows what
/// passes.
pub fn redis_nodes(
    world: &World,
    plan: &Plan,
    client: usize,
    bound: bool,
) -> Result<Vec<RedisNode>, ConfigError> {
    let (clock, right_clocks, start) = world.with(|state| {
        let right_clocks: Vec<_> =
            state.servers.iter().map(|server| server.right_clock.clone()).collect();
        (state.processes[client].clock.clone(), right_clocks, state.start)
    });
    let sites = right_clocks.into_iter().enumerate().map(|(node, right_clock)| Site {
        url: format!("{}?label={}", label(node), super::plan::member(node)),
        clock: node_wall_clock(&clock, right_clock, start),
        network: SimNetwork::new(world.clone(), client, node),
    });
    let mut dice = Dice::new(plan.seed, 3_000_000 + client as u64);
    let waiter = u128::from(dice.next_u64()) << 64 | u128::from(dice.next_u64());
    SimulatedClient {
        layout: plan.layout,
        cluster: plan.cluster.as_ref().filter(|_| bound),
        settings: &plan.settings(),
        waiter: Nonce::from_u128(waiter),
        hands_off: plan.nodes == 1,
    }
    .nodes(sites.collect())
}

impl Node for SimNode {
    fn label(&self) -> &str {
        self.inner.label()
    }

    fn identity(&self) -> u64 {
        self.inner.identity()
    }

    fn incarnation(&self) -> Incarnation {
        self.inner.incarnation()
    }

    fn acquire(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        incarnation: Incarnation,
        hints: Hints,
        to: Responder<Answer<Vote>>,
    ) {
        let request = SimRequest::Acquire(lease.clone());
        let Some((posted, voter)) = self.posted_vote(request) else { return };
        let queued_at = hints.enqueue().map(|enqueue| enqueue.queued_at.clone());
        let posted = Posted { queued_at, ..posted };
        let incarnation = self.incarnation_of(incarnation, voter);
        if let Some(offer) = hints.enqueue().and_then(|enqueue| enqueue.handoff) {
            self.world.with(|state| {
                let until = expiry(posted.asked, offer.ttl, mutants::max_clock_drift(state));
                state.ledger.offered(lease.nonce, until);
            });
        }
        if self.bug == Some(Bug::BoundWhenSent) {
            return self.acquire_when_sent(posted, (lease.clone(), token), hints, to);
        }
        voter.acquire(lease, token, incarnation, hints, self.tap(posted, to));
    }

    fn raise(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        incarnation: Incarnation,
        to: Responder<Answer<Acceptance>>,
    ) {
        let incarnation = self.incarnation_of(incarnation, &self.inner);
        let Some(posted) = self.posted(SimRequest::Raise(lease.clone())) else { return };
        self.inner.raise(lease, token, incarnation, self.tap(posted, to));
    }

    fn regrant(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        lane: Lane,
        to: Responder<Answer<Instant>>,
    ) {
        let request = SimRequest::Regrant(lease.clone());
        let Some((posted, voter)) = self.posted_vote(request) else { return };
        voter.regrant(lease, token, lane, self.tap(posted, to));
    }

    fn renew(&self, leases: &[LeaseRequest], lane: Lane, to: Responder<Vec<Answer<Instant>>>) {
        let request = SimRequest::Renew(leases.to_vec());
        let Some((posted, voter)) = self.posted_vote(request) else { return };
        voter.renew(leases, lane, self.tap(posted, to));
    }

    fn release(
        &self,
        lease: &LeaseRequest,
        held: HeldInterval,
        lane: Lane,
        hints: Hints,
        to: Responder<Answer<ReleaseOutcome>>,
    ) {
        let Some(posted) = self.posted(SimRequest::Release(lease.clone())) else { return };
        if self.world.with(|state| mutants::swallows(state, &posted)) {
            return;
        }
        self.inner.release(lease, held, lane, hints, self.tap(posted, to));
    }

    fn connected_since(&self, lane: Lane) -> Option<Instant> {
        self.inner.connected_since(lane)
    }

    fn greeted(&self) -> bool {
        self.inner.greeted()
    }

    fn inspect(&self, claim: &Claim, to: Responder<Answer<Option<Holder>>>) {
        self.inner.inspect(claim, to);
    }

    fn force_release(&self, claim: &Claim, of: Option<&str>, to: Responder<Answer<bool>>) {
        self.inner.force_release(claim, of, to);
    }

    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        Some(self)
    }
}

impl WaitQueue for SimNode {
    fn leave(&self, claim: &Claim, offered: Option<&(LeaseRequest, HandoffOffer)>) {
        self.world.with(|state| wake::passes_on(state, self.client, claim));
        if let Some((lease, _)) = offered {
            // The request also releases the name, if it was handed off.
            self.posted(SimRequest::Release(lease.clone()));
            self.world.with(|state| state.unasked(self.node, lease.nonce, lease.ttl));
        }
        WaitQueue::leave(&*self.inner, claim, offered);
    }

    fn pass_on(&self, claim: &Claim) {
        self.world.with(|state| wake::passes_on(state, self.client, claim));
        WaitQueue::pass_on(&*self.inner, claim);
    }

    fn supports_handoff(&self) -> bool {
        WaitQueue::supports_handoff(&*self.inner)
    }

    fn subscribe(
        &self,
        name: &Name,
        to: Arc<dyn ReplySink<WaitEvent>>,
        from: usize,
    ) -> Subscription {
        let (world, client) = (self.world.clone(), self.client);
        self.world.with(|state| {
            if let Some(process) = state.processes.get_mut(client) {
                process.subscribe(self.node, name);
            }
        });
        let gone =
            Unsubscribe { world: world.clone(), client, node: self.node, name: name.clone() };
        let tap = Arc::new(MessageTap { world, client, to });
        Box::new((WaitQueue::subscribe(&*self.inner, name, tap, from), gone))
    }

    /// In plans without forced releases no client listens for them, so that those runs are the shorter.
    fn hear_forced(&self, locker: Nonce, to: Arc<dyn ReplySink<Nonce>>) {
        if self.world.with(|state| state.plan.faults.contains(&Fault::ForceUnlock)) {
            WaitQueue::hear_forced(&*self.inner, locker, to);
        }
    }
}

impl AdmissionRpc for SimNode {
    fn member(&self) -> &Arc<str> {
        self.inner.member()
    }

    fn proven(&self) -> bool {
        AdmissionRpc::proven(&*self.inner)
    }

    fn node_info(&self) -> BoxFuture<Result<NodeInfo, NodeReport>> {
        self.world.with(|state| {
            if let Some(process) = state.processes.get_mut(self.client) {
                process.helpers.clear();
            }
        });
        self.inner.node_info()
    }

    fn note(&self, note: NoteRequest) -> BoxFuture<Result<bool, NodeReport>> {
        self.inner.note(note)
    }

    fn barrier(&self, incarnation: &str) -> BoxFuture<Result<Marks, NodeReport>> {
        self.inner.barrier(incarnation)
    }

    fn admit(&self, request: AdmitRequest) -> BoxFuture<Result<bool, NodeReport>> {
        self.inner.admit(request)
    }

    fn write_terms(
        &self,
        found: Incarnation,
        terms: &Terms,
        incarnation: &str,
    ) -> BoxFuture<Result<bool, NodeReport>> {
        self.inner.write_terms(found, terms, incarnation)
    }

    fn provision(
        &self,
        found: Option<Incarnation>,
        terms: &Terms,
        incarnation: &str,
    ) -> BoxFuture<Result<bool, NodeReport>> {
        self.inner.provision(found, terms, incarnation)
    }

    fn other_databases(&self) -> BoxFuture<Result<Vec<u64>, NodeReport>> {
        self.inner.other_databases()
    }
}
