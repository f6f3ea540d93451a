//! The world between the clients' code and the nodes: one queue of events, in order of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::Notify;

use super::bug::Bug;
use super::conn::Conn;
use super::event::Event;
use super::faults::Assumption;
use super::ledger::{Holding, Ledger};
use super::plan::Plan;
use super::process::Process;
use super::server::Server;
use super::sometimes::Sometimes;
use super::time::{Micros, Start, duration};
use super::trace::{Note, Trace, Who};
use super::violation::{Invariant, Violation};
use super::withheld_votes::WithheldVotes;
use super::work_state::WorkState;
use crate::dice::Dice;

/// A handle on the world. All clones refer to the same world.
#[derive(Clone)]
pub struct World(Arc<Shared>);

struct Shared {
    start: Start,
    state: Mutex<State>,
    /// An event is due earlier than the planned wake-up.
    sooner: Notify,
    /// A violation was found, or the last client task is done.
    ended: Notify,
}

pub struct State {
    pub plan: Plan,
    pub start: Start,
    pub now: Micros,
    queue: BinaryHeap<Reverse<Due>>,
    posted: u64,
    planned: Micros,
    /// The deliveries that go out as soon as the world is unlocked.
    pub out: Vec<Delivery>,
    pub dice: Dice,
    pub servers: Vec<Server>,
    pub processes: Vec<Process>,
    /// The connections that have not ended, by their numbers, and how many were dialled so far.
    pub conns: BTreeMap<usize, Conn>,
    pub dialled: usize,
    /// The number of client tasks that have not yet done all their work.
    pub busy: usize,
    /// Per client slot and node: the times until which requests and replies are cut.
    pub cuts: Vec<Vec<(Micros, Micros)>>,
    pub healed: bool,
    pub bug: Option<Bug>,
    pub ledger: Ledger,
    pub workload: WorkState,
    pub trace: Trace,
    /// The assumptions that faults have broken so far.
    pub broken: BTreeSet<Assumption>,
    /// The guarantees that failed after an assumption they need was broken.
    pub expected: BTreeSet<Invariant>,
    pub violation: Option<Violation>,
    /// Violations do not end the run: its beliefs are judged elsewhere. They are in `expected`.
    pub goes_on: bool,
    /// The time at which a node last forgot something.
    pub forgot_at: Micros,
    pub withheld_votes: Option<WithheldVotes>,
    pub closed: bool,
}

/// What is done once the world is unlocked, because the client's code may call back into it at
/// once.
pub enum Delivery {
    Wake(Waker),
    Drop(Vec<Holding>),
    /// Runs in turn, with the world unlocked.
    Then(Box<dyn FnOnce(&World) + Send>),
}

struct Due {
    at: Micros,
    order: u64,
    event: Event,
}

impl World {
    pub fn new(plan: Plan, bug: Option<Bug>, keep: usize) -> Self {
        let start = Start::now();
        let mut dice = Dice::new(plan.seed, 1);
        let servers = (0..plan.nodes).map(|n| Server::new(n, &plan, bug, &mut dice)).collect();
        let state = State {
            start,
            now: 0,
            queue: BinaryHeap::new(),
            posted: 0,
            planned: Micros::MAX,
            out: Vec::new(),
            dice,
            servers,
            processes: Vec::new(),
            conns: BTreeMap::new(),
            dialled: 0,
            busy: 0,
            cuts: vec![vec![(0, 0); plan.nodes]; plan.clients.max(1)],
            healed: false,
            bug,
            ledger: Ledger::default(),
            workload: WorkState::default(),
            trace: Trace::new(keep),
            broken: BTreeSet::new(),
            expected: BTreeSet::new(),
            violation: None,
            goes_on: false,
            forgot_at: 0,
            withheld_votes: None,
            closed: false,
            plan,
        };
        let state = Mutex::new(state);
        Self(Arc::new(Shared { start, state, sooner: Notify::new(), ended: Notify::new() }))
    }

