//! Sends the same requests to a real node and to a simulated one, and compares the answers.

#![allow(clippy::unwrap_used)] // a test: whatever cannot be is its failure

mod direct;
mod op;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quorumlock_protocol::admission::members::{CLOCK_BOUND, MemberList, Terms};
use quorumlock_protocol::admission::{
    AdmissionRpc, AdmitRequest, ClusterConfig, Marks, NodeInfo, NoteRequest,
};
use quorumlock_protocol::{
    Acceptance, Answer, Denial, EnqueueRequest, Fence, HandoffOffer, HeldInterval, Hints, Holder,
    Incarnation, Lane, LeaseRequest, Name, NodeReport, Nonce, Notified, ReplyFuture, ReplySink,
    Responder, Settings, Subscription, WaitEvent, WaitQueue as _, Wire,
};
use quorumlock_redis::{RedisNode, redis_nodes};
use quorumlock_sim::SimNode;
use quorumlock_watchdog::Clock;
use tokio::sync::Notify;

use direct::send_command;
pub(crate) use op::{Op, Token};

/// A lease that ends during a test, one that does not, one longer than the cluster config allows.
const LEASES: [Duration; 3] =
    [Duration::from_millis(600), Duration::from_secs(60), Duration::from_secs(120)];
/// After this time all short leases have ended, and unproven nodes have been examined again.
const EXPIRY_WAIT: Duration = Duration::from_millis(700);
/// After this time a connection has been dialled again.
const REDIAL: Duration = Duration::from_millis(25);
const MAX_WAIT: Duration = Duration::from_secs(5);
/// By how many milliseconds the two answers may differ.
const MAX_DIFFERENCE: u64 = 150;

/// One side: the node, its clock, and the tokens that were proposed to it.
struct Side<N> {
    node: N,
    clock: Clock,
    /// The token that was proposed last for each name.
    tokens: [u64; 2],
    label: &'static str,
}

/// The answer of a side, in words that both sides use.
#[derive(Clone, Debug, PartialEq)]
struct SideAnswer {
    what: String,
    /// Milliseconds, compared with a tolerance of [`SLACK`].
    millis: Option<u64>,
    /// The mark that a token is not above.
    mark: Option<u64>,
}

/// Runs `ops` on both nodes. The first difference is an error.
pub(crate) fn compare(
    url: &str,
    address: SocketAddr,
    wire: Wire,
    strict: bool,
    ops: &[Op],
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| e.to_string())?.block_on(run(url, address, wire, strict, ops))
}

async fn run(
    url: &str,
    address: SocketAddr,
    wire: Wire,
    strict: bool,
    ops: &[Op],
) -> Result<(), String> {
    send_command(address, "FLUSHALL");
    let config = cluster_config();
    let cluster = strict.then_some(&config);
    let (mut real, mut model) = (real_side(url, wire, cluster), simulated_side(wire, cluster));
    let _subscriptions = subscribe(&real.node, &model.node).await?;
    for (fresh, (step, op)) in (2..).zip(ops.iter().enumerate()) {
        let compared = compare_step(address, &mut real, &mut model, op, fresh).await;
        compared.map_err(|difference| format!("step {step}, {op:?}: {difference}"))?;
    }
    Ok(())
}

fn cluster_config() -> ClusterConfig {
    ClusterConfig {
        prefix: "twin".into(),
        members: list_of(0),
        longest: Duration::from_secs(90),
        clock_bound: CLOCK_BOUND,
    }
}

/// The list of the clients, or another one.
fn list_of(list: usize) -> MemberList {
    MemberList::new([["n0", "n1"], ["n0", "other"]][list])
}

fn real_side(url: &str, wire: Wire, cluster: Option<&ClusterConfig>) -> Side<RedisNode> {
    let clock = Clock::system();
    let mut nodes =
        redis_nodes(&[format!("{url}?label=n0")], wire, cluster, &Settings::default(), &clock)
            .unwrap();
    Side { node: nodes.pop().unwrap(), clock, tokens: [0; 2], label: "real" }
}

