//! Drives a machine without a network, for tests and the fuzz target.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::admission::members::MemberList;
use quorumlock_protocol::telemetry::{Event, EventHandler};
use quorumlock_protocol::{
    Answer, ClockAnomaly, ClockMonitor, Denial, EnqueueRequest, FencingToken, HeldInterval, Hints,
    Incarnation, Instant, Lane, Layout, LeaseRequest, Name, NoAnswer, NodeProblem, NodeReport,
    Nonce, ReplySink, Responder, Settings,
};

use super::{AckPolicy, ConnectionRules, Disconnect, Posted, Requests, Session, Step};
use crate::command::{Command, NodeContext};
use crate::contended_names::ContendedNames;
use crate::scripts::{Proof, Scripts, Tokens};
use crate::server_info::ServerInfo;
use crate::server_setup::ServerSetup;
use crate::taken_up::TakenUp;
use crate::unconfirmed_releases::UnconfirmedReleases;

/// The incarnation of the node, if its scripts are bound.
pub(super) const INCARNATION: &str = "0123456789abcdef0123456789abcdef";

pub(super) const STALL: Duration = Duration::from_secs(4);
pub(super) const LEASE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) layout: Layout,
    /// Whether the memory of the node must be proven.
    pub(super) bound: bool,
    pub(super) several: bool,
    pub(super) replicas: usize,
    pub(super) durable: bool,
    /// Whether all replicas must acknowledge, and how many the server has.
    pub(super) all: bool,
    pub(super) connected: usize,
    /// What the node adds to each lease.
    pub(super) delay: Duration,
}

pub(super) struct Harness {
    pub(super) context: Arc<NodeContext>,
    pub(super) requests: Requests,
    pub(super) setup: Setup,
    now: Cell<Instant>,
    pub(super) answers: Arc<Answers>,
    /// What the program heard of the node's clock.
    pub(super) anomalies: Arc<Mutex<Vec<ClockAnomaly>>>,
    posted: Cell<usize>,
}

/// One answer, as far as tests tell answers apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Told {
    /// The debug text of the answer.
    Yes(String),
    Busy,
    Gone,
    Stale,
    NotAdmitted,
    Refused(NodeProblem),
    Misconfigured,
    NotSent,
    Unknown,
    /// Nobody answered: the request was dropped.
    Dropped,
    /// The answers for several leases.
    Each(Vec<Self>),
}

/// The answers by the number of the request.
#[derive(Default)]
pub(super) struct Answers(Mutex<HashMap<usize, Vec<Told>>>);

impl Answers {
    pub(super) fn of(&self, request: usize) -> Vec<Told> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(&request).cloned().unwrap_or_default()
    }

    fn add(&self, request: usize, told: Told) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.entry(request).or_default().push(told);
    }
}

impl<T: Debug> ReplySink<Answer<T>> for Answers {
    fn collect(&self, from: usize, answer: Answer<T>) {
        self.add(from, told(answer));
    }
}

impl<T: Debug> ReplySink<Vec<Answer<T>>> for Answers {
    fn collect(&self, from: usize, answers: Vec<Answer<T>>) {
        self.add(from, Told::Each(answers.into_iter().map(told).collect()));
    }
}

fn told<T: Debug>(answer: Answer<T>) -> Told {
    match answer {
        Answer::Yes(yes) => Told::Yes(format!("{yes:?}")),
        Answer::No(Denial::Busy(_)) => Told::Busy,
        Answer::No(Denial::Gone) => Told::Gone,
        Answer::No(Denial::Stale(_)) => Told::Stale,
        Answer::No(Denial::NotAdmitted(_)) => Told::NotAdmitted,
        Answer::No(Denial::Refused(report)) => Told::Refused(report.problem),
        Answer::No(Denial::Config(_)) => Told::Misconfigured,
        Answer::NoAnswer(NoAnswer::NotSent(_)) => Told::NotSent,
        Answer::NoAnswer(NoAnswer::Unknown(report)) if report.node == LABEL => Told::Unknown,
        Answer::NoAnswer(NoAnswer::Unknown(_)) => Told::Dropped,
    }
}

const LABEL: &str = "redis://a:1";