    /// Reads or changes the world, then makes the deliveries that this produced.
    pub fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        state.now = self.0.start.micros();
        let result = act(&mut state);
        self.unlock(state);
        result
    }

    /// Reads or changes what has no time and produces no deliveries.
    pub fn look<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state())
    }

    /// Drives the world until its runtime ends.
    pub async fn run(self) {
        loop {
            while self.step() {}
            let wait = self.with(|state| {
                state.planned = state.queue.peek().map_or(Micros::MAX, |Reverse(due)| due.at);
                state.planned.saturating_sub(state.now)
            });
            tokio::select! {
                biased;
                () = self.0.sooner.notified() => {}
                () = tokio::time::sleep(duration(wait.min(3_600_000_000))) => {}
            }
        }
    }

    /// Waits until the work is done or a violation is found.
    pub async fn ended(&self) {
        self.0.ended.notified().await;
    }

    /// Breaks the reference cycle: the world holds the wakers of the clients' tasks.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let queue = std::mem::take(&mut state.queue);
        let holders = std::mem::take(&mut state.ledger.holders);
        let processes = std::mem::take(&mut state.processes);
        let out = std::mem::take(&mut state.out);
        let conns = std::mem::take(&mut state.conns);
        drop(state);
        drop((queue, holders, processes, out, conns));
    }

    fn step(&self) -> bool {
        let mut state = self.state();
        state.now = self.0.start.micros();
        let due = state.queue.peek().is_some_and(|Reverse(due)| due.at <= state.now);
        if !due || state.violation.is_some() {
            return false;
        }
        if let Some(Reverse(Due { event, .. })) = state.queue.pop() {
            state.happen(event);
        }
        self.unlock(state);
        true
    }

    fn unlock(&self, mut state: MutexGuard<'_, State>) {
        let out = std::mem::take(&mut state.out);
        let first = state.queue.peek().map_or(Micros::MAX, |Reverse(due)| due.at);
        let sooner = first < state.planned;
        let ended = state.violation.is_some() || state.busy == 0;
        drop(state);
        if sooner {
            self.0.sooner.notify_one();
        }
        if ended {
            self.0.ended.notify_one();
        }
        for delivery in out {
            self.deliver(delivery);
        }
    }

    fn deliver(&self, delivery: Delivery) {
        match delivery {
            Delivery::Wake(waker) => waker.wake(),
            Delivery::Drop(what) => drop(what),
            Delivery::Then(act) => act(self),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds a process in the slot, and returns its number.
    pub fn add_process(&mut self, slot: usize) -> usize {
        let process = Process::new(&self.plan, self.start, &mut self.dice, slot);
        self.processes.push(process);
        self.processes.len() - 1
    }

    pub fn after(&mut self, delay: Micros, event: Event) {
        self.at(self.now + delay, event);
    }

    pub fn at(&mut self, at: Micros, event: Event) {
        if !self.closed {
            self.posted += 1;
            self.queue.push(Reverse(Due { at, order: self.posted, event }));
        }
    }

    pub fn note(&mut self, what: &'static str, who: Who, number: u64) {
        self.trace.note(Note { at: self.now, what, who, number });
    }

    pub fn see(&mut self, what: Sometimes) {
        self.ledger.seen.see(what);
    }

    /// Records that a guarantee failed. The failure is expected if a fault broke an assumption that
    /// the guarantee needs.
    pub fn violate(&mut self, violation: Violation) {
        // A test that calls nodes directly may do what no locker does; a scripted scenario is
        // judged by its history.
        if self.plan.instant || self.plan.scripted {
            return;
        }
        let invariant = violation.invariant();
        // A planted bug can break many invariants. It counts as found only by those that must catch
        // it.
        if !self.goes_on && self.bug.is_some_and(|bug| !bug.caught_by().contains(&invariant)) {
            return;
        }
        if self.goes_on || invariant.needs().iter().any(|needed| self.broken.contains(needed)) {
            self.expected.insert(invariant);
        } else if self.violation.is_none() {
            self.note("VIOLATION", Who::default(), 0);
            self.violation = Some(violation);
        }
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}
