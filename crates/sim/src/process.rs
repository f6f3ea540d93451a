//! A client process: its clock, its connections and its subscriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use quorumlock_protocol::{Claim, Instant, Name};
use quorumlock_redis::RedisNode;

use super::event::Event;
use super::pause_gate::PauseGate;
use super::plan::Plan;
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
    /// What arrived while the process was stopped, and until it handles that. Bytes keep their
    /// order.
    pub inbox: Vec<Event>,
    /// Whether the process handles what arrives.
    pub hears: bool,
    pub nodes: Vec<Weak<RedisNode>>,
    /// Per node: the names that the process waits for, and how many waiters there are.
    waits: Vec<BTreeMap<Name, usize>>,
    /// Since the last attempt of a waiter: whether a message came, and whether a subscription
    /// began.
    pub wake_ups: (bool, bool),
    /// The admitted nodes that have shown this process their marks since it last examined a node.
    pub helpers: BTreeSet<usize>,
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
            hears: true,
            nodes: Vec::new(),
            waits: (0..nodes).map(|_| BTreeMap::new()).collect(),
            wake_ups: (false, false),
            helpers: BTreeSet::new(),
        }
    }

    /// Whether it waits for the claim; of permits, for any slot of them.
    pub fn waits_for(&self, node: usize, claim: &Claim) -> bool {
        claim.subscribed_names().any(|name| self.waits[node].contains_key(&name))
    }

    pub fn subscribe(&mut self, node: usize, name: &Name) {
        *self.waits[node].entry(name.clone()).or_default() += 1;
    }

    pub fn unsubscribe(&mut self, node: usize, name: &Name) {
        if let Some(waiters) = self.waits[node].get_mut(name) {
            *waiters -= 1;
            if *waiters == 0 {
                self.waits[node].remove(name);
            }
        }
    }

    pub fn now(&self) -> Instant {
        self.clock.running()
    }
}
