use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::join_all;
use quorumlock_core::{
    Admission, Entropy, Lessor, RenewalProblems, Votes, answer_deadline, list_step,
};
use quorumlock_protocol::admission::{AdmissionRpc, ClusterConfig};
use quorumlock_protocol::telemetry::EventHandler;
use quorumlock_protocol::{
    Acquired, Answer, BoxFuture, Claim, ConfigError, Error, FencingToken, HandoffOffer,
    HeldInterval, Hints, Holder, Instant, Lane, LeaseRequest, ListPosition, ListStep, Name, Node,
    NodeProblem, NodeReport, Nonce, Notified, Proposals, ReleaseOutcome, ReplySink, Responder,
    Subscription, WaitEvent, WaitQueue, Window, quorum_of,
};
use quorumlock_watchdog::{Clock, Renewal};

use crate::acquire::{QuorumAcquire, connected_since};
use crate::admission_task::AdmissionTask;
use crate::drained::drained;
use crate::gather::Gather;
use crate::home::{HomeLatency, home_of};
use crate::lease_table::LeaseTable;
use crate::top_up::top_up;
use quorumlock_protocol::answers::{
    decide, decide_holder, denials, is_freed, is_gone, is_holder_known, is_resume_settled,
    is_settled,
};
use quorumlock_protocol::round::Round;
use quorumlock_protocol::waiting::TUNING;

/// N independent nodes as one lessor: a majority grants, and a dead or hung minority costs nothing
/// (SAFETY.md G2).
pub struct Quorum<N: Node> {
    nodes: Arc<[Arc<N>]>,
    clock: Clock,
    answer_timeout: Duration,
    /// Tokens stay unique while at most this many nodes have lost their marks.
    losses: usize,
    home_latency: HomeLatency,
    proposals: Arc<Proposals>,
    leases: LeaseTable,
    renewal_problems: RenewalProblems,
    /// `Some` under strict admission.
    admission: Option<Arc<dyn Admission>>,
    on_event: Option<EventHandler>,
    /// When the first acquisition began: then the nodes are dialed.
    first_asked: OnceLock<Instant>,
}

impl<N: Node> Quorum<N> {
    /// Locks on a majority of `nodes`, which must fail independently of each other.
    ///
    /// # Errors
    /// [`ConfigError::NoNodes`].
    pub fn new(nodes: Vec<N>, clock: Clock, answer_timeout: Duration) -> Result<Self, ConfigError> {
        if nodes.is_empty() {
            return Err(ConfigError::NoNodes);
        }
        Ok(Self {
            nodes: nodes.into_iter().map(Arc::new).collect(),
            proposals: Arc::new(Proposals::new()),
            clock,
            answer_timeout,
            losses: 0,
            home_latency: HomeLatency::default(),
            leases: LeaseTable::default(),
            renewal_problems: RenewalProblems::default(),
            admission: None,
            on_event: None,
            first_asked: OnceLock::new(),
        })
    }

    /// Keeps fencing tokens unique and in order while the marks of `losses` nodes are lost and not
    /// repaired yet: more nodes must accept each token (A7, MARK2). Two losses cost the
    /// availability of one node. Default 0.
    ///
    /// # Errors
    /// [`ConfigError::TooManyLosses`] if `losses` is not less than the number of nodes.
    pub fn tolerate_lost_marks(mut self, losses: usize) -> Result<Self, ConfigError> {
        let max = self.nodes.len() - 1;
        if losses > max {
            return Err(ConfigError::TooManyLosses { losses, max });
        }
        self.losses = losses;
        Ok(self)
    }

