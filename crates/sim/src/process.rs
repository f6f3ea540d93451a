//! A client process: its clock, its connections and its subscriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorumlock_protocol::{Instant, Name, ReplySink, RunIds, WaitEvent};

use super::event::Event;
use super::link::{Link, LinkId, UnconfirmedRelease};
use super::pause_gate::PauseGate;
use super::plan::Plan;
use super::request::{SimRequest, SimResponder};
use super::time::{ClientClock, Micros, Start};
use crate::dice::Dice;

/// One process of a client, from its start to its end.
pub struct Process {
    /// The client's place in the plan. A restarted process takes the slot of the dead one.
    pub slot: usize,
    pub clock: Arc<ClientClock>,
    pub gate: Arc<PauseGate>,
    pub dead: bool,
    pub stopped: bool,
    /// The time at which the process last resumed after a stop.
    pub resumed_at: Micros,
    /// What arrived while the process was stopped (`inbox`), and the requests that its timers set
    /// off meanwhile (`outbox`).
    pub inbox: Vec<Event>,
    pub outbox: Vec<(LinkId, SimRequest, SimResponder)>,
    /// Per node: the connection for callers' requests, and the one for the watchdog's requests.
    pub links: Vec<[Link; 2]>,
    /// Per node: the run ids that the process has seen.
    pub run_identities: Vec<RunIds>,
    pub unconfirmed: Vec<Vec<UnconfirmedRelease>>,
    subscribers: Vec<BTreeMap<Name, Vec<Subscriber>>>,
    /// Per node: whether the process wants its own channel, and whether the process knows that it
    /// is subscribed.
    pub subscribed: Vec<(bool, bool)>,
    next_subscriber: u64,
    /// Since the last attempt of a waiter: whether a message came, and whether a subscription
    /// began.
    pub wake_ups: (bool, bool),
    /// The admitted nodes that have shown this process their marks since it last examined a node.
    pub helpers: BTreeSet<usize>,
}

/// A waiter's subscription to a name.
pub struct Subscriber {
    id: u64,
    pub to: Arc<dyn ReplySink<WaitEvent>>,
    pub from: usize,
}

impl Process {
    pub fn new(plan: &Plan, start: Start, dice: &mut Dice, slot: usize) -> Self {
        let nodes = plan.nodes;
        let drift = plan.client_drift(dice);
        let ahead = dice.within(0, plan.skew);
        Self {
            slot,
            clock: ClientClock::new(start, drift, ahead),
            gate: Arc::default(),
            dead: false,
            stopped: false,
            resumed_at: 0,
            inbox: Vec::new(),
            outbox: Vec::new(),
            links: (0..nodes).map(|_| Default::default()).collect(),
            run_identities: vec![RunIds::default(); nodes],
            unconfirmed: (0..nodes).map(|_| Vec::new()).collect(),
            subscribers: (0..nodes).map(|_| BTreeMap::new()).collect(),
            subscribed: vec![(false, false); nodes],
            next_subscriber: 0,
            wake_ups: (false, false),
            helpers: BTreeSet::new(),
        }
    }

    pub fn waits_for(&self, node: usize, name: &Name) -> bool {
        self.subscribers[node].contains_key(name)
    }

    pub fn subscribers(&self, node: usize, name: &Name) -> &[Subscriber] {
        self.subscribers[node].get(name).map_or(&[], Vec::as_slice)
    }

    pub fn subscribe(
        &mut self,
        node: usize,
        name: &Name,
        (to, from): (Arc<dyn ReplySink<WaitEvent>>, usize),
    ) -> u64 {
        let id = self.next_subscriber;
        self.next_subscriber += 1;
        self.subscribers[node].entry(name.clone()).or_default().push(Subscriber { id, to, from });
        id
    }

    pub fn unsubscribe(&mut self, node: usize, name: &Name, id: u64) -> Option<Subscriber> {
        let subscribers = self.subscribers[node].get_mut(name)?;
        let gone = subscribers
            .iter()
            .position(|subscriber| subscriber.id == id)
            .map(|place| subscribers.remove(place));
        if subscribers.is_empty() {
            self.subscribers[node].remove(name);
        }
        gone
    }

    /// The names that the process waits for at this node.
    pub fn names(&self, node: usize) -> Vec<Name> {
        self.subscribers[node].keys().cloned().collect()
    }

    pub fn now(&self) -> Instant {
        self.clock.running()
    }
}