fn simulated_side(wire: Wire, cluster: Option<&ClusterConfig>) -> Side<SimNode> {
    let (mut nodes, clock) = quorumlock_sim::nodes(1, wire, cluster);
    Side { node: nodes.pop().unwrap(), clock, tokens: [0; 2], label: "simulated" }
}

/// Subscribes to each name on both nodes, and waits until both can notify.
async fn subscribe(real: &RedisNode, model: &SimNode) -> Result<Vec<Subscription>, String> {
    // Clients of both nodes can be in queues only after they can be notified.
    let flags = [(); 2].map(|()| Arc::new(EventFlag::default()));
    let subscriptions = (0..2)
        .flat_map(|name| {
            let name = name_of(name);
            let [a, b] = flags.clone();
            [real.subscribe(&name, a, 0), model.subscribe(&name, b, 0)]
        })
        .collect();
    for flag in &flags {
        let heard = tokio::time::timeout(MAX_WAIT, flag.0.notified()).await;
        heard.map_err(|_| "a node told nobody that it can be heard")?;
    }
    Ok(subscriptions)
}

async fn compare_step(
    address: SocketAddr,
    real: &mut Side<RedisNode>,
    model: &mut Side<SimNode>,
    op: &Op,
    fresh: u128,
) -> Result<(), String> {
    let seed = Clock::system().wall_micros();
    erase(address, real, model, op);
    let (a, b) = (real.step(op, seed, fresh), model.step(op, seed, fresh));
    let late = |side: &str| format!("the {side} gave no answer");
    let a = tokio::time::timeout(MAX_WAIT, a).await.map_err(|_| late("server"))?;
    let b = tokio::time::timeout(MAX_WAIT, b).await.map_err(|_| late("model"))?;
    if a.what != b.what || !near(a.millis, b.millis, MAX_DIFFERENCE) || a.mark != b.mark {
        return Err(unlike("answers", &a, &b));
    }
    settle(op, &a).await;
    compare_names(address, &model.node)?;
    same("verified under", &known(real), &known(model))
}

/// Erases on both sides what `op` erases without a request of a node.
fn erase(address: SocketAddr, real: &mut Side<RedisNode>, model: &mut Side<SimNode>, op: &Op) {
    match op {
        Op::Delete { name } => {
            let key = name_of(*name);
            // The result of DEL is not compared: an expired key exists until it is read.
            send_command(address, &format!("DEL {}", key.as_str()));
            let _ = model.node.delete(&key);
        }
        Op::Flush => {
            send_command(address, "FLUSHALL");
            model.node.flush();
            (real.tokens, model.tokens) = ([0; 2], [0; 2]);
        }
        _ => {}
    }
}

/// Waits until the background work of the step is done.
async fn settle(op: &Op, said: &SideAnswer) {
    if said.what.contains("Stale") {
        tokio::time::sleep(REDIAL).await;
    }
    if matches!(op, Op::Wait | Op::Provision { .. } | Op::Admit { .. }) {
        tokio::time::sleep(EXPIRY_WAIT).await;
    }
}

/// Compares the mark and the queue length of each name.
fn compare_names(address: SocketAddr, model: &SimNode) -> Result<(), String> {
    for name in 0..2 {
        let key = name_of(name);
        let answer = send_command(address, &format!("ZSCORE {} m", key.mark_key()));
        same("marks", &answer.parse().ok(), &model.mark(&key))?;
        let answer = send_command(address, &format!("ZCARD {}", key.waiters_key()));
        same("waiting", &answer, &format!(":{}", model.waiting(&key)))?;
    }
    Ok(())
}

fn same<T: PartialEq + fmt::Debug>(what: &str, real: &T, model: &T) -> Result<(), String> {
    if real == model { Ok(()) } else { Err(unlike(what, real, model)) }
}

fn unlike(what: &str, real: &impl fmt::Debug, model: &impl fmt::Debug) -> String {
    format!("{what}: the server {real:?}, the model {model:?}")
}

/// Records only that an event came. The events themselves do not matter here.
#[derive(Default)]
struct EventFlag(Notify);

impl ReplySink<WaitEvent> for EventFlag {
    fn collect(&self, _from: usize, _news: WaitEvent) {
        self.0.notify_one();
    }
}

