use std::collections::BTreeSet;
use std::sync::Arc;

use quorumlock_protocol::admission::members::{CLOCK_BOUND, NodeMemory, ServerClock, Terms};
use quorumlock_protocol::admission::{ClusterConfig, Marks, NodeInfo, NodeStatus, classify};
use quorumlock_protocol::{
    EnqueueRequest, Fence, Incarnation, LeaseRequest, Name, Nonce, RemoteGrant, Wire,
};

use super::admission_records::ScriptContext;
use super::bug::Bug;
use super::event::Arrival;
use super::plan::{Plan, member};
use super::queue::QueueMember;
use super::request::{AdmissionReply, AdmissionRequest, Reply, SimRequest};
use super::sometimes::Sometimes;
use super::store::{AcquireArgs, AcquireReply, Field, Store};
use super::time::{Micros, NodeClock, SECOND, micros, millis};
use super::txn_acquire;
use crate::dice::Dice;

/// One node: its data, its clock, and whether it runs.
#[derive(Debug)]
pub struct Server {
    pub label: String,
    /// Its label in lists of nodes.
    pub member: Arc<str>,
    /// What its clock would show if no fault had set or stopped it: what the clients' wall clocks
    /// show.
    right_clock: NodeClock,
    pub store: Store,
    pub clock: NodeClock,
    /// By how much faults may still set its clock back. Its keys outlive their leases by that much.
    pub back: Micros,
    pub run: Run,
    pub run_identity: RunIdentity,
    /// The cluster config that all clients share. `None`: no admission.
    pub cluster: Option<ClusterConfig>,
    /// The clients that are subscribed to their own channel here.
    pub subscribed: BTreeSet<usize>,
    pub bug: Option<Bug>,
}

/// One run of the server process. A crash ends it and all its connections.
#[derive(Debug, Default)]
pub struct Run {
    pub number: u64,
    pub down: bool,
    /// Stopped by `SIGSTOP`. Requests that arrive meanwhile are executed when the server resumes.
    pub stopped: bool,
    pub backlog: Vec<Arrival>,
}

/// The identity of the server's memory. Its run id and scripts do not outlive the process.
#[derive(Debug, Default)]
pub struct RunIdentity {
    number: u64,
    /// Part of the run id. A stale replica that is promoted has a run id of its own.
    run: u64,
    /// Part of the replication id.
    history: u64,
    /// The incarnations to which the loaded scripts are bound.
    pub scripts: Vec<Incarnation>,
    /// When the process began, on the node's clock.
    pub born: Micros,
}

/// The effects of a request.
pub struct Effects {
    pub reply: Reply,
    /// The subscribed waiter that is notified.
    pub notified: Option<NotifiedWaiter>,
    pub seen: Option<Sometimes>,
}

/// A waiter that is told that a name is free, or that the name was handed off to it.
pub struct NotifiedWaiter {
    pub client: usize,
    pub name: Name,
    pub handoff: Option<RemoteGrant>,
}

impl Server {
    pub fn new(number: usize, plan: &Plan, bug: Option<Bug>, dice: &mut Dice) -> Self {
        let clock = NodeClock::new(plan.epoch, plan.node_drift(dice));
        Self {
            label: format!("sim://n{number}"),
            member: member(number).into(),
            store: Store::default(),
            right_clock: clock.clone(),
            clock,
            back: plan.clock_back,
            run: Run::default(),
            run_identity: RunIdentity {
                number: number as u64 + 1,
                born: plan.epoch - plan.up_for,
                ..RunIdentity::default()
            },
            cluster: plan.cluster.clone(),
            subscribed: BTreeSet::new(),
            bug,
        }
    }

    /// Gives its clock another rate.
    pub fn slew(&mut self, now: Micros, drift: i64) {
        self.clock.set_drift(now, drift);
        self.right_clock.set_drift(now, drift);
    }