impl Harness {
    pub(super) fn new(setup: Setup) -> Self {
        let anomalies = Arc::new(Mutex::new(Vec::new()));
        let heard = anomalies.clone();
        let hears = EventHandler::new(move |event| {
            if let Event::NodeClock { node: LABEL, anomaly } = *event {
                heard.lock().expect("no panic").push(anomaly);
            }
        });
        let context = Arc::new(NodeContext {
            label: LABEL.to_owned(),
            layout: setup.layout,
            tokens: Tokens::Proposed,
            max_clock_drift: 0.01,
            delay: setup.delay,
            strict_order: false,
            unconfirmed: UnconfirmedReleases::default(),
            bound: setup.bound,
            run_identities: Mutex::default(),
            contended: ContendedNames::default(),
            scripts_only: AtomicBool::new(false),
            clock_monitor: Mutex::new(ClockMonitor::new(0.01)),
            clock_advance: AtomicU64::new(0),
            waiter: Nonce::from_u128(9),
            taken_up: TakenUp::default(),
            redis_cluster: false,
            observes: false,
            on_event: Some(hears),
        });
        let mut settings = Settings::default();
        settings.replicas = setup.replicas;
        settings.all_replicas = setup.all;
        settings.durable = setup.durable;
        settings.replica_timeout = Some(Duration::from_millis(100));
        let rules = ConnectionRules {
            stall: STALL,
            acks: AckPolicy::new(&settings),
            bound: setup.bound,
            several: setup.several,
            lane: Lane::Caller,
        };
        Self {
            requests: Requests::new(context.clone(), rules, None),
            context,
            setup,
            now: Cell::new(Instant::NEVER + Duration::from_secs(86_400)),
            answers: Arc::default(),
            anomalies,
            posted: Cell::new(0),
        }
    }

    /// The server at the other end.
    pub(super) fn server(&self) -> ServerInfo {
        let incarnation = self.incarnation();
        let [unbound, bound] = &SCRIPTS[usize::from(self.setup.layout == Layout::Redisson)];
        ServerInfo {
            scripts: if self.setup.bound { bound } else { unbound }.clone(),
            incarnation,
            unproven: None,
            run_identity: Some(1),
            deletes_if_ours: true,
            loads_by_eval: false,
            replace_at: None,
            setup: self.setup.all.then(|| {
                let info = format!("role:master\r\nconnected_slaves:{}\r\n", self.setup.connected);
                ServerSetup::read(&info, None)
            }),
        }
    }

    /// The same server, whose memory is not proven.
    pub(super) fn unproven(&self) -> ServerInfo {
        let why = Denial::NotAdmitted(NodeReport::new(LABEL, NodeProblem::NotAdmitted));
        ServerInfo { unproven: Some(why), incarnation: Incarnation::NONE, ..self.server() }
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        if self.setup.bound { incarnation() } else { Incarnation::NONE }
    }

    pub(super) fn begin(&self) -> Session<'_> {
        Session::begin(&self.requests, self.server(), self.now())
    }

    pub(super) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(super) fn advance(&self, by: Duration) {
        self.now.set(self.now() + by);
    }

    /// How many requests have a number.
    pub(super) fn posted(&self) -> usize {
        self.posted.get()
    }

    /// Posts a request made by `make`, and returns its number.
    pub(super) fn post(&self, make: impl FnOnce(&Self, To) -> Command) -> usize {
        let number = self.posted.replace(self.posted() + 1);
        let to = To { answers: self.answers.clone(), number };
        let posted = self.requests.post(make(self, to), self.now(), || Ok(()));
        assert!(matches!(posted, Posted::Done | Posted::Wake | Posted::Start(())));
        number
    }

    pub(super) fn acquire(&self) -> usize {
        self.post(|harness, to| harness.acquisition(FencingToken::new(1_000_031), to))
    }

    pub(super) fn unfenced(&self) -> usize {
        self.post(|harness, to| harness.acquisition(FencingToken::NONE, to))
    }

    pub(super) fn acquisition(&self, token: FencingToken, to: To) -> Command {
        let (lease, incarnation) = (lease(to.number), self.incarnation());
        Command::Acquire { lease, token, incarnation, hints: Hints::contended(false), to: to.one() }
    }

    pub(super) fn acquire_by_script(&self, enqueue: Option<EnqueueRequest>) -> usize {
        self.post(|harness, to| {
            let token = FencingToken::new(1_000_031);
            let (lease, incarnation) = (lease(to.number), harness.incarnation());
            let hints = enqueue.map_or_else(Hints::default, Hints::queued);
            Command::Acquire { lease, token, incarnation, hints, to: to.one() }
        })
    }

    pub(super) fn raise(&self) -> usize {
        self.post(|harness, to| Command::Raise {
            lease: lease(to.number),
            token: FencingToken::new(2_000_031),
            incarnation: harness.incarnation(),
            to: to.one(),
        })
    }

    pub(super) fn regrant(&self) -> usize {
        self.post(|_, to| Command::Regrant {
            lease: lease(to.number),
            token: FencingToken::new(7),
            to: to.one(),
        })
    }

    pub(super) fn renew(&self, leases: usize) -> usize {
        let leases = (0..leases).map(lease).collect();
        self.post(|_, to| Command::Renew { leases, to: to.several() })
    }

    pub(super) fn release(&self) -> usize {
        let held = HeldInterval { since: self.now(), until: self.now() + LEASE };
        self.post(|_, to| Command::release(lease(to.number), held, None, to.one()))
    }

    pub(super) fn inspect(&self) -> usize {
        self.post(|_, to| Command::Inspect { claim: name(to.number).into(), to: to.one() })
    }

    pub(super) fn force_release(&self) -> usize {
        self.post(|_, to| Command::ForceRelease {
            claim: name(to.number).into(),
            holder: None,
            to: to.one(),
        })
    }

    pub(super) fn admission(&self) -> usize {
        self.admission_with(0)
    }

    /// An admission script with this many marks.
    pub(super) fn admission_with(&self, marks: usize) -> usize {
        let mut command = redis::cmd("EVAL");
        command.arg("return 1").arg(0).arg(vec!["mark"; marks]);
        self.post(|_, to| Command::Raw { command, to: to.one() })
    }
}