    /// As [`Quorum::new`], but only nodes whose memory is proven count (SAFETY.md A3). All clients
    /// must agree on `cluster`. `max_clock_drift` is the bound on the drift of the nodes' clocks.
    ///
    /// # Errors
    /// [`ConfigError::NoNodes`].
    pub fn strict(
        nodes: Vec<N>,
        clock: Clock,
        chance: Entropy,
        answer_timeout: Duration,
        max_clock_drift: f64,
        cluster: ClusterConfig,
    ) -> Result<Self, ConfigError>
    where
        N: AdmissionRpc,
    {
        let mut quorum = Self::new(nodes, clock.clone(), answer_timeout)?;
        let nodes = quorum.nodes.clone();
        let times = (max_clock_drift, answer_timeout);
        let admission = AdmissionTask::new(nodes, cluster, clock, chance, times);
        quorum.admission = Some(Arc::new(admission));
        Ok(quorum)
    }

    /// Tells `handler` what the nodes answer. Default: none.
    #[must_use]
    pub fn on_event(self, handler: Option<EventHandler>) -> Self {
        Self { on_event: handler, ..self }
    }

    fn quorum(&self) -> usize {
        quorum_of(self.nodes.len())
    }

    /// How long a process that ends waits for a node that has not greeted it: three times as long as the
    /// node that was the first to greet it took.
    fn for_greeting(&self) -> Duration {
        let Some(asked) = self.first_asked.get() else { return Duration::ZERO };
        let greeted = self.nodes.iter().filter_map(|node| node.connected_since(Lane::Caller));
        let first = greeted.filter(|at| at > asked).min();
        3 * first.map_or(Duration::ZERO, |at| at.since(*asked)).max(Duration::from_millis(1))
    }

    /// Asks nodes that lack a lease to hold it too, so that the next failure does not end the
    /// lease.
    fn top_up(&self, leases: &[LeaseRequest]) {
        let now = self.clock.now();
        for lease in leases {
            if let Some((token, lacking)) = self.leases.lacking(lease.nonce, now) {
                top_up(&self.nodes, &self.leases, lease, token, Lane::Watchdog, lacking);
            }
        }
    }

    /// Sends one request to all nodes, to `last` after the others. Waits until the answers are
    /// `enough`, then up to `for_last` for the answer of `last`, and combines the answers with
    /// `make`. A request that is sent again after a broken connection (`again`) has twice the
    /// answer timeout.
    fn ask_all<T: Send + 'static, U>(
        &self,
        name: Name,
        order: Order,
        post: impl Fn(usize, Responder<Answer<T>>),
        enough: impl Fn(&[Option<Answer<T>>]) -> bool + Send + Sync + 'static,
        make: impl FnOnce(Vec<T>) -> U + Send + 'static,
    ) -> BoxFuture<Result<U, Error>> {
        let quorum = self.quorum();
        self.judge_all(order, post, enough, move |answers, late| {
            decide(Some(name), quorum, answers, late).map(make)
        })
    }

    /// As [`Quorum::ask_all`]; `judge` combines the answers, with what is wrong with a node without one.
    fn judge_all<T: Send + 'static, U>(
        &self,
        Order { last, for_last, again }: Order,
        post: impl Fn(usize, Responder<Answer<T>>),
        enough: impl Fn(&[Option<Answer<T>>]) -> bool + Send + Sync + 'static,
        judge: impl FnOnce(Vec<Option<Answer<T>>>, &dyn Fn(usize) -> NodeReport) -> Result<U, Error>
        + Send
        + 'static,
    ) -> BoxFuture<Result<U, Error>> {
        let gather = Gather::new(self.nodes.len(), enough, |_, _| {});
        let first = last.map_or(0, |last| last + 1);
        for i in (first..first + self.nodes.len()).map(|i| i % self.nodes.len()) {
            post(i, gather.reply_to(i));
        }
        let within = self.answer_timeout * if again { 2 } else { 1 };
        let (nodes, clock) = (self.nodes.clone(), self.clock.clone());
        Box::pin(async move {
            let connected = || match again {
                true => Some(Instant::NEVER),
                false => connected_since(&nodes, Lane::Caller, |node| gather.lacks(node)),
            };
            // The answers that are there at the deadline decide: later ones do not count.
            let _ = answer_deadline(within, &clock, connected, gather.decided()).await;
            if let (Some(last), false) = (last, for_last.is_zero()) {
                let _ = tokio::time::timeout(for_last, gather.answered(last)).await;
            }
            let answers = gather.take();
            let late =
                |node: usize| NodeReport::new(nodes[node].label(), NodeProblem::NoAnswer(within));
            judge(answers, &late)
        })
    }
}

