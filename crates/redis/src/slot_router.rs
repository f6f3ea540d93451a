//! Which member of a Redis Cluster serves which slot, and what goes where (PROTOCOL.md, Redis Cluster).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use quorumlock_protocol::{
    Answer, ConfigError, Instant, Lane, Layout, Name, NoAnswer, Node, NodeProblem, Nonce,
    ReplySink, Responder, Settings, Subscription, WaitEvent, WaitQueue, next_id,
};
use quorumlock_watchdog::Clock;
use tokio::runtime::Handle;

use crate::command::Command;
use crate::dial::{Dialer, RunIdRegistry};
use crate::handshake::ask_slots;
use crate::master::{Addresses, MasterResolver};
use crate::network::Network;
use crate::node::RedisNode;
use crate::node_addr::NodeAddr;
use crate::node_factory::NodeFactory;
use crate::redirect::{Endpoint, Redirected, Router, SlotRange, Source, pause_before, read_slots};
use crate::resp::Value;
use crate::targets::Targets;
use crate::unconfirmed_releases::UnconfirmedRelease;

/// Routes the requests of one Redis Cluster, and moves waiters and releases to where slots move.
pub(super) struct SlotRouter {
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
    layout: Layout,
    settings: Settings,
    clock: Clock,
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

impl SlotRouter {
    /// The router of the Redis Cluster of which the servers at `targets` are members. Does no I/O.
    pub(super) fn new(
        targets: Vec<NodeAddr>,
        layout: Layout,
        settings: &Settings,
        clock: &Clock,
    ) -> Result<Arc<Self>, ConfigError> {
        let kind = MemberKind {
            layout,
            settings: settings.clone(),
            clock: clock.clone(),
            waiter: Nonce::fresh()?,
        };
        let resolver = kind.factory(0, None).resolver(Targets::AnyOf(targets))?;
        let seed = resolver.first().cloned().ok_or(ConfigError::NoNodes)?;
        Ok(Arc::new_cyclic(|router: &Weak<Self>| {
            let seeds = kind.factory(0, Some(router.clone()));
            Self {
                seeds: Arc::new(seeds.node_over(resolver, &seed.target, true)),
                seed,
                router: router.clone(),
                state: Mutex::new(State::new()),
                kind,
            }
        }))
    }

    pub(super) fn seeds(&self) -> &RedisNode {
        &self.seeds
    }

    /// The member that serves the name, as far as it is known.
    pub(super) fn master_of(&self, name: &Name) -> Arc<RedisNode> {
        self.state().master_of(name).unwrap_or(&self.seeds).clone()
    }

    /// All members that serve slots, and the seeds.
    pub(super) fn everyone(&self) -> Vec<Arc<RedisNode>> {
        self.state().members.values().chain([&self.seeds]).cloned().collect()
    }

    /// Subscribes a waiter at the master of the name, also after the slot of the name has moved.
    pub(super) fn subscribe(
        self: &Arc<Self>,
        name: &Name,
        to: Arc<dyn ReplySink<WaitEvent>>,
        from: usize,
    ) -> Subscription {
        let (id, at) = (next_id(), self.master_of(name));
        let subscription = at.subscribe(name, to.clone(), from);
        let waiter = Waiter { name: name.clone(), to, from, at, subscription };
        self.state().waiters.insert(id, waiter);
        // Its slot may have moved meanwhile.
        self.resubscribe();
        Box::new(Waits { router: self.clone(), id })
    }

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
        asked.connection(than.lane).post(Command::Raw { command: ask_slots(), to });
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Router for SlotRouter {
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
            let master = self.master_of(release.lease.name());
            master.connection(lane).post(Command::repeat(release));
        }
    }

    fn send_again(&self, request: Redirected, from: &Source) {
        let Some(router) = self.router.upgrade() else { return };
        let pause = match (request.known, request.before) {
            (true, 0) => Duration::ZERO,
            (_, before) => pause_before(before),
        };
        let waiting = Redirecting { router, request: Some(request), from: from.clone() };
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

impl MemberKind {
    fn factory(&self, number: u64, router: Option<Weak<SlotRouter>>) -> NodeFactory<'_> {
        NodeFactory {
            layout: self.layout,
            cluster: None,
            settings: &self.settings,
            clock: &self.clock,
            run_ids: RunIdRegistry::default(),
            waiter: Nonce::from_u128(self.waiter.as_u128().wrapping_add(number.into())),
            name_channels: self.layout == Layout::Redisson,
            // The count of a message's subscribers is that of one member, and the message reaches all
            // (PROTOCOL.md SLOT4).
            supports_handoff: false,
            network: Network::System,
            router: router.map(|router| router as Weak<dyn Router>),
        }
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

/// Ends the subscription of a waiter when it is dropped.
struct Waits {
    router: Arc<SlotRouter>,
    id: u64,
}

impl Drop for Waits {
    fn drop(&mut self) {
        let ended = self.router.state().waiters.remove(&self.id);
        // Not under the lock.
        drop(ended);
    }
}

/// Takes what a member answers about the slots.
struct Look {
    router: Weak<SlotRouter>,
    from: Source,
}

impl ReplySink<Answer<Value>> for Look {
    fn collect(&self, _from: usize, answer: Answer<Value>) {
        let Some(router) = self.router.upgrade() else { return };
        if let Answer::Yes(reply) = answer
            && let Some(slots) = read_slots(&reply)
        {
            router.learn(&slots, &self.from);
        }
        let mut state = router.state();
        (state.looking, state.look_again) = (false, router.kind.clock.now() + LOOK_EVERY);
    }
}

/// A request that was redirected and is not sent again yet.
struct Redirecting {
    router: Arc<SlotRouter>,
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
            (Some(at), _) => self.router.meet(&mut self.router.state(), at, &self.from),
            (None, Some(name)) => self.router.master_of(name),
            (None, None) => self.router.seeds.clone(),
        }
    }
}

/// Also when the runtime ends: a release is repeated, and others hear that they were not sent.
impl Drop for Redirecting {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let context = &self.master(&request).context;
        let no_answer = NoAnswer::NotSent(context.report(NodeProblem::RuntimeEnded));
        context.no_answer(request.request, &no_answer, self.router.kind.clock.now());
    }
}

impl fmt::Debug for SlotRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotRouter").field("seeds", &self.seeds.label()).finish_non_exhaustive()
    }
}
