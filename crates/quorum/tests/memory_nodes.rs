//! Nodes in memory, which have the verbs of [`Node`] alone. A node need not keep a queue of waiters:
//! then the same locker polls, and every waiter gets the lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorumlock_core::{Entropy, Environment, Lessor, Locker, Single, kind};
use quorumlock_protocol::{
    Acceptance, Answer, Claim, Denial, FencingToken, HeldInterval, Hints, Holder, Incarnation,
    Instant, Lane, LeaseRequest, LossReason, Node, Nonce, Notified, ReleaseOutcome, Responder,
    Settings, Vote, expiry,
};
use quorumlock_quorum::Quorum;
use quorumlock_watchdog::Clock;

const CLIENTS: u64 = 4;
const HOLD: Duration = Duration::from_millis(2);

#[derive(Default)]
struct Server {
    holder: Option<(Nonce, Instant)>,
    mark: FencingToken,
}

/// One server for one name, as a client sees it.
#[derive(Clone)]
struct MemoryNode {
    number: u64,
    server: Arc<Mutex<Server>>,
    clock: Clock,
    /// The requests of callers that a slow node has not carried out yet: it does so before it answers
    /// a renewal.
    late: Option<Arc<Mutex<Vec<Request>>>>,
}

type Request = Box<dyn FnOnce() + Send>;

impl MemoryNode {
    fn new(number: u64, clock: &Clock) -> Self {
        Self { number, server: Arc::default(), clock: clock.clone(), late: None }
    }

    fn carry_out(&self, lane: Lane, request: impl FnOnce() + Send + 'static) {
        match &self.late {
            Some(late) if lane == Lane::Caller => {
                late.lock().expect("no panic").push(Box::new(request))
            }
            _ => request(),
        }
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.holder = server.holder.filter(|(_, until)| *until > self.clock.now());
        server
    }

    fn until(&self, lease: &LeaseRequest) -> Instant {
        expiry(self.clock.now(), lease.ttl, 0.0)
    }

    fn hold(&self, lease: &LeaseRequest) -> Answer<Instant> {
        let until = self.until(lease);
        let mut server = self.server();
        let ours = server.holder.filter(|(nonce, _)| *nonce == lease.nonce);
        match ours {
            Some(_) => {
                server.holder = Some((lease.nonce, until));
                Answer::Yes(until)
            }
            None => Answer::No(Denial::Gone),
        }
    }
}

impl Server {
    fn accept(&mut self, token: FencingToken) -> Acceptance {
        if token == FencingToken::NONE || token > self.mark {
            self.mark = self.mark.max(token);
            return Acceptance::Accepted;
        }
        Acceptance::Behind(self.mark)
    }
}

impl Node for MemoryNode {
    fn label(&self) -> &str {
        "memory"
    }

    fn identity(&self) -> u64 {
        self.number
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation::NONE
    }

    fn acquire(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        _: Incarnation,
        hints: Hints,
        to: Responder<Answer<Vote>>,
    ) {
        assert!(hints.enqueue().is_none(), "there is no queue");
        let (node, lease) = (self.clone(), lease.clone());
        self.carry_out(Lane::Caller, move || {
            let until = node.until(&lease);
            let mut server = node.server();
            let answer = match server.holder {
                Some((_, until)) => Answer::No(Denial::Busy(Some(until.since(node.clock.now())))),
                None => {
                    server.holder = Some((lease.nonce, until));
                    Answer::Yes(Vote { until, token: server.accept(token) })
                }
            };
            drop(server);
            to.send(answer);
        });
    }

    fn raise(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        _: Incarnation,
        to: Responder<Answer<Acceptance>>,
    ) {
        let mut server = self.server();
        let answer = match server.holder {
            Some((nonce, _)) if nonce == lease.nonce => Answer::Yes(server.accept(token)),
            _ => Answer::No(Denial::Gone),
        };
        drop(server);
        to.send(answer);
    }

    fn regrant(
        &self,
        lease: &LeaseRequest,
        _: FencingToken,
        _: Lane,
        to: Responder<Answer<Instant>>,
    ) {
        to.send(self.hold(lease));
    }

    fn renew(&self, leases: &[LeaseRequest], lane: Lane, to: Responder<Vec<Answer<Instant>>>) {
        if let Some(late) = self.late.as_ref().filter(|_| lane == Lane::Caller) {
            let requests = std::mem::take(&mut *late.lock().expect("no panic"));
            requests.into_iter().for_each(|request| request());
        }
        to.send(leases.iter().map(|lease| self.hold(lease)).collect());
    }

    fn release(
        &self,
        lease: &LeaseRequest,
        _: HeldInterval,
        lane: Lane,
        _: Hints,
        to: Responder<Answer<ReleaseOutcome>>,
    ) {
        let (node, ours) = (self.clone(), lease.nonce);
        self.carry_out(lane, move || {
            let held = node.server().holder.take_if(|(nonce, _)| *nonce == ours).is_some();
            let notified = Some(Notified::Nobody);
            to.send(Answer::Yes(ReleaseOutcome { held, forgot: false, notified }));
        });
    }