    /// Whether the server runs and is not stopped.
    pub fn answers(&self) -> bool {
        !self.run.down && !self.run.stopped
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each request")]
    pub fn execute(
        &mut self,
        request: &SimRequest,
        bound: Incarnation,
        (client, wire): (usize, Wire),
        now: Micros,
    ) -> Effects {
        let refusal = self.refuses(request, bound).filter(|_| request.votes());
        let by_txn =
            txn_acquire::is_txn(request, self.cluster.as_ref(), bound != Incarnation::NONE);
        if let Some(refusal) = refusal.as_ref().filter(|_| !by_txn) {
            return Effects { reply: refusal.clone(), notified: None, seen: None };
        }
        self.store.bound = bound != Incarnation::NONE;
        let time = self.clock.micros(now);
        for lease in request.leases() {
            self.store.about_to_write(&lease.name, now);
            self.store.touch(&lease.name, time);
        }
        let bug = self.bug;
        if let (
            Some(Bug::AcceptsEqual),
            SimRequest::Acquire(lease, token, ..) | SimRequest::Raise(lease, token, _),
        ) = (bug, request)
        {
            self.store.forget_equal(&lease.name, token.get());
        }
        let by = |lease: &LeaseRequest| (wire, field(bug, lease, client));
        let (mut notified, mut seen) = (None, None);
        let reply = match request {
            SimRequest::Acquire(lease, token, ..) if by_txn => {
                let take = take(lease, by(lease), *token);
                let taken = self.store.acquire_by_txn(&lease.name, &take, time);
                seen = Some(txn_acquire::seen(refusal.is_some(), taken));
                refusal
                    .filter(|_| bug != Some(Bug::BelievesAnyMemory))
                    .unwrap_or(Reply::Taken(taken))
            }
            SimRequest::Acquire(lease, token, _, hints) => {
                let take = take(lease, by(lease), *token);
                self.acquire_or_enqueue(lease, &take, hints.enqueue().copied(), (client, time))
            }
            SimRequest::Raise(lease, token, _) => {
                let raised = self.store.raise(&lease.name, by(lease), token.get(), time);
                raised.map_or(Reply::WrongType, Reply::Raised)
            }
            SimRequest::Regrant(lease, token) => {
                let mut take = take(lease, by(lease), *token);
                take.ttl_ms = self.at_most(take.ttl_ms);
                let held = self.store.regrant(&lease.name, &take, time);
                held.map_or(Reply::WrongType, Reply::Regranted)
            }
            SimRequest::Renew(leases) => {
                let held = leases.iter().map(|lease| self.renew(lease, by(lease), time));
                Reply::Renewed(held.collect())
            }
            SimRequest::Release(lease, queue_action, _) => {
                let reply;
                (reply, notified) =
                    self.release_script(lease, *queue_action, (client, by(lease)), time);
                reply
            }
            SimRequest::Inspect(name) => Reply::Holder(self.store.inspect(name, time)),
            SimRequest::ForceRelease(name) => {
                self.store.about_to_write(name, now);
                let held = self.store.force_release(name, time);
                notified = held.then(|| self.notify_next(name, wire, time)).flatten();
                Reply::Forced(held)
            }
            SimRequest::Dequeue(name) => {
                self.store.about_to_write(name, now);
                let late = !self.store.dequeue(name, QueueMember::of(client, None), time);
                if late && self.store.held(name, time).is_none() {
                    notified = self.notify_next(name, wire, time);
                }
                Reply::Forced(false)
            }
            SimRequest::Admission(request) => Reply::Admission(self.admission(request, now)),
        };
        Effects { reply, notified, seen }
    }

    /// The refusal of a voting script that is bound to `incarnation`, before it does anything else:
    /// the node is not verified under `incarnation`, or the lease is too long.
    fn refuses(&self, request: &SimRequest, incarnation: Incarnation) -> Option<Reply> {
        let cluster = self.cluster.as_ref().filter(|_| incarnation != Incarnation::NONE)?;
        // The script cache does not outlive the process: NOSCRIPT.
        let loaded = self.run_identity.scripts.contains(&incarnation);
        let checked = self.bug != Some(Bug::RecordAtConnect);
        if !loaded || checked && self.incarnation() != Some(incarnation) {
            return Some(Reply::Unproven);
        }
        let long = |lease: &LeaseRequest| millis(lease.ttl) > cluster.longest_ms();
        matches!(request, SimRequest::Acquire(lease, ..) if long(lease)).then_some(Reply::TooLong)
    }

    fn incarnation(&self) -> Option<Incarnation> {
        let stored = self.store.admission_record.as_ref();
        stored.and_then(|stored| Incarnation::parse(&stored.incarnation))
    }

    fn admission(&mut self, request: &AdmissionRequest, now: Micros) -> AdmissionReply {
        let Some(cluster) = self.cluster.clone() else { return AdmissionReply::Number(0) };
        let run_identity = self.run_identity.id();
        let context = ScriptContext {
            run_identity: &run_identity,
            label: &self.member,
            clocks: self.clocks(now),
            cluster: &cluster,
            at: now,
        };
        let store = &mut self.store;
        AdmissionReply::Number(u64::from(match request {
            AdmissionRequest::NodeInfo => {
                store.note_outdated(&cluster.members, &context);
                return AdmissionReply::NodeInfo(Box::new(self.node_info(now)));
            }
            AdmissionRequest::Note(note) => store.write_note(note, &context),
            AdmissionRequest::Barrier(incarnation) => {
                let fresh = self.bug != Some(Bug::NoBarrier);
                let marks = store.barrier(incarnation, fresh, &context);
                let copied = self.bug != Some(Bug::CopiesNoMarks);
                return AdmissionReply::Marks(if copied { marks } else { Marks::new() });
            }
            AdmissionRequest::Admit(request) => store.admit(request, &context),
            AdmissionRequest::WriteTerms(found, terms, incarnation) => {
                store.write_terms(*found, (terms, incarnation), &context)
            }
            AdmissionRequest::Provision(found, terms, incarnation) => {
                store.provision(*found, (terms, incarnation), &context)
            }
        }))
    }

    /// Admits the present run at once, as an operator does.
    pub fn provision(&mut self, incarnation: &str, now: Micros) {
        let Some(cluster) = &self.cluster else { return };
        let terms = Terms { phase: 1, list: cluster.members.clone(), next: None };
        let found = self.node_info(now).incarnation;
        let request = AdmissionRequest::Provision(found, terms, incarnation.to_owned());
        self.admission(&request, now);
    }

    /// Its wall clock, and a client's.
    fn clocks(&self, now: Micros) -> (i64, i64) {
        let signed = |micros| i64::try_from(micros).unwrap_or(i64::MAX);
        (signed(self.clock.micros(now)), signed(self.right_clock.micros(now)))
    }

    /// `node_info.lua`.
    pub fn node_info(&self, now: Micros) -> NodeInfo {
        let stored = self.store.admission_record.clone().unwrap_or_default();
        let run_identity = self.run_identity.id();
        let of_the_run = self.store.admits(&run_identity);
        let (server, client) = self.clocks(now);
        let bound = self.cluster.as_ref().map_or(CLOCK_BOUND, |cluster| cluster.clock_bound);
        let (note_id, note) = stored.note.unzip();
        NodeInfo {
            memory: NodeMemory {
                label: self.member.clone(),
                run_identity: run_identity.into(),
                record: stored.record,
                note,
                clock: ServerClock { server, client, bound },
            },
            incarnation: self.incarnation().filter(|_| of_the_run),
            note_id,
            earlier: None,
            agreed_ms: stored.agreed_ms.filter(|_| of_the_run),
            outdated: stored.outdated,
            role: "master".into(),
            replicas: 0,
            policy: "noeviction".into(),
            major: 7,
        }
    }

    /// The uptime that `INFO server` reports, in microseconds, cut to whole seconds.
    pub fn uptime(&self, now: Micros) -> Micros {
        let whole = |micros: Micros| micros - micros % SECOND;
        whole(self.clock.micros(now)).saturating_sub(whole(self.run_identity.born))
    }

    /// The node status that a client finds when it connects now. `None`: no admission.
    pub fn node_status(&self, now: Micros) -> Option<NodeStatus> {
        let cluster = self.cluster.as_ref()?;
        Some(classify(&self.node_info(now), cluster))
    }

    /// Whether its admission record admits its present memory.
    pub fn admitted(&self) -> bool {
        self.store.admits(&self.run_identity.id())
    }

    /// `ttl_ms`, or L if that is shorter and the node runs a bound script.
    fn at_most(&self, ttl_ms: u64) -> u64 {
        match &self.cluster {
            Some(cluster) if self.store.bound => ttl_ms.min(cluster.longest_ms()),
            _ => ttl_ms,
        }
    }

    fn acquire(&mut self, lease: &LeaseRequest, take: &AcquireArgs, time: Micros) -> Reply {
        self.store.acquire(&lease.name, take, time).map_or(Reply::WrongType, Reply::Taken)
    }

    fn renew(&mut self, lease: &LeaseRequest, by: (Wire, Field), time: Micros) -> bool {
        let ttl = self.at_most(millis(lease.ttl));
        match (self.bug, self.store.held(&lease.name, time)) {
            (Some(Bug::RenewalRecreates), None) => {
                let take = take(lease, by, Fence::NONE);
                self.store.acquire(&lease.name, &take, time).is_ok()
            }
            (Some(Bug::RenewsAnybodys), Some(held)) => {
                let by = (held.wire, held.by);
                self.store.renew(&lease.name, by, ttl, lease.holds, time)
            }
            _ => self.store.renew(&lease.name, by, ttl, lease.holds, time),
        }
    }

    /// `wait_queue.lua`.
    fn acquire_or_enqueue(
        &mut self,
        lease: &LeaseRequest,
        take: &AcquireArgs,
        enqueue: Option<EnqueueRequest>,
        (client, time): (usize, Micros),
    ) -> Reply {
        let name = &lease.name;
        let Some(enqueue) = enqueue else { return self.acquire(lease, take, time) };
        let (place, before) = QueueMember::at(client, lease.nonce, enqueue);
        let reply = match self.store.must_yield(name, (enqueue, (place, before)), time) {
            true => Reply::Taken(AcquireReply::Busy(None)),
            false => self.acquire(lease, take, time),
        };
        match &reply {
            Reply::Taken(AcquireReply::Busy(_)) => {
                if enqueue.previous.is_some() {
                    self.store.dequeue(name, before, time);
                }
                let waited = micros(enqueue.waited);
                self.store.enqueue(name, place, waited, take.ttl_ms.max(1_000), time);
            }
            Reply::Taken(_) => self.store.served(name, before, time),
            _ => {}
        }
        reply
    }
}

impl RunIdentity {
    /// The run id and the replication id, as an admission record stores them.
    pub fn id(&self) -> String {
        let Self { number, run, history, .. } = self;
        format!("{number:020x}{run:020x}/{number:020x}{history:020x}")
    }

    /// A new process starts: it has no scripts, and has been up since `born`.
    pub fn restart(&mut self, born: Micros) {
        (self.run, self.history) = (self.run + 1, self.history + 1);
        self.scripts.clear();
        self.born = born;
    }

    /// The same process loads the data of another server: it keeps its run id and its scripts.
    pub fn resync(&mut self) {
        self.history += 1;
    }
}

fn take(lease: &LeaseRequest, (wire, by): (Wire, Field), token: Fence) -> AcquireArgs {
    AcquireArgs { wire, by, ttl_ms: millis(lease.ttl), holds: lease.holds, token: token.get() }
}

fn field(bug: Option<Bug>, lease: &LeaseRequest, client: usize) -> Field {
    let nonce = match bug {
        Some(Bug::OwnerNotNonce) => Nonce::from_u128(client as u128),
        _ => lease.nonce,
    };
    Field { nonce, client: client as u64 }
}