impl<N: Node> Lessor for Quorum<N> {
    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn acquire(
        &self,
        lease: LeaseRequest,
        fencing: bool,
        hints: Hints,
    ) -> BoxFuture<Result<Acquired, Error>> {
        self.first_asked.get_or_init(|| self.clock.now());
        self.proposals.compare_clocks(self.nodes.iter().filter_map(|node| node.wall_offset()));
        let token = if fencing {
            self.proposals.first(&lease.claim, self.clock.wall_micros())
        } else {
            FencingToken::NONE
        };
        let (nodes, losses) = (self.nodes.len(), self.losses);
        let home = self.home(&lease.claim.queue());
        let round = match home {
            Some(home) if hints.asks_home_first() && nodes > 1 => {
                Round::home_first(nodes, losses, token, home)
            }
            Some(home) => Round::with_home(nodes, losses, token, home),
            None => Round::new(nodes, losses, token),
        };
        let queued_at = home.filter(|_| !hints.enqueues_on_all());
        let within = self.answer_timeout;
        let acquire = QuorumAcquire::open(
            &self.nodes,
            (lease, token),
            (round, Votes::new(self.on_event.as_ref(), &self.clock)),
            (hints, queued_at),
            &self.home_latency,
            (&self.clock, &self.proposals),
            &self.leases,
        );
        let admission = self.admission.clone();
        Box::pin(async move {
            let decided = acquire.decision(within).await;
            // This process may end now, and the next one, too: each brings the nodes a step on.
            if let (Err(Error::Refused(_) | Error::Unreachable(_)), Some(admission)) =
                (&decided, admission)
            {
                admission.pass().await;
            }
            decided
        })
    }

    fn renew(&self, leases: Vec<LeaseRequest>, lane: Lane) -> BoxFuture<Vec<Renewal>> {
        let quorum = self.quorum();
        let before: Vec<_> =
            leases.iter().map(|lease| (lease.clone(), self.leases.until(lease.nonce))).collect();
        let (lease_table, noted, nodes) = (self.leases.clone(), leases.clone(), self.nodes.clone());
        let looked_up = self.leases.clone();
        // One lost lease must not make the others of its batch wait for a hung node. A window that
        // a definite no has shortened is reported at once.
        let enough = move |answers: &[Option<Vec<Answer<Instant>>>]| {
            before.iter().enumerate().all(|(i, (lease, before))| {
                is_settled(answers, i, quorum) || has_shrunk(&looked_up, lease, *before)
            })
        };
        let problems = (lane == Lane::Watchdog).then(|| self.renewal_problems.clone());
        let gather =
            Gather::new(self.nodes.len(), enough, move |node, answers: &Vec<Answer<Instant>>| {
                if let Some(problems) = &problems {
                    problems.answered(node, answers);
                }
                // The clock jump first: it shortens only leases that were granted before it.
                lease_table.advance_clock(node, nodes[node].clock_advance());
                for (lease, answer) in noted.iter().zip(answers) {
                    lease_table.record(lease.nonce, node, answer);
                }
            });
        let now = self.clock.now();
        for (i, node) in self.nodes.iter().enumerate() {
            if lane == Lane::Watchdog {
                self.renewal_problems.asked(i, node.label(), now);
            }
            node.renew(&leases, lane, gather.reply_to(i));
        }
        if lane == Lane::Watchdog && self.admission.is_some() {
            self.top_up(&leases);
        }
        let (lease_table, within) = (self.leases.clone(), self.answer_timeout);
        Box::pin(async move {
            // A renewal does not wait for a node that is being connected: the answers of the other
            // nodes are reported in time.
            let _ = tokio::time::timeout(within, gather.decided()).await;
            let renewed = |lease: &LeaseRequest| match lease_table.until(lease.nonce) {
                // No majority is left: the lease is lost now, not only when the old window closes.
                Some(Instant::NEVER) => Renewal::Gone,
                Some(until) => Renewal::Until(until),
                None => Renewal::Unknown,
            };
            leases.iter().map(renewed).collect()
        })
    }