    fn inspect(&self, _: &Claim, to: Responder<Answer<Option<Holder>>>) {
        let holder = self.server().holder;
        let remaining = |until: Instant| Some(until.since(self.clock.now()));
        to.send(Answer::Yes(
            holder.map(|(nonce, until)| Holder::new(nonce.to_string(), remaining(until), 1)),
        ));
    }

    fn force_release(&self, _: &Claim, _: Option<&str>, to: Responder<Answer<bool>>) {
        let held = self.server().holder.take().is_some();
        to.send(Answer::Yes(held));
    }
}

/// Jitter and nonces that are the same in every run.
fn entropy(client: u64) -> Entropy {
    let state = Mutex::new(client.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    Entropy::given(move || {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 31)
    })
}

fn locker(nodes: Vec<MemoryNode>, client: u64, clock: &Clock) -> Locker {
    let settings = Settings::default();
    let within = settings.answer_timeout;
    let lessor: Arc<dyn Lessor> = match &nodes[..] {
        [node] => Arc::new(Single::new(node.clone(), clock.clone(), within)),
        _ => Arc::new(Quorum::new(nodes, clock.clone(), within).expect("some nodes")),
    };
    assert!(lessor.wait_queue().is_none());
    let world = Environment {
        clock: clock.clone(),
        entropy: entropy(client),
        watchdog_on_this_runtime: true,
    };
    Locker::with_lessor(lessor, settings, world).expect("good settings")
}

#[expect(clippy::disallowed_methods, reason = "the paused clock of the test is the lease clock")]
fn paused_clock() -> Clock {
    let begun = tokio::time::Instant::now();
    Clock::given(move || Duration::from_secs(86_400) + begun.elapsed())
}

/// How often each client gets the lock in two simulated minutes.
async fn grants(nodes: u64) -> BTreeMap<u64, u32> {
    let clock = paused_clock();
    let nodes: Vec<_> = (0..nodes).map(|number| MemoryNode::new(number, &clock)).collect();
    let grants = Arc::new(Mutex::new(BTreeMap::new()));
    let clients = (0..CLIENTS).map(|client| {
        let (locker, grants) = (locker(nodes.clone(), client, &clock), grants.clone());
        tokio::spawn(async move {
            loop {
                let guard = locker
                    .lock::<kind::Lock>(Claim::lock(["x"]))
                    .await
                    .expect("granted in the end");
                *grants.lock().expect("no panic").entry(client).or_default() += 1;
                tokio::time::sleep(HOLD).await;
                guard.unlock().await.expect("held");
                tokio::time::sleep(HOLD).await;
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(clients.iter().all(|client| !client.is_finished()), "a client failed");
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    std::mem::take(&mut *grants.lock().expect("no panic"))
}

#[tokio::test(start_paused = true)]
async fn every_waiter_gets_the_lock_by_polling() {
    for nodes in [1, 3, 5] {
        let grants = grants(nodes).await;
        let (most, least) = (grants.values().max(), grants.values().min());
        let (most, least) = (most.copied().unwrap_or(0), least.copied().unwrap_or(0));
        assert_eq!(grants.len() as u64, CLIENTS, "{nodes} nodes: {grants:?}");
        assert!(least > 1_000 && most < 2 * least, "{nodes} nodes: {grants:?}");
    }
}

/// The limit of a hold is as far away on a host whose clock on the wall is an hour off (PROTOCOL.md TIC3).
#[tokio::test(start_paused = true)]
async fn a_limit_moves_to_a_host_with_another_wall_clock() {
    const LIMIT: Duration = Duration::from_secs(9);
    const HOUR: u64 = 3_600_000_000;
    let clock = paused_clock();
    let with_wall = |at: u64| clock.clone().with_wall(move || at);
    let ours = with_wall(500_000 * HOUR);
    for theirs in [with_wall(499_999 * HOUR), with_wall(500_001 * HOUR)] {
        let nodes: Vec<_> = (0..3).map(|number| MemoryNode::new(number, &clock)).collect();
        let (ours, theirs) = (locker(nodes.clone(), 0, &ours), locker(nodes, 1, &theirs));
        let guard =
            ours.lock::<kind::Lock>(Claim::lock(["x"])).hold_at_most(LIMIT).await.expect("free");
        tokio::time::sleep(LIMIT / 3).await;
        let ticket = guard.into_ticket().expect("held").to_string();
        let resumed = theirs.resume(&ticket.parse().expect("a ticket")).await.expect("held");
        let begun = clock.now();
        assert_eq!(resumed.lost().await.why, LossReason::HoldLimit);
        let (held, left) = (clock.now().since(begun), LIMIT * 2 / 3);
        assert!(held <= left && held > left / 2, "{held:?} of {left:?}");
    }
}

/// A node grants a lock after its guard has been dropped. A locker that is closed has released the
/// lock there, too: its process may end now.
#[tokio::test(start_paused = true)]
async fn close_awaits_the_release_of_a_late_grant() {
    let clock = paused_clock();
    let mut nodes: Vec<_> = (0..3).map(|number| MemoryNode::new(number, &clock)).collect();
    nodes[2].late = Some(Arc::default());
    let locker = locker(nodes.clone(), 0, &clock);
    drop(locker.lock::<kind::Lock>(Claim::lock(["x"])).await.expect("two nodes grant"));
    locker.close().await;
    for node in nodes {
        assert_eq!(node.server().holder, None, "node {}", node.number);
    }
}
