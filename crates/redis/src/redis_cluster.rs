//! A Redis Cluster as one node: which member serves which slot, and what goes where.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use quorumlock_protocol::{
    Acceptance, Answer, ConfigError, Denial, Fence, HandoffOffer, HeldInterval, Hints, Holder,
    Incarnation, Instant, Lane, LeaseRequest, Name, NoAnswer, Node, NodeProblem, Nonce, OnDropped,
    ReleaseOutcome, ReplySink, Responder, Settings, Subscription, Vote, WaitEvent, WaitQueue, Wire,
    next_id,
};
use quorumlock_watchdog::Clock;
use tokio::runtime::Handle;

use crate::command::Command;
use crate::dial::{Dialer, RunIdRegistry};
use crate::handshake::ask_slots;
use crate::master::{Addresses, MasterResolver};
use crate::network::Network;
use crate::node::{MAX_REPLICAS, NodeFactory, RedisNode, Targets, parse};
use crate::redirect::{Endpoint, Redirected, Router, SlotRange, Source, pause_before, read_slots};
use crate::resp::Value;
use crate::unconfirmed_releases::UnconfirmedRelease;

/// A Redis Cluster as one node: the vote on a name is that of the master which serves its slot
/// (PROTOCOL.md, Redis Cluster).
///
/// It has a [`RedisNode`] for each master that it has met. It learns which member serves a slot from
/// each new connection, and from members that send a request on (SLOT5).
#[derive(Debug)]
pub struct RedisCluster(Arc<Shared>);

struct Shared {
    /// Any of the given addresses: asked while it is unknown which member serves a slot.
    seeds: Arc<RedisNode>,
    /// The address of one seed, with the user, password and TLS of all members.
    seed: Arc<Dialer>,
    kind: MemberKind,
    router: Weak<Self>,
    state: Mutex<State>,
}

/// What the members have in common.
struct MemberKind {
    wire: Wire,
    settings: Settings,
    clock: Clock,
    client_id: u64,
    /// The id of the seeds in queues. Those of the members follow it: each has its own, since a message
    /// to one reaches the subscribers of all members.
    waiter: Nonce,
}

struct State {
    /// The members that serve slots, by their labels.
    members: BTreeMap<String, Arc<RedisNode>>,
    /// Which member serves each slot, as far as it is known.
    masters: Vec<Option<Arc<RedisNode>>>,
    waiters: BTreeMap<u64, Waiter>,
    /// How many members were met.
    met: u64,
    /// Whether a member is being asked about the slots, and when another one may be.
    looking: bool,
    look_again: Instant,
    /// How often one was asked.
    looked: usize,
}

/// A caller that waits for a name, subscribed at the member that serves the name.
struct Waiter {
    name: Name,
    to: Arc<dyn ReplySink<WaitEvent>>,
    from: usize,
    at: Arc<RedisNode>,
    subscription: Subscription,
}

/// Members are asked about the slots no more often: many requests may be redirected at once.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The Redis Cluster of which the servers at `urls` are members. Does no I/O.
///
/// # Errors
/// As [`redis_nodes`](crate::redis_nodes), and for a database number or a Unix socket.
pub fn redis_cluster(
    urls: &[impl AsRef<str>],
    wire: Wire,
    settings: &Settings,
    clock: &Clock,
) -> Result<RedisCluster, ConfigError> {
    settings.check()?;
    settings.check_redisson_fenced(wire, Some("a Redis Cluster"))?;
    settings.check_replicas(MAX_REPLICAS)?;
    let targets = parse(urls)?;
    for (option, given) in [
        ("a database number", targets.iter().any(|target| target.redis().db() != 0)),
        ("a Unix socket", targets.iter().any(|target| target.host().is_none())),
    ] {
        if given {
            return Err(ConfigError::DoesNotApply { option, servers: "a Redis Cluster" });
        }
    }
    let kind = MemberKind {
        wire,
        settings: settings.clone(),
        clock: clock.clone(),
        client_id: next_id(),
        waiter: Nonce::fresh()?,
    };
    let resolver = kind.factory(0, None).resolver(Targets::AnyOf(targets))?;
    let seed = resolver.first().cloned().ok_or(ConfigError::NoNodes)?;
    Ok(RedisCluster(Arc::new_cyclic(|router: &Weak<Shared>| {
        let seeds = kind.factory(0, Some(router.clone()));
        Shared {
            seeds: Arc::new(seeds.node_over(resolver, &seed.target, true)),
            seed,
            router: router.clone(),
            state: Mutex::new(State::new()),
            kind,
        }
    })))
}

