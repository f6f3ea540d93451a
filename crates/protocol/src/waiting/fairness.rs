//! Clients in a loop of lock and unlock over nodes with queues, all in one thread: how evenly they
//! get the lock, and for what price. The nodes do what the scripts do (PROTOCOL.md, Waiting).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Approach, Event, Granted, Messages, RefusedBy, Step, WaitOptions, Waiting};
use crate::{FencingToken, Grant, Instant, Nonce, Notified, WaitEvent, quorum_of};

const HOME: usize = 0;
const CLIENTS: usize = 8;
const HOLD: u64 = 500;

/// Microseconds.
type Time = u64;

#[derive(Default)]
struct Node {
    holder: Option<usize>,
    /// Clients by seniority.
    queue: BTreeSet<(Time, usize)>,
    /// A waiter was notified and has not come.
    notified: bool,
}

struct Client {
    waiting: Waiting,
    begun: Time,
    attempt: u32,
    approach: Option<Approach>,
    subscribed: bool,
    messages: Messages,
    unread: bool,
    /// Which sleep the client is in, if it is in one that messages end.
    listens: bool,
    sleep: u32,
    granted: BTreeSet<usize>,
    refused: BTreeSet<usize>,
    asked: BTreeSet<usize>,
    holds: u32,
    longest_wait: Time,
}

enum What {
    Acquire { yields: bool, since: Option<Time> },
    Release { keeps: Option<Time>, last: bool },
    PassOn,
    Reply { attempt: u32, granted: bool },
    Released { notified: bool },
    Tell(WaitEvent),
    Timer(u32),
    Unlock,
}

struct Crowd {
    now: Time,
    /// Whether the nodes keep queues.
    queues: bool,
    distance: [Time; CLIENTS],
    nodes: Vec<Node>,
    clients: Vec<Client>,
    events: BTreeMap<(Time, u64), (usize, usize, What)>,
    sent: u64,
    requests: u64,
    random: u64,
}

#[derive(Debug)]
struct Outcome {
    /// The most holds of a client by the fewest.
    evenness: f64,
    /// Per hold.
    requests: f64,
    longest_wait: Duration,
}

/// Ten simulated seconds of clients that are `distance` microseconds away from `nodes` nodes.
fn run(nodes: usize, queues: bool, distance: [Time; CLIENTS]) -> Outcome {
    let options = options(nodes, queues);
    let client = || Client {
        waiting: Waiting::new(options),
        begun: 0,
        attempt: 0,
        approach: None,
        subscribed: false,
        messages: Messages::default(),
        unread: false,
        listens: false,
        sleep: 0,
        granted: BTreeSet::new(),
        refused: BTreeSet::new(),
        asked: BTreeSet::new(),
        holds: 0,
        longest_wait: 0,
    };
    let mut crowd = Crowd {
        now: 1_000_000,
        queues,
        distance,
        nodes: (0..nodes).map(|_| Node::default()).collect(),
        clients: (0..CLIENTS).map(|_| client()).collect(),
        events: BTreeMap::new(),
        sent: 0,
        requests: 0,
        random: 7,
    };
    for client in 0..CLIENTS {
        crowd.begin(client, Notified::Nobody);
    }
    while let Some(((at, _), (client, node, what))) = crowd.events.pop_first() {
        if at > 11_000_000 {
            break;
        }
        crowd.now = at;
        crowd.happens(client, node, what);
    }
    let holds = crowd.clients.iter().map(|client| client.holds);
    let (most, least) = (holds.clone().max().unwrap(), holds.clone().min().unwrap());
    let holds: u32 = holds.sum();
    let unserved = crowd.clients.iter().map(|client| crowd.now - client.begun).max().unwrap();
    let longest = crowd.clients.iter().map(|client| client.longest_wait).max().unwrap();
    Outcome {
        evenness: f64::from(most) / f64::from(least.max(1)),
        requests: crowd.requests as f64 / f64::from(holds),
        longest_wait: Duration::from_micros(longest.max(unserved)),
    }
}

fn options(nodes: usize, queues: bool) -> WaitOptions {
    let lease = Duration::from_secs(30);
    WaitOptions {
        deadline: None,
        strict_order: false,
        once: false,
        fail_fast: false,
        lease,
        nodes,
        queues,
        polls: true,
        set: false,
    }
}

impl Crowd {
    fn begin(&mut self, client: usize, notified: Notified) {
        let options = options(self.nodes.len(), self.queues);
        let this = &mut self.clients[client];
        this.waiting = Waiting::new(options);
        (this.begun, this.subscribed) = (self.now, false);
        self.step(client, Event::Permit(notified));
    }