    fn renewal_problems(&self) -> Vec<NodeReport> {
        self.renewal_problems.all(self.clock.now())
    }

    fn resume(&self, lease: LeaseRequest, last: FencingToken) -> BoxFuture<Renewal> {
        let (nonce, quorum) = (lease.nonce, self.quorum());
        let enough =
            move |answers: &[Option<Vec<Answer<Instant>>>]| is_resume_settled(answers, quorum);
        let gather = Gather::new(self.nodes.len(), enough, |_, _| {});
        for (i, node) in self.nodes.iter().enumerate() {
            node.renew(std::slice::from_ref(&lease), Lane::Caller, gather.reply_to(i));
        }
        let (leases, nodes, clock) = (self.leases.clone(), self.nodes.clone(), self.clock.clone());
        let within = self.answer_timeout;
        Box::pin(async move {
            let connected = || connected_since(&nodes, Lane::Caller, |node| gather.lacks(node));
            let _ = answer_deadline(within, &clock, connected, gather.decided()).await;
            let answers = gather.take();
            let mut window = Window::shut(nodes.len());
            for (node, answers) in answers.iter().enumerate() {
                leases.advance_clock(node, nodes[node].clock_advance());
                if let Some([Answer::Yes(until)]) = answers.as_deref() {
                    window.record_held(node, *until);
                }
            }
            match window.until() {
                Instant::NEVER if is_gone(&answers, quorum) => Renewal::Gone,
                Instant::NEVER => Renewal::Unknown,
                until => {
                    leases.insert(nonce, window, last, 0);
                    Renewal::Until(until)
                }
            }
        })
    }

    fn forget(&self, nonce: Nonce, now: Instant) {
        self.leases.forget(nonce, now);
    }

    fn release(
        &self,
        lease: LeaseRequest,
        held: HeldInterval,
        lane: Lane,
        hints: Hints,
    ) -> BoxFuture<Result<ReleaseOutcome, Error>> {
        let (home, window) =
            (self.home(&lease.claim.queue()), self.leases.remove(lease.nonce, lane));
        let quorum = self.quorum();
        let (all, most_foreign) = (self.nodes.len(), self.nodes.len() - quorum);
        // The waiter that the home node notifies asks all nodes. The release is sent to the home
        // node last, so the others have received it by then.
        let for_last = if hints.is_contended() { TUNING.release_grace } else { Duration::ZERO };
        self.ask_all(
            lease.claim.label(),
            Order { last: home, for_last, again: true },
            |node, to| {
                let until = window.as_ref().map_or(Instant::NEVER, |held| held.held_until(node));
                let held = HeldInterval::confirmed(held.since, until, lease.ttl);
                self.nodes[node].release(&lease, held, lane, hints.clone(), to);
            },
            move |answers| is_freed(answers, quorum),
            move |said| {
                let notified = said.iter().filter_map(|freed| freed.notified).max();
                ReleaseOutcome {
                    held: denials(&said) <= most_foreign,
                    forgot: false,
                    // A node whose answer is missing may have notified a waiter.
                    notified: notified
                        .filter(|notified| *notified == Notified::Waiter || said.len() == all),
                }
            },
        )
    }

    fn list(&self, node: usize, at: ListPosition) -> BoxFuture<Result<ListStep, Error>> {
        list_step(&self.nodes[node], at, &self.clock, self.answer_timeout)
    }

