//! A client process: the real locker, its connections, and how it is stopped and killed.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quorumlock_core::{
    Chance, Clock, Collect, ConfigError, Instant, Lane, Lessor, Lives, Locker, Name, News, Single,
    World as Given,
};
use quorumlock_quorum::Quorum;

use super::ask::{Ask, To};
use super::link::{Debt, Link, LinkId};
use super::node::SimNode;
use super::plan::Plan;
use super::time::{ClientClock, Micros};
use super::work;
use super::world::{Event, State, World};
use crate::dice::Dice;

/// One life of a client.
pub(super) struct Process {
    /// Its place among the clients; a restarted one takes the place of the dead.
    pub(super) slot: usize,
    pub(super) clock: Arc<ClientClock>,
    pub(super) gate: Arc<Gate>,
    pub(super) dead: bool,
    pub(super) stopped: bool,
    /// When it last went on after a stop.
    pub(super) went_on: Micros,
    /// What came in and what its timers set off while it was stopped.
    pub(super) inbox: Vec<Event>,
    pub(super) outbox: Vec<(LinkId, Ask, To)>,
    /// Per node: requests of callers, requests of the watchdog.
    pub(super) links: Vec<[Link; 2]>,
    /// Of each node, as the process has met it.
    pub(super) lives: Vec<Lives>,
    pub(super) debts: Vec<Vec<Debt>>,
    ears: Vec<BTreeMap<Name, Vec<Ear>>>,
    /// Per node: its own channel is wanted, and subscribed as far as it knows.
    pub(super) tuned: Vec<(bool, bool)>,
    next_ear: u64,
    /// Since the last attempt of a waiter: a message came, a subscription began.
    pub(super) told: (bool, bool),
    /// Admitted nodes that gave it their largest counter since it last looked at all of them.
    pub(super) helpers: BTreeSet<usize>,
}

/// Somebody who waits for a name.
pub(super) struct Ear {
    id: u64,
    pub(super) to: Arc<dyn Collect<News>>,
    pub(super) from: usize,
}

impl Process {
    pub(super) fn new(state: &mut State, slot: usize) -> Self {
        let nodes = state.plan.nodes;
        let drift = state.plan.client_drift(&mut state.dice);
        let ahead = state.dice.within(0, state.plan.skew);
        Self {
            slot,
            clock: ClientClock::new(state.start, drift, ahead),
            gate: Arc::default(),
            dead: false,
            stopped: false,
            went_on: 0,
            inbox: Vec::new(),
            outbox: Vec::new(),
            links: (0..nodes).map(|_| Default::default()).collect(),
            lives: vec![Lives::default(); nodes],
            debts: (0..nodes).map(|_| Vec::new()).collect(),
            ears: (0..nodes).map(|_| BTreeMap::new()).collect(),
            tuned: vec![(false, false); nodes],
            next_ear: 0,
            told: (false, false),
            helpers: BTreeSet::new(),
        }
    }

    pub(super) fn waits_for(&self, node: usize, name: &Name) -> bool {
        self.ears[node].contains_key(name)
    }

    pub(super) fn ears(&self, node: usize, name: &Name) -> &[Ear] {
        self.ears[node].get(name).map_or(&[], Vec::as_slice)
    }

    pub(super) fn listen(
        &mut self,
        node: usize,
        name: &Name,
        (to, from): (Arc<dyn Collect<News>>, usize),
    ) -> u64 {
        let id = self.next_ear;
        self.next_ear += 1;
        self.ears[node].entry(name.clone()).or_default().push(Ear { id, to, from });
        id
    }

    pub(super) fn unlisten(&mut self, node: usize, name: &Name, id: u64) -> Option<Ear> {
        let ears = self.ears[node].get_mut(name)?;
        let gone = ears.iter().position(|ear| ear.id == id).map(|place| ears.remove(place));
        if ears.is_empty() {
            self.ears[node].remove(name);
        }
        gone
    }

    /// The names that it waits for.
    pub(super) fn names(&self, node: usize) -> Vec<Name> {
        self.ears[node].keys().cloned().collect()
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.running()
    }
}

/// Starts the tasks of a process, on the runtime of the world.
pub(super) fn start(world: &World, client: usize) {
    let (plan, clock) = world.with(|state| {
        let process = &state.processes[client];
        (state.plan.clone(), process.clock.clone())
    });
    let nodes: Vec<_> =
        (0..plan.nodes).map(|node| SimNode::new(world.clone(), client, node)).collect();
    let settings = plan.settings();
    let within = settings.answer_timeout;
    let dice = Mutex::new(Dice::new(plan.seed, 1_000 + client as u64));
    let chance = Chance::given(move || dice.lock().unwrap_or_else(PoisonError::into_inner).next());
    let given =
        Given { clock: clock.clock(), chance: chance.clone(), keeper_on_this_runtime: true };
    let lessor = match lessor(&plan, nodes, (clock.clock(), chance), within) {
        Ok(lessor) => lessor,
        Err(error) => return world.with(|state| state.unexpected(client, &error)),
    };
    match Locker::over(lessor, settings, given) {
        Ok(locker) => {
            for hand in 0..plan.hands {
                spawn(world, client, work::hand(world.clone(), client, hand, locker.clone()));
            }
        }
        Err(error) => world.with(|state| state.unexpected(client, &error)),
    }
}

/// A task of a process: stops and ends with it.
pub(super) fn spawn(world: &World, client: usize, work: impl Future<Output = ()> + Send + 'static) {
    let gate = world.with(|state| state.processes[client].gate.clone());
    tokio::spawn(Gated { gate, work: Box::pin(work) });
}

fn lessor(
    plan: &Plan,
    mut nodes: Vec<SimNode>,
    (clock, chance): (Clock, Chance),
    within: Duration,
) -> Result<Arc<dyn Lessor>, ConfigError> {
    if nodes.len() == 1
        && plan.seed.is_multiple_of(2)
        && let Some(node) = nodes.pop()
    {
        return Ok(Arc::new(Single::new(node, clock, within)));
    }
    Ok(match plan.charter.clone() {
        Some(charter) => Arc::new(Quorum::strict(nodes, clock, chance, within, plan.rho, charter)?),
        None => Arc::new(Quorum::new(nodes, clock, within)?),
    })
}

/// Stops and ends the tasks that go through it.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<GateState>);

#[derive(Debug, Default)]
struct GateState {
    shut: bool,
    dead: bool,
    waiting: Vec<Waker>,
}

impl Gate {
    pub(super) fn shut(&self) {
        self.with(|gate| gate.shut = true);
    }

    pub(super) fn open(&self) {
        self.with(|gate| gate.shut = false);
    }

    /// Every task is dropped where it stands.
    pub(super) fn kill(&self) {
        self.with(|gate| gate.dead = true);
    }

    fn with(&self, change: impl FnOnce(&mut GateState)) {
        let mut gate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut gate);
        for waker in gate.waiting.drain(..) {
            waker.wake();
        }
    }
}

struct Gated<F> {
    gate: Arc<Gate>,
    work: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Future for Gated<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut gate = self.gate.0.lock().unwrap_or_else(PoisonError::into_inner);
            if gate.dead {
                return Poll::Ready(());
            }
            // Also woken by the gate: a killed task may wait for nothing else.
            if !gate.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                gate.waiting.push(cx.waker().clone());
            }
            if gate.shut {
                return Poll::Pending;
            }
        }
        self.work.as_mut().poll(cx)
    }
}

pub(super) const LANES: [Lane; 2] = [Lane::Work, Lane::Keep];
