//! The world between the clients' code and the nodes: one queue of events, in order of time.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorumlock_core::{Collect, Handed, Name, News, Stamp};
use tokio::sync::Notify;

use super::ambush::Ambush;
use super::ask::{Ask, Reply, Told};
use super::dial::Greeted;
use super::faults::Assumption;
use super::invariants::{Invariant, Violation, lemma};
use super::ledger::Ledger;
use super::link::LinkId;
use super::mutants::Bug;
use super::nemesis::{Ending, Moment};
use super::plan::Plan;
use super::process::Process;
use super::server::Server;
use super::sometimes::Sometimes;
use super::time::{Micros, Start, duration};
use super::trace::{Note, Trace, Who};
use super::work::Bench;
use crate::dice::Dice;

/// A handle on the world; all clones are the same one.
#[derive(Clone)]
pub(super) struct World(Arc<Shared>);

struct Shared {
    start: Start,
    state: Mutex<State>,
    /// Something is due sooner than planned.
    sooner: Notify,
    /// A violation was found, or the last hand is done.
    ended: Notify,
}

pub(super) struct State {
    pub(super) plan: Plan,
    pub(super) start: Start,
    pub(super) now: Micros,
    queue: BinaryHeap<Reverse<Due>>,
    posted: u64,
    planned: Micros,
    /// What goes out as soon as the world is unlocked.
    pub(super) out: Vec<Delivery>,
    pub(super) dice: Dice,
    pub(super) servers: Vec<Server>,
    pub(super) processes: Vec<Process>,
    /// Clients that have not yet done all their work.
    pub(super) busy: usize,
    /// Until when a client and a node are cut off each other: requests, replies.
    pub(super) cuts: Vec<Vec<(Micros, Micros)>>,
    pub(super) healed: bool,
    pub(super) bug: Option<Bug>,
    pub(super) ledger: Ledger,
    pub(super) bench: Bench,
    pub(super) trace: Trace,
    /// What the faults have broken so far.
    pub(super) broken: BTreeSet<Assumption>,
    /// Guarantees that fell with an assumption that they need.
    pub(super) expected: BTreeSet<Invariant>,
    pub(super) violation: Option<Violation>,
    /// When a node last forgot something.
    pub(super) forgot_at: Micros,
    pub(super) ambush: Option<Ambush>,
    pub(super) closed: bool,
}

/// A request that reaches a node.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) link: LinkId,
    pub(super) connection: u64,
    pub(super) id: u64,
    pub(super) ask: Arc<Ask>,
    /// The stamp to which its script is bound.
    pub(super) bound: Stamp,
    /// A copy: nobody waits for its reply.
    pub(super) copy: bool,
}

#[derive(Debug)]
pub(super) enum Event {
    Arrive(Arrival),
    Answer(LinkId, u64, u64, Reply),
    Dialed(LinkId, u64, bool),
    ComeBack(LinkId, u64),
    Greeted(LinkId, u64, u64, Greeted),
    Recheck(LinkId, u64),
    Stall(LinkId, u64),
    Broken(LinkId, u64),
    Subscribe(usize, usize),
    Subscribed(usize, usize),
    Message(usize, usize, Name, Option<Handed>),
    /// At some time, or at a moment that matters.
    Fault(Option<Moment>),
    End(Ending),
}

/// What is done once the world is unlocked: the client's code may call back at once.
pub(super) enum Delivery {
    Told(Told),
    Tell(Arc<dyn Collect<News>>, usize, News),
    /// After an answer: does anybody believe what he must not?
    Check {
        node: usize,
        attempts: Vec<usize>,
    },
    Drop(Box<dyn Any + Send>),
    Start(usize),
}

struct Due {
    at: Micros,
    order: u64,
    event: Event,
}