fn known<N: AdmissionRpc>(side: &Side<N>) -> (Incarnation, bool) {
    (side.node.incarnation(), side.node.proven())
}

impl<N: AdmissionRpc> Side<N> {
    async fn step(&mut self, op: &Op, seed: u64, fresh: u128) -> SideAnswer {
        let incarnation = Nonce::from_u128(fresh).to_string();
        match op {
            Op::Acquire { at, ttl, token, enqueue: line, previous: before, by_txn: plain } => {
                let token = self.propose(at.1, *token, seed);
                let previous = before.map(nonce_of);
                let hints = match line {
                    Some(line) => Hints::queued(EnqueueRequest { previous, ..*line }),
                    None => Hints::contended(!*plain),
                };
                self.acquire(&lease_request(*at, LEASES[*ttl], 1), token, hints).await
            }
            Op::Raise { at, by } => self.raise(*at, *by).await,
            Op::Renew { at, ttl, holds } => {
                self.renew(lease_request(*at, LEASES[*ttl], *holds)).await
            }
            Op::Regrant { at, ttl, by } => self.regrant(*at, LEASES[*ttl], *by).await,
            Op::Release { at, keeps_place } => self.release(*at, *keeps_place).await,
            Op::Inspect { name } => self.inspect(*name).await,
            Op::Force { name } => self.force_release(*name).await,
            Op::Dequeue { at, handoff: offer } => self.dequeue(*at, *offer).await,
            Op::NodeInfo => self.describe_admission(self.node.node_info().await, |sheet| {
                describe_node_info(&sheet)
            }),
            Op::Note { list, takes_over } => {
                let instead_of = if *takes_over {
                    self.info().await.and_then(|info| info.note_id)
                } else {
                    None
                };
                let request = NoteRequest { list: list_of(*list), id: incarnation, instead_of };
                self.describe_done(self.node.note(request).await)
            }
            Op::Barrier => self
                .describe_admission(self.node.barrier(&incarnation).await, |marks| {
                    format!("{marks:?}")
                }),
            Op::Admit { right, young } => self.admit((*right, *young), &incarnation).await,
            Op::WriteTerms { by, list } => self.write_terms((*by, *list), &incarnation).await,
            Op::Provision { seen } => {
                let info = self.info().await;
                let phase = info.as_ref().map_or(0, phase_of) + 1;
                let terms = Terms { phase, list: list_of(0), next: None };
                let found = info.and_then(|info| info.incarnation).filter(|_| *seen);
                self.describe_done(self.node.provision(found, &terms, &incarnation).await)
            }
            Op::Delete { .. } | Op::Wait | Op::Flush => {
                self.describe_admission(Ok(()), |()| "-".into())
            }
        }
    }

    fn propose(&mut self, name: usize, token: Token, seed: u64) -> Fence {
        let last = &mut self.tokens[name];
        *last = match token {
            Token::None => 0,
            Token::Now => seed,
            Token::Behind => seed - 7_200_000_000,
            Token::Again => *last,
        };
        Fence::new(*last)
    }

    async fn acquire(&self, lease: &LeaseRequest, token: Fence, hints: Hints) -> SideAnswer {
        let known = self.node.incarnation();
        let answer = ask(|to| self.node.acquire(lease, token, known, hints, to)).await;
        let now = self.clock.now();
        self.describe(&answer, |vote| (ms(vote.until.since(now)), mark(vote.token)))
    }

    async fn raise(&self, at: (usize, usize), by: i64) -> SideAnswer {
        let known = self.node.incarnation();
        // A raise needs a token.
        let token = Fence::new(self.tokens[at.1].saturating_add_signed(by).max(1));
        let lease = lease_request(at, LEASES[1], 1);
        let answer = ask(|to| self.node.raise(&lease, token, known, to)).await;
        self.describe(&answer, |said| (None, mark(*said)))
    }

    async fn renew(&self, lease: LeaseRequest) -> SideAnswer {
        let leases = [lease];
        let answers = ask_all(|to| self.node.renew(&leases, Lane::Caller, to)).await;
        let now = self.clock.now();
        match answers.first() {
            Some(one) => self.describe(one, |until| (ms(until.since(now)), None)),
            None => SideAnswer { what: "nothing".into(), millis: None, mark: None },
        }
    }