/// Where the answer to one request goes.
pub(super) struct To {
    answers: Arc<Answers>,
    number: usize,
}

impl To {
    fn one<T: Debug>(self) -> Responder<Answer<T>> {
        Responder::new(self.answers, self.number)
    }

    fn several<T: Debug>(self) -> Responder<Vec<Answer<T>>> {
        Responder::new(self.answers, self.number)
    }
}

pub(super) fn name(number: usize) -> Name {
    Name::new(&format!("n{number}")).expect("a good name")
}

pub(super) fn lease(number: usize) -> LeaseRequest {
    let nonce = Nonce::from_u128(number as u128 + 1);
    LeaseRequest::new(name(number), nonce, LEASE)
}

fn incarnation() -> Incarnation {
    Incarnation::parse(INCARNATION).expect("32 digits")
}

/// The scripts of each layout, unbound and bound. Their digests take a while.
static SCRIPTS: LazyLock<[[Arc<Scripts>; 2]; 2]> = LazyLock::new(|| {
    [Layout::Redlock, Layout::Redisson].map(|layout| {
        let unbound = Scripts::unbound(layout, Tokens::Proposed, false);
        [unbound, Arc::new(Scripts::bound(layout, &cluster(), (incarnation(), Proof::Cache), None))]
    })
});

fn cluster() -> ClusterConfig {
    ClusterConfig {
        prefix: "quorumlock".into(),
        members: MemberList::new(["a", "b", "c"]),
        longest: Duration::from_secs(60),
        clock_bound: Duration::from_secs(5),
        replicated: false,
    }
}

/// The bytes on the way between a session and a server.
#[derive(Default)]
pub(super) struct Pipe {
    pub(super) to_server: Vec<u8>,
    pub(super) to_client: Vec<u8>,
    /// How many more bytes the stream takes; `None`: all of them.
    pub(super) takes: Option<usize>,
}

impl Pipe {
    /// Drives the session until it waits (for this deadline) or ends.
    pub(super) fn run(
        &mut self,
        session: &mut Session<'_>,
        now: Instant,
    ) -> Result<Option<Instant>, Disconnect> {
        session.woken();
        // Each step moves bytes, answers requests, or ends the loop.
        let bound = 1_000 + 4 * (self.to_client.len() + session.to_write().len());
        for _ in 0..bound {
            match session.step() {
                Step::Yield => session.woken(),
                Step::Read => self.read(session, now),
                Step::Exchange => {
                    self.write(session);
                    self.read(session, now);
                }
                Step::Wait(deadline) => return Ok(deadline),
                Step::End(ended) => return Err(ended),
            }
        }
        panic!("the session neither waits nor ends");
    }

    fn write(&mut self, session: &mut Session<'_>) {
        let bytes = session.to_write();
        let n = bytes.len().min(self.takes.unwrap_or(usize::MAX));
        self.to_server.extend_from_slice(&bytes[..n]);
        self.takes = self.takes.map(|takes| takes - n);
        if n > 0 {
            session.wrote(n);
        }
    }

    fn read(&mut self, session: &mut Session<'_>, now: Instant) {
        let mut arrived = 0;
        if let Some(room) = session.room() {
            arrived = room.len().min(self.to_client.len());
            if arrived == 0 {
                return;
            }
            room[..arrived].copy_from_slice(&self.to_client[..arrived]);
            self.to_client.drain(..arrived);
        }
        session.received(arrived, now);
    }
}