impl World {
    pub(super) fn new(plan: Plan, bug: Option<Bug>, keep: usize) -> Self {
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
            busy: 0,
            cuts: vec![vec![(0, 0); plan.nodes]; plan.clients.max(1)],
            healed: false,
            bug,
            ledger: Ledger::default(),
            bench: Bench::default(),
            trace: Trace::new(keep),
            broken: BTreeSet::new(),
            expected: BTreeSet::new(),
            violation: None,
            forgot_at: 0,
            ambush: None,
            closed: false,
            plan,
        };
        let state = Mutex::new(state);
        Self(Arc::new(Shared { start, state, sooner: Notify::new(), ended: Notify::new() }))
    }

    /// Looks at the world or changes it, then delivers what that set off.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        state.now = self.0.start.micros();
        let result = act(&mut state);
        self.unlock(state);
        result
    }

    /// Drives the world until its runtime ends.
    pub(super) async fn run(self) {
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

    /// Waits until the work is done or a violation was found.
    pub(super) async fn ended(&self) {
        self.0.ended.notified().await;
    }

    /// Breaks the circle in which the world holds what the clients wait with.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let queue = std::mem::take(&mut state.queue);
        let holders = std::mem::take(&mut state.ledger.holders);
        let processes = std::mem::take(&mut state.processes);
        let out = std::mem::take(&mut state.out);
        drop(state);
        drop((queue, holders, processes, out));
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
            Delivery::Told(told) => told.deliver(),
            Delivery::Tell(to, from, news) => to.collect(from, news),
            Delivery::Check { node, attempts } => self.with(|state| {
                for attempt in attempts {
                    lemma::check(state, node, attempt);
                    super::invariants::leak::check(state, node, attempt);
                }
            }),
            Delivery::Drop(what) => drop(what),
            Delivery::Start(process) => super::process::start(self, process),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn after(&mut self, delay: Micros, event: Event) {
        self.at(self.now + delay, event);
    }

    pub(super) fn at(&mut self, at: Micros, event: Event) {
        if !self.closed {
            self.posted += 1;
            self.queue.push(Reverse(Due { at, order: self.posted, event }));
        }
    }

    pub(super) fn note(&mut self, what: &'static str, who: Who, number: u64) {
        self.trace.note(Note { at: self.now, what, who, number });
    }

    pub(super) fn see(&mut self, what: Sometimes) {
        self.ledger.seen.see(what);
    }

    /// A guarantee fell. If it rests on what a fault broke, that was to be expected.
    pub(super) fn violate(&mut self, violation: Violation) {
        // Nodes that a test asks by hand: it may do what no locker does.
        if self.plan.instant || self.plan.staged {
            return;
        }
        let invariant = violation.invariant();
        // A planted bug breaks much; it counts as found by what is there to find it.
        if self.bug.is_some_and(|bug| !bug.caught_by().contains(&invariant)) {
            return;
        }
        if invariant.needs().iter().any(|needed| self.broken.contains(needed)) {
            self.expected.insert(invariant);
        } else if self.violation.is_none() {
            self.note("VIOLATION", Who::default(), 0);
            self.violation = Some(violation);
        }
    }

    fn happen(&mut self, event: Event) {
        if let Some(client) = event.client() {
            let process = &mut self.processes[client];
            if process.dead {
                return;
            }
            if process.stopped {
                process.inbox.push(event);
                return;
            }
        }
        match event {
            Event::Arrive(arrival) => self.arrive(arrival),
            Event::Answer(link, connection, id, reply) => self.answer(link, connection, id, reply),
            Event::ComeBack(link, connection) => self.come_back(link, connection),
            Event::Dialed(link, connection, last) => self.dialed(link, connection, last),
            Event::Greeted(link, connection, run, greeted) => {
                self.greeted(link, connection, run, greeted);
            }
            Event::Recheck(link, connection) => self.recheck(link, connection),
            Event::Stall(link, connection) => self.stall(link, connection),
            Event::Broken(link, connection) => self.broken_from_outside(link, connection),
            Event::Subscribe(client, node) => self.subscribe(client, node),
            Event::Subscribed(client, node) => self.subscribed(client, node),
            Event::Message(client, node, name, handed) => {
                self.message((client, node), &name, handed);
            }
            Event::Fault(moment) => self.fault(moment),
            Event::End(ending) => self.end(ending),
        }
    }
}

impl Event {
    /// The client whose code notices; a stopped one notices when it goes on.
    fn client(&self) -> Option<usize> {
        match self {
            Self::Answer(link, ..)
            | Self::Dialed(link, ..)
            | Self::ComeBack(link, _)
            | Self::Greeted(link, ..)
            | Self::Recheck(link, _)
            | Self::Stall(link, ..)
            | Self::Broken(link, ..) => Some(link.client),
            Self::Subscribed(client, ..) | Self::Message(client, ..) => Some(*client),
            _ => None,
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