impl MemberKind {
    fn factory(&self, number: u64, router: Option<Weak<Shared>>) -> NodeFactory<'_> {
        NodeFactory {
            wire: self.wire,
            cluster: None,
            settings: &self.settings,
            clock: &self.clock,
            run_ids: RunIdRegistry::default(),
            client_id: self.client_id,
            waiter: Nonce::from_u128(self.waiter.as_u128().wrapping_add(number.into())),
            name_channels: self.wire == Wire::Redisson,
            // The count of a message's subscribers is that of one member, and the message reaches all
            // (PROTOCOL.md SLOT4).
            supports_handoff: false,
            network: Network::System,
            router: router.map(|router| router as Weak<dyn Router>),
        }
    }
}

impl RedisCluster {
    /// Asks a member for all masters: their URLs, with users and passwords.
    ///
    /// # Errors
    /// Why no member names any.
    #[doc(hidden)]
    pub async fn discovered_urls(&self) -> Result<Option<Vec<String>>, NodeProblem> {
        self.0.seeds.discovered_urls().await
    }
}

impl Node for RedisCluster {
    fn label(&self) -> &str {
        self.0.seeds.label()
    }

    fn identity(&self) -> u64 {
        self.0.seeds.identity()
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation::NONE
    }

    fn acquire(
        &self,
        lease: &LeaseRequest,
        token: Fence,
        stamp: Incarnation,
        hints: Hints,
        to: Responder<Answer<Vote>>,
    ) {
        match one_slot(&lease.name) {
            Ok(()) => self.0.master_of(&lease.name).acquire(lease, token, stamp, hints, to),
            Err(denial) => to.send(Answer::No(denial)),
        }
    }

    fn raise(
        &self,
        lease: &LeaseRequest,
        token: Fence,
        stamp: Incarnation,
        to: Responder<Answer<Acceptance>>,
    ) {
        self.0.master_of(&lease.name).raise(lease, token, stamp, to);
    }

    fn regrant(
        &self,
        lease: &LeaseRequest,
        token: Fence,
        lane: Lane,
        to: Responder<Answer<Instant>>,
    ) {
        self.0.master_of(&lease.name).regrant(lease, token, lane, to);
    }

    /// One request for each lease: a script has keys of one slot, and while a slot is on its way only a
    /// request with one key is sure to be carried out.
    fn renew(&self, leases: &[LeaseRequest], lane: Lane, to: Responder<Vec<Answer<Instant>>>) {
        if leases.is_empty() {
            return self.0.drain(lane, to);
        }
        let gather = Gather::new((leases.len(), 1), to);
        for (at, lease) in leases.iter().enumerate() {
            let to = Responder::new(gather.clone(), at);
            self.0.master_of(&lease.name).renew(std::slice::from_ref(lease), lane, to);
        }
    }

    fn release(
        &self,
        lease: &LeaseRequest,
        held: HeldInterval,
        lane: Lane,
        hints: Hints,
        to: Responder<Answer<ReleaseOutcome>>,
    ) {
        self.0.master_of(&lease.name).release(lease, held, lane, hints, to);
    }

    fn connected_since(&self, lane: Lane) -> Option<Instant> {
        let mut latest = Instant::NEVER;
        for member in self.0.everyone() {
            latest = latest.max(member.connected_since(lane)?);
        }
        Some(latest)
    }