    fn step(&mut self, client: usize, event: Event) {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let share = (self.random >> 40) as f64 / (1_u64 << 24) as f64;
        let now = Instant::from_nanos(self.now * 1_000);
        let step = self.clients[client].waiting.on(event, now, || share);
        self.clients[client].listens = false;
        self.clients[client].sleep += 1;
        match step {
            Step::Ask(approach) => self.ask(client, approach),
            Step::Sleep(time) => self.sleep(client, time),
            Step::Listen(longest) => {
                self.clients[client].listens = true;
                self.subscribe(client);
                self.sleep(client, longest);
                self.told(client);
            }
            Step::Hold(_) => {
                let this = &mut self.clients[client];
                this.holds += 1;
                this.longest_wait = this.longest_wait.max(self.now - this.begun);
                self.later(HOLD, client, HOME, What::Unlock);
            }
            step => panic!("{step:?}"),
        }
    }

    fn ask(&mut self, client: usize, approach: Approach) {
        if approach.subscribe {
            self.subscribe(client);
        }
        let nodes = self.nodes.len();
        let this = &mut self.clients[client];
        this.attempt += 1;
        (this.messages, this.unread) = (Messages::default(), false);
        this.approach = Some(approach);
        (this.granted, this.refused) = Default::default();
        this.asked = if approach.home_first { [HOME].into() } else { (0..nodes).collect() };
        for node in this.asked.clone() {
            self.acquire(client, node, approach.yields);
        }
    }

    fn acquire(&mut self, client: usize, node: usize, yields: bool) {
        let this = &self.clients[client];
        let everywhere = this.approach.is_some_and(|approach| approach.enqueue_on_all);
        let enqueues = this.subscribed && (node == HOME || everywhere);
        let since = enqueues.then_some(this.begun);
        self.send(client, node, What::Acquire { yields, since });
    }

    /// The process is subscribed already, so each node's "ask again" comes at once.
    fn subscribe(&mut self, client: usize) {
        let this = &mut self.clients[client];
        if self.queues && !std::mem::replace(&mut this.subscribed, true) {
            (0..self.nodes.len()).for_each(|node| this.messages.add(node, &WaitEvent::Retry));
            this.unread = true;
        }
    }

    fn sleep(&mut self, client: usize, time: Duration) {
        let (time, sleep) = (time.as_micros() as Time, self.clients[client].sleep);
        self.later(time, client, HOME, What::Timer(sleep));
    }

    /// Messages that came while the client asked.
    fn told(&mut self, client: usize) {
        let this = &mut self.clients[client];
        if this.listens && std::mem::take(&mut this.unread) {
            let messages = this.messages;
            self.step(client, Event::Messages(messages, Some(HOME)));
        }
    }

    fn send(&mut self, client: usize, node: usize, what: What) {
        self.requests += 1;
        self.later(self.distance[client], client, node, what);
    }

    fn later(&mut self, after: Time, client: usize, node: usize, what: What) {
        self.sent += 1;
        self.events.insert((self.now + after, self.sent), (client, node, what));
    }

    fn happens(&mut self, client: usize, node: usize, what: What) {
        let trip = self.distance[client];
        match what {
            What::Acquire { yields, since } => {
                let attempt = self.clients[client].attempt;
                let granted = self.nodes[node].acquire(client, yields, since);
                self.later(trip, client, node, What::Reply { attempt, granted });
            }
            What::Release { keeps, last } => {
                let notified = self.release(client, node, keeps);
                if last {
                    self.later(trip, client, node, What::Released { notified });
                }
            }
            What::PassOn => drop(self.notify_next(node)),
            What::Reply { attempt, granted } => {
                if self.clients[client].attempt == attempt {
                    self.reply(client, node, granted);
                }
            }
            What::Released { notified: true } => self.begin(client, Notified::Waiter),
            What::Released { notified: false } => self.begin(client, Notified::Nobody),
            What::Tell(message) => {
                if !self.clients[client].subscribed {
                    return self.send(client, node, What::PassOn);
                }
                self.clients[client].messages.add(node, &message);
                self.clients[client].unread = true;
                self.told(client);
            }
            What::Timer(sleep) => {
                if self.clients[client].sleep == sleep {
                    self.step(client, Event::Timer);
                }
            }
            What::Unlock => {
                self.clients[client].subscribed = false;
                for node in (0..self.nodes.len()).rev() {
                    self.send(client, node, What::Release { keeps: None, last: node == HOME });
                }
            }
        }
    }