    async fn regrant(&self, at: (usize, usize), ttl: Duration, by: i64) -> SideAnswer {
        let token = Fence::new(self.tokens[at.1].saturating_add_signed(by));
        let lease = lease_request(at, ttl, 2);
        let answer = ask(|to| self.node.regrant(&lease, token, Lane::Watchdog, to)).await;
        let now = self.clock.now();
        self.describe(&answer, |until| (ms(until.since(now)), None))
    }

    async fn release(&self, at: (usize, usize), keeps_place: Option<Duration>) -> SideAnswer {
        let lease = lease_request(at, LEASES[1], 1);
        let held = HeldInterval::UNKNOWN;
        let place = |waited| EnqueueRequest {
            waited,
            yield_to_notified: false,
            handoff: None,
            previous: None,
        };
        let hints = keeps_place.map(place).map_or_else(Hints::default, Hints::queued);
        let answer = ask(|to| self.node.release(&lease, held, Lane::Caller, hints, to)).await;
        let mut said = self.describe(&answer, |_| (None, None));
        if let Answer::Yes(freed) = &answer {
            // In the model nobody subscribes to the channels of names.
            let turn = freed.notified == Some(Notified::Waiter);
            said.what = format!("held {}, woke a waiter {turn}", freed.held);
        }
        said
    }

    async fn inspect(&self, name: usize) -> SideAnswer {
        let answer = ask(|to| self.node.inspect(&name_of(name), to)).await;
        let mut said = self.describe(&answer, |holder| {
            (holder.as_ref().and_then(|holder| holder.remaining).and_then(ms), None)
        });
        if let Answer::Yes(holder) = &answer {
            said.what = format!("{:?}", holder.as_ref().map(who));
        }
        said
    }

    async fn force_release(&self, name: usize) -> SideAnswer {
        let answer = ask(|to| self.node.force_release(&name_of(name), to)).await;
        self.describe(&answer, |held| (Some(u64::from(*held)), None))
    }

    async fn dequeue(&self, at: (usize, usize), offer: Option<HandoffOffer>) -> SideAnswer {
        let name = name_of(at.1);
        let offered = offer.map(|offer| (lease_request(at, LEASES[1], 1), offer));
        if let Some(queue) = self.node.wait_queue() {
            queue.leave(&name, offered.as_ref());
        }
        // The request above has no answer. This one is answered after it, on the same connection.
        ask(|to| self.node.inspect(&name, to)).await;
        self.describe_admission(Ok(()), |()| "-".into())
    }

    async fn info(&self) -> Option<NodeInfo> {
        self.node.node_info().await.ok()
    }

    /// Admits the node under its note if `right`, else under another note. `young`: the note is not
    /// old enough.
    async fn admit(&self, (right, young): (bool, bool), incarnation: &str) -> SideAnswer {
        let info = self.info().await;
        let phase = info.as_ref().map_or(0, phase_of);
        let note = info.and_then(|info| info.note_id).filter(|_| right);
        let mark = Fence::new(self.tokens[0] + 1_000_000);
        let request = AdmitRequest {
            note: note.unwrap_or_else(|| "another".into()),
            age: if young { Duration::from_secs(3_600) } else { Duration::ZERO },
            terms: Terms { phase, list: list_of(0), next: None },
            incarnation: incarnation.to_owned(),
            marks: Marks::from([(name_of(0).slot(), mark)]),
        };
        self.describe_done(self.node.admit(request).await)
    }

    /// Writes terms whose phase is `by` larger.
    async fn write_terms(&self, (by, list): (u64, usize), incarnation: &str) -> SideAnswer {
        let info = self.info().await;
        let phase = info.as_ref().map_or(0, phase_of) + by;
        let terms = Terms { phase, list: list_of(list), next: None };
        let found = info.and_then(|info| info.incarnation).unwrap_or(Incarnation::NONE);
        self.describe_done(self.node.write_terms(found, &terms, incarnation).await)
    }