    fn shard(&self, name: &Name) -> u64 {
        self.0.master_of(name).identity()
    }

    fn wall_offset(&self) -> Option<i64> {
        self.0.everyone().iter().filter_map(|member| member.wall_offset()).max()
    }

    fn inspect(&self, name: &Name, to: Responder<Answer<Option<Holder>>>) {
        match one_slot(name) {
            Ok(()) => self.0.master_of(name).inspect(name, to),
            Err(denial) => to.send(Answer::No(denial)),
        }
    }

    fn force_release(&self, name: &Name, to: Responder<Answer<bool>>) {
        match one_slot(name) {
            Ok(()) => self.0.master_of(name).force_release(name, to),
            Err(denial) => to.send(Answer::No(denial)),
        }
    }

    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        Some(self)
    }
}

impl WaitQueue for RedisCluster {
    fn subscribe(
        &self,
        name: &Name,
        to: Arc<dyn ReplySink<WaitEvent>>,
        from: usize,
    ) -> Subscription {
        let (id, at) = (next_id(), self.0.master_of(name));
        let subscription = at.subscribe(name, to.clone(), from);
        let waiter = Waiter { name: name.clone(), to, from, at, subscription };
        self.0.state().waiters.insert(id, waiter);
        // Its slot may have moved meanwhile.
        self.0.resubscribe();
        Box::new(Waits { shared: self.0.clone(), id })
    }

    fn leave(&self, name: &Name, offered: Option<&(LeaseRequest, HandoffOffer)>) {
        self.0.master_of(name).leave(name, offered);
    }
}

/// Ends the subscription of a waiter when it is dropped.
struct Waits {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Waits {
    fn drop(&mut self) {
        let ended = self.shared.state().waiters.remove(&self.id);
        // Not under the lock.
        drop(ended);
    }
}

impl Router for Shared {
    fn learn(&self, slots: &[SlotRange], from: &Source) {
        // A member that was reset knows nothing, and others do.
        if slots.is_empty() {
            return;
        }
        let mut state = self.state();
        let before: Vec<_> = state.members.values().cloned().collect();
        let (mut masters, mut serving) = (vec![None; Name::SLOTS], BTreeSet::new());
        for SlotRange { first, last, master } in slots {
            let member = self.meet(&mut state, master, from);
            masters[*first..=*last].fill(Some(member.clone()));
            serving.insert(member.label().to_owned());
        }
        state.masters = masters;
        state.members.retain(|label, _| serving.contains(label));
        drop(state);
        self.rearrange(before, from.lane);
    }

    fn moved(&self, slot: usize, to: &Endpoint, from: &Source) {
        let mut state = self.state();
        let member = self.meet(&mut state, to, from);
        let before = state.masters[slot].replace(member);
        drop(state);
        self.rearrange(before, from.lane);
        // Its other slots may have moved, too.
        self.look(from);
    }

    fn look_elsewhere(&self, than: &Source) {
        let serves = |member: &Arc<RedisNode>| member.endpoint == than.member;
        if self.state().members.values().any(serves) {
            self.look(than);
        }
    }

    fn repeat(&self, releases: Vec<UnconfirmedRelease>, lane: Lane) {
        for release in releases {
            let master = self.master_of(&release.lease.name);
            master.connection(lane).post(Command::repeat(release, self.kind.clock.now()));
        }
    }