    fn inspect(&self, claim: Claim) -> BoxFuture<Result<Option<Holder>, Error>> {
        let (quorum, name) = (self.quorum(), claim.label());
        // The home node has the queue, and so knows how many wait. If it hangs, that costs a tenth of the
        // answer timeout.
        let home = self.home(&claim.queue());
        self.judge_all(
            Order { last: home, for_last: self.answer_timeout / 10, again: false },
            |node, to| self.nodes[node].inspect(&claim, to),
            move |answers| is_holder_known(answers, quorum),
            move |answers, late| decide_holder(Some(name), quorum, answers, late),
        )
    }

    fn force_release(&self, claim: Claim, of: Option<String>) -> BoxFuture<Result<bool, Error>> {
        // Waits for all nodes, up to the answer timeout: the caller wants no node to be left out.
        self.ask_all(
            claim.label(),
            Order { last: self.home(&claim.queue()), ..Order::default() },
            |node, to| self.nodes[node].force_release(&claim, of.as_deref(), to),
            |_| false,
            |said| said.contains(&true),
        )
    }

    fn home(&self, name: &Name) -> Option<usize> {
        home_of(&self.nodes, name)
    }

    fn drain(&self, lane: Lane) -> BoxFuture<()> {
        let within = self.answer_timeout;
        // The process may end now, and have met a node that is not proven: a fleet of short
        // processes that are granted their locks by the other nodes brings it back, too.
        let admission = self.admission.clone().filter(|_| lane == Lane::Caller);
        let meets_all = admission.as_ref().is_some_and(|admission| admission.meets_all());
        let for_greeting = if meets_all { within } else { self.for_greeting() };
        let all = self.nodes.iter().map(|node| drained(node.clone(), lane, for_greeting));
        let drained: Vec<_> = all.collect();
        Box::pin(async move {
            let _ = tokio::time::timeout(within, join_all(drained)).await;
            if let Some(admission) = admission {
                admission.pass().await;
            }
        })
    }

    fn admission(&self) -> Option<Arc<dyn Admission>> {
        self.admission.clone()
    }

    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        self.nodes.iter().any(|node| node.wait_queue().is_some()).then_some(self)
    }
}

impl<N: Node> WaitQueue for Quorum<N> {
    fn subscribe(
        &self,
        name: &Name,
        to: Arc<dyn ReplySink<WaitEvent>>,
        from: usize,
    ) -> Subscription {
        let queues = self.nodes.iter().map(|node| node.wait_queue()).enumerate();
        let subscribed = queues.filter_map(|(i, queue)| {
            queue.map(|queue| queue.subscribe(name, to.clone(), from + i))
        });
        Box::new(subscribed.collect::<Vec<_>>())
    }

    fn leave(&self, claim: &Claim, offered: Option<&(LeaseRequest, HandoffOffer)>) {
        self.nodes
            .iter()
            .filter_map(|node| node.wait_queue())
            .for_each(|queue| queue.leave(claim, offered));
    }

    fn pass_on(&self, claim: &Claim) {
        let queues = self.nodes.iter().filter_map(|node| node.wait_queue());
        queues.for_each(|queue| queue.pass_on(claim));
    }

    fn hear_forced(&self, locker: Nonce, to: Arc<dyn ReplySink<Nonce>>) {
        let queues = self.nodes.iter().filter_map(|node| node.wait_queue());
        queues.for_each(|queue| queue.hear_forced(locker, to.clone()));
    }
}

impl<N: Node> std::fmt::Debug for Quorum<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.label()).collect();
        f.debug_struct("Quorum").field("nodes", &nodes).finish_non_exhaustive()
    }
}

/// How a request is sent to all nodes: see [`Quorum::ask_all`].
#[derive(Default)]
struct Order {
    last: Option<usize>,
    for_last: Duration,
    again: bool,
}

/// Whether the window of a lease ends earlier than before, or there is none.
fn has_shrunk(lease_table: &LeaseTable, lease: &LeaseRequest, before: Option<Instant>) -> bool {
    before.is_none_or(|before| lease_table.until(lease.nonce).is_none_or(|now| now < before))
}