    fn reply(&mut self, client: usize, node: usize, granted: bool) {
        let (nodes, quorum) = (self.nodes.len(), quorum_of(self.nodes.len()));
        let this = &mut self.clients[client];
        if granted {
            this.granted.insert(node);
        } else {
            this.refused.insert(node);
        }
        if this.granted.len() >= quorum {
            this.attempt += 1;
            return self.step(client, granted_at(self.now));
        }
        if node == HOME && granted && this.asked.len() == 1 {
            this.asked = (0..nodes).collect();
            return (1..nodes).for_each(|node| self.acquire(client, node, false));
        }
        let by = match this.refused.contains(&HOME) {
            true => RefusedBy::HomeNode,
            false if this.granted.is_empty() => RefusedBy::Others,
            false => RefusedBy::SplitVotes,
        };
        let only_home = this.asked.len() < nodes;
        let answered = this.granted.len() + this.refused.len() >= quorum;
        if only_home || (answered && nodes - this.refused.len() < quorum) {
            this.attempt += 1;
            let keeps = (this.subscribed).then_some(this.begun);
            for node in this.asked.clone() {
                if !self.clients[client].refused.contains(&node) {
                    let keeps = keeps.filter(|_| node == HOME);
                    self.send(client, node, What::Release { keeps, last: false });
                }
            }
            let held = self.nodes[node].holder.is_some();
            let remaining = held.then_some(Duration::from_secs(30));
            let place = self.place(client);
            self.step(client, Event::Refused { remaining, by, place });
        }
    }

    /// Its place in the queue of the home node.
    fn place(&self, client: usize) -> Option<u32> {
        let home = &self.nodes[HOME];
        let before = home.queue.iter().position(|(_, other)| *other == client)?;
        u32::try_from(before + 1 + usize::from(home.notified)).ok()
    }

    fn release(&mut self, client: usize, node: usize, keeps: Option<Time>) -> bool {
        let this = &mut self.nodes[node];
        if this.holder == Some(client) {
            this.holder = None;
        }
        match keeps {
            Some(since) => {
                this.queue.insert((since, client));
                false
            }
            None => self.notify_next(node),
        }
    }

    fn notify_next(&mut self, node: usize) -> bool {
        let this = &mut self.nodes[node];
        if this.holder.is_some() {
            return false;
        }
        this.notified = false;
        let Some((_, next)) = this.queue.pop_first() else { return false };
        this.notified = true;
        self.later(self.distance[next], next, node, What::Tell(WaitEvent::Head(None)));
        true
    }
}

impl Node {
    /// As `acquire.lua` and `wait_queue.lua`.
    fn acquire(&mut self, client: usize, yields: bool, since: Option<Time>) -> bool {
        let first = self.queue.first().map(|(_, first)| *first);
        let others = self.notified || first.is_some_and(|first| first != client);
        let refused = self.holder.is_some() || (since.is_some() && yields && others);
        if let Some(since) = since {
            self.queue.retain(|(_, other)| *other != client);
            if refused {
                self.queue.insert((since, client));
            } else {
                self.notified = false;
            }
        }
        if !refused {
            self.holder = Some(client);
        }
        !refused
    }
}

fn granted_at(now: Time) -> Event {
    let asked = Instant::from_nanos(now * 1_000);
    let grant =
        Grant { until: asked + Duration::from_secs(30), token: FencingToken::NONE, counted: false };
    Event::Granted(Granted { asked, nonce: Nonce::from_u128(1), grant })
}

const NEAR: [Time; CLIENTS] = [50; CLIENTS];
const FAR: [Time; CLIENTS] = [10_000; CLIENTS];
/// Half of the clients are beside the nodes, half are 20 ms away.
const MIXED: [Time; CLIENTS] = [50, 10_000, 60, 10_100, 70, 10_200, 80, 10_300];

#[test]
fn equal_clients_get_equal_shares() {
    for (nodes, distance, most, price) in
        [(1, NEAR, 1.1, 4.0), (1, FAR, 1.1, 5.0), (5, NEAR, 1.1, 12.0), (5, FAR, 1.3, 13.0)]
    {
        let outcome = run(nodes, true, distance);
        eprintln!("{nodes} nodes, {} us away: {outcome:?}", distance[0]);
        assert!(outcome.evenness <= most && outcome.requests <= price, "{nodes}: {outcome:?}");
        let turn = Duration::from_micros((4 * distance[0] + HOLD) * CLIENTS as u64);
        assert!(outcome.longest_wait < turn * 4, "{nodes}, {turn:?}: {outcome:?}");
    }
}

/// Clients that are far away come back later, so they get fewer turns; but nobody passes them.
#[test]
fn clients_far_away_are_not_left_out() {
    for nodes in [1, 3, 5] {
        let outcome = run(nodes, true, MIXED);
        eprintln!("{nodes} nodes, mixed: {outcome:?}");
        assert!(outcome.evenness <= 2.0, "{nodes} nodes: {outcome:?}");
    }
}

/// Without queues nobody gives way: a client holds the lock again and again until another one's poll
/// finds it free. But every client gets its turns, on a quorum as on one node.
#[test]
fn without_queues_every_client_gets_turns() {
    for (distance, most) in [(NEAR, 12.0), (FAR, 2.0)] {
        for nodes in [1, 5] {
            let outcome = run(nodes, false, distance);
            eprintln!("{nodes} nodes without queues, {} us away: {outcome:?}", distance[0]);
            assert!(outcome.evenness <= most, "{nodes} nodes: {outcome:?}");
        }
    }
}