    fn send_again(&self, request: Redirected, from: &Source) {
        let Some(shared) = self.router.upgrade() else { return };
        let pause = match (request.known, request.before) {
            (true, 0) => Duration::ZERO,
            (_, before) => pause_before(before),
        };
        let waiting = Redirecting { shared, request: Some(request), from: from.clone() };
        match Handle::try_current() {
            Ok(runtime) if !pause.is_zero() => {
                runtime.spawn(async move {
                    tokio::time::sleep(pause).await;
                    waiting.send();
                });
            }
            _ => waiting.send(),
        }
    }
}

impl Shared {
    /// Asks another member than this one about the slots.
    fn look(&self, than: &Source) {
        let mut state = self.state();
        if state.looking || self.kind.clock.now() < state.look_again {
            return;
        }
        state.looking = true;
        let elsewhere = |member: &&Arc<RedisNode>| member.endpoint != than.member;
        let others = || state.members.values().chain([&self.seeds]).filter(elsewhere);
        // Those that are connected answer soonest.
        let mut asked: Vec<_> =
            others().filter(|other| other.connection(than.lane).is_up()).collect();
        if asked.is_empty() {
            asked = others().collect();
        }
        let asked =
            asked.get(state.looked % asked.len().max(1)).copied().unwrap_or(&self.seeds).clone();
        state.looked = state.looked.wrapping_add(1);
        drop(state);
        let from = Source { member: asked.endpoint.clone(), lane: than.lane };
        let to = Responder::new(Arc::new(Look { router: self.router.clone(), from }), 0);
        asked.connection(than.lane).post(Command::Verbatim { command: ask_slots(), to });
    }

    /// The member that serves the name, as far as it is known.
    fn master_of(&self, name: &Name) -> Arc<RedisNode> {
        self.state().master_of(name).unwrap_or(&self.seeds).clone()
    }

    /// All members that serve slots, and the seeds.
    fn everyone(&self) -> Vec<Arc<RedisNode>> {
        self.state().members.values().chain([&self.seeds]).cloned().collect()
    }

    /// The member there, which is a new one if it was not met before.
    fn meet(&self, state: &mut State, at: &Endpoint, from: &Source) -> Arc<RedisNode> {
        let host = at.host.as_deref().or(from.member.host.as_deref()).unwrap_or_default();
        let dialer = self.seed.at(host, at.port);
        if let Some(known) = state.members.get(dialer.target.label()) {
            return known.clone();
        }
        state.met += 1;
        let (target, options) = (dialer.target.clone(), dialer.options.clone());
        let resolver = MasterResolver::new(Addresses::AnyOf(vec![Arc::new(dialer)]), options);
        let factory = self.kind.factory(state.met, Some(self.router.clone()));
        let member = Arc::new(factory.node_over(resolver, &target, true));
        state.members.insert(target.label().to_owned(), member.clone());
        member
    }

    /// Slots have other masters now: waiters subscribe there, and releases that `before` may not have
    /// carried out go there (PROTOCOL.md SLOT3).
    fn rearrange(&self, before: impl IntoIterator<Item = Arc<RedisNode>>, lane: Lane) {
        for member in before.into_iter().chain([self.seeds.clone()]) {
            self.repeat(member.context.unconfirmed.collect(self.kind.clock.now()), lane);
        }
        self.resubscribe();
    }

    /// Waiters subscribe at the masters of their names.
    fn resubscribe(&self) {
        let elsewhere: Vec<_> = {
            let state = self.state();
            let moved = state.waiters.iter().filter_map(|(id, waiter)| {
                let master = state.master_of(&waiter.name)?;
                let moved = !Arc::ptr_eq(master, &waiter.at);
                moved.then(|| {
                    (*id, master.clone(), waiter.name.clone(), waiter.to.clone(), waiter.from)
                })
            });
            moved.collect()
        };
        for (id, at, name, to, from) in elsewhere {
            let subscription = at.subscribe(&name, to, from);
            let ended = match self.state().waiters.get_mut(&id) {
                Some(waiter) => {
                    waiter.at = at;
                    std::mem::replace(&mut waiter.subscription, subscription)
                }
                None => subscription,
            };
            // Not under the lock.
            drop(ended);
        }
    }