    fn describe_done(&self, done: Result<bool, NodeReport>) -> SideAnswer {
        self.describe_admission(done, |done| done.to_string())
    }

    fn describe<T>(
        &self,
        answer: &Answer<T>,
        yes: impl Fn(&T) -> (Option<u64>, Option<u64>),
    ) -> SideAnswer {
        let (what, (millis, mark)) = match answer {
            Answer::Yes(value) => ("yes", yes(value)),
            Answer::No(Denial::Busy(left)) => ("Busy", (left.and_then(ms), None)),
            Answer::No(Denial::Gone) => ("Gone", (None, None)),
            Answer::No(Denial::Config(_)) => ("Config", (None, None)),
            Answer::No(Denial::Stale(_)) => ("Stale", (None, None)),
            Answer::No(Denial::NotAdmitted(_)) => ("NotAdmitted", (None, None)),
            Answer::No(Denial::Refused(_)) => ("Refused", (None, None)),
            Answer::NoAnswer(_) => (self.label, (None, None)),
        };
        SideAnswer { what: what.into(), millis, mark }
    }

    fn describe_admission<T>(
        &self,
        answer: Result<T, NodeReport>,
        yes: impl Fn(T) -> String,
    ) -> SideAnswer {
        let what = answer.map_or_else(|report| format!("{}: {report}", self.label), yes);
        SideAnswer { what, millis: None, mark: None }
    }
}

fn mark(said: Acceptance) -> Option<u64> {
    match said {
        Acceptance::Accepted | Acceptance::Counted(_) => None,
        Acceptance::Behind(mark) => Some(mark.get()),
    }
}

fn phase_of(info: &NodeInfo) -> u64 {
    info.memory.record.as_ref().map_or(0, |record| record.terms.phase)
}

/// Without run identities, ids and times, which each side draws for itself.
fn describe_node_info(info: &NodeInfo) -> String {
    let memory = &info.memory;
    let present = |run_identity: &str| *run_identity == *memory.run_identity;
    let record = memory.record.as_ref();
    let record = record.map(|r| (&r.label, &r.terms, present(&r.run_identity)));
    let note = memory.note.as_ref();
    let note = note.map(|note| (&note.label, &note.list, present(&note.run_identity)));
    let incarnation = info.incarnation.map(|incarnation| incarnation.to_string());
    let outdated = info.outdated.as_ref().map(|(list, _)| list);
    let setup = (&info.role, info.replicas, &info.policy, info.major >= 7);
    format!("{record:?} {note:?} {incarnation:?} {:?} {outdated:?} {setup:?}", info.agreed_ms)
}

/// The holder's id and holds, without the client's number after the colon, which each side draws
/// for itself.
fn who(holder: &Holder) -> (String, u32) {
    let id = holder.id.split(':').next().unwrap_or_default().to_owned();
    (id, holder.holds)
}

fn lease_request((who, name): (usize, usize), ttl: Duration, holds: u32) -> LeaseRequest {
    LeaseRequest { name: name_of(name), nonce: nonce_of(who), ttl, holds }
}

/// One release in eight, chosen by its nonce, also notifies the subscribers of the name's channel.
/// The model has no such subscribers, so these nonces begin with a digit that does not choose it.
pub(crate) fn nonce_of(who: usize) -> Nonce {
    Nonce::from_u128(0x1_u128 << 124 | who as u128)
}

fn name_of(name: usize) -> Name {
    Name::new(&format!("twin/{name}")).unwrap()
}

async fn ask<T: Send + 'static>(post: impl FnOnce(Responder<Answer<T>>)) -> Answer<T> {
    let (slot, to) = ReplyFuture::new();
    post(to);
    slot.await
}

async fn ask_all<T: Send + 'static>(post: impl FnOnce(Responder<Vec<T>>)) -> Vec<T> {
    let (slot, to) = ReplyFuture::new();
    post(to);
    slot.await
}

fn ms(d: Duration) -> Option<u64> {
    u64::try_from(d.as_millis()).ok()
}

fn near(a: Option<u64>, b: Option<u64>, slack: u64) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.abs_diff(b) <= slack,
        (a, b) => a == b,
    }
}