    /// Waits until all connections have answered.
    fn drain(&self, lane: Lane, to: Responder<Vec<Answer<Instant>>>) {
        let used = |member: &Arc<RedisNode>| member.connection(lane).is_up();
        let members: Vec<_> = self.everyone().into_iter().filter(used).collect();
        let gather = Gather::new((members.len(), 0), to);
        for (at, member) in members.iter().enumerate() {
            member.renew(&[], lane, Responder::new(gather.clone(), at));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new() -> Self {
        Self {
            members: BTreeMap::new(),
            masters: vec![None; Name::SLOTS],
            waiters: BTreeMap::new(),
            met: 0,
            looking: false,
            look_again: Instant::NEVER,
            looked: 0,
        }
    }

    fn master_of(&self, name: &Name) -> Option<&Arc<RedisNode>> {
        self.masters[name.slot()].as_ref()
    }
}

/// Takes what a member answers about the slots.
struct Look {
    router: Weak<Shared>,
    from: Source,
}

impl ReplySink<Answer<Value>> for Look {
    fn collect(&self, _from: usize, answer: Answer<Value>) {
        let Some(shared) = self.router.upgrade() else { return };
        if let Answer::Yes(reply) = answer
            && let Some(slots) = read_slots(&reply)
        {
            shared.learn(&slots, &self.from);
        }
        let mut state = shared.state();
        (state.looking, state.look_again) = (false, shared.kind.clock.now() + LOOK_EVERY);
    }
}

/// A request that was redirected and is not sent again yet.
struct Redirecting {
    shared: Arc<Shared>,
    request: Option<Redirected>,
    from: Source,
}

impl Redirecting {
    fn send(mut self) {
        let Some(request) = self.request.take() else { return };
        let master = self.master(&request);
        master.connection(self.from.lane).post_redirected(request);
    }

    fn master(&self, request: &Redirected) -> Arc<RedisNode> {
        match (&request.ask, request.request.name()) {
            (Some(at), _) => self.shared.meet(&mut self.shared.state(), at, &self.from),
            (None, Some(name)) => self.shared.master_of(name),
            (None, None) => self.shared.seeds.clone(),
        }
    }
}

/// Also when the runtime ends: a release is repeated, and others hear that they were not sent.
impl Drop for Redirecting {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let context = &self.master(&request).context;
        let no_answer = NoAnswer::NotSent(context.report(NodeProblem::RuntimeEnded));
        context.no_answer(request.request, &no_answer, self.shared.kind.clock.now());
    }
}

/// Puts the answers of several members into one.
struct Gather {
    answers: Mutex<Gathered>,
}

struct Gathered {
    answers: Vec<Vec<Answer<Instant>>>,
    /// How many leases each of them is about.
    leases: usize,
    missing: usize,
    to: Option<Responder<Vec<Answer<Instant>>>>,
}

impl Gather {
    /// Answers `to` when so many answers have come, which are about so many leases each.
    fn new((parts, leases): (usize, usize), to: Responder<Vec<Answer<Instant>>>) -> Arc<Self> {
        let to = match parts {
            0 => {
                to.send(Vec::new());
                None
            }
            _ => Some(to),
        };
        let answers = vec![Vec::new(); parts];
        Arc::new(Self { answers: Mutex::new(Gathered { answers, leases, missing: parts, to }) })
    }
}

impl ReplySink<Vec<Answer<Instant>>> for Gather {
    fn collect(&self, from: usize, mut answer: Vec<Answer<Instant>>) {
        let (to, answers) = {
            let mut gathered = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            // No answers at all: the request was dropped.
            answer.resize_with(gathered.leases, Answer::missing);
            gathered.answers[from] = answer;
            gathered.missing -= 1;
            if gathered.missing > 0 {
                return;
            }
            (gathered.to.take(), std::mem::take(&mut gathered.answers))
        };
        if let Some(to) = to {
            to.send(answers.concat());
        }
    }
}

/// Refuses a name whose keys have different slots.
fn one_slot(name: &Name) -> Result<(), Denial> {
    match name.has_one_slot() {
        true => Ok(()),
        false => Err(Denial::Config(ConfigError::NameInCluster { name: name.to_string() })),
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCluster").field("seeds", &self.seeds.label()).finish_non_exhaustive()
    }
}
