use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::answers::{all_of, by_claim, of_two_parts};
use quorumlock_protocol::{
    Acceptance, Answer, Claim, FencingToken, HandoffOffer, HeldInterval, Hints, Holder,
    Incarnation, Instant, Lane, LeaseRequest, ListPosition, ListStep, Name, Node, NodeProblem,
    Nonce, QueueAction, ReleaseOutcome, ReplySink, Responder, Subscription, Vote, WaitEvent,
    WaitQueue,
};
use quorumlock_watchdog::Clock;

use crate::command::{Command, NodeContext};
use crate::connection::Connection;
use crate::gather::Gather;
use crate::list;
use crate::node_facts::NodeFacts;
use crate::owner_label::{self, OwnerLabel, with_label};
use crate::redirect::Endpoint;
use crate::subscriptions::Subscriptions;

/// One Redis (or Valkey) server. It has two connections for requests and one for subscriptions.
/// Each is dialled when it is first needed, on the runtime that needs it.
#[derive(Debug)]
pub struct RedisNode {
    pub(crate) context: Arc<NodeContext>,
    /// Its label in lists of nodes.
    pub(crate) member: Arc<str>,
    pub(crate) database: i64,
    /// Its address, or the first of them.
    pub(crate) endpoint: Endpoint,
    pub(crate) clock: Clock,
    pub(crate) cluster: Option<Arc<ClusterConfig>>,
    pub(crate) callers: Arc<Connection>,
    pub(crate) watchdog: Connection,
    pub(crate) facts: Arc<NodeFacts>,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) supports_handoff: bool,
    pub(crate) owner_label: OwnerLabel,
}

impl RedisNode {
    /// Asks sentinels for all servers of the node: their URLs, with users and passwords. `None` if the
    /// addresses were given.
    ///
    /// # Errors
    /// Why no sentinel names any.
    #[doc(hidden)]
    pub async fn discovered_urls(&self) -> Result<Option<Vec<String>>, NodeProblem> {
        self.callers.addresses().discovered_urls().await
    }

    /// Renews leases of one layout.
    fn renew_in_one_layout(
        &self,
        leases: &[LeaseRequest],
        lane: Lane,
        to: Responder<Vec<Answer<Instant>>>,
    ) {
        // The names of a set need no common step: it counts until the first of them ends (SET3).
        if leases.iter().all(|lease| lease.claim.is_one()) {
            return self.connection(lane).post(Command::Renew { leases: leases.to_vec(), to });
        }
        let counts: Vec<_> = leases.iter().map(|lease| lease.claim.count()).collect();
        let make = move |answers: Vec<Vec<_>>| by_claim(counts, answers.concat());
        let to = Responder::new(Gather::new(1, make, to), 0);
        let leases = leases.iter().flat_map(LeaseRequest::of_each_name).collect();
        self.connection(lane).post(Command::Renew { leases, to });
    }

    /// Tells the server who this locker is, if it is time. A Redis Cluster does so by itself.
    fn write_label(
        &self,
        lease: Option<&LeaseRequest>,
        lane: Lane,
        connected: impl FnOnce() -> Option<Instant>,
    ) {
        if !self.context.redis_cluster
            && let Some((_, request)) = self.owner_label.due(lease, || self.clock.now(), connected)
        {
            self.connection(lane).post(request);
        }
    }

    /// The label of a hold is on another member (RedisCluster).
    fn writes_hold_label(&self, lease: &LeaseRequest) -> bool {
        lease.label.is_some() && !self.context.redis_cluster
    }

    pub(crate) fn connection(&self, lane: Lane) -> &Connection {
        match lane {
            Lane::Caller => &self.callers,
            Lane::Watchdog => &self.watchdog,
        }
    }
}

impl Node for RedisNode {
    fn label(&self) -> &str {
        &self.context.label
    }

    fn identity(&self) -> u64 {
        self.facts.identity()
    }

    fn incarnation(&self) -> Incarnation {
        self.callers.incarnation()
    }

    fn acquire(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        stamp: Incarnation,
        hints: Hints,
        to: Responder<Answer<Vote>>,
    ) {
        self.write_label(Some(lease), Lane::Caller, || None);
        let to = match self.writes_hold_label(lease) {
            false => to,
            true => {
                let callers = self.callers.clone();
                owner_label::once_granted(lease, to, move |_, request| callers.post(request))
            }
        };
        self.callers.post(Command::Acquire {
            lease: lease.clone(),
            token,
            incarnation: stamp,
            hints: hints
                .if_notified(self.subscriptions.is_up())
                .if_handed_off(self.subscriptions.counts_are_true()),
            to,
        });
    }

    fn raise(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        stamp: Incarnation,
        to: Responder<Answer<Acceptance>>,
    ) {
        self.callers.post(Command::Raise { lease: lease.clone(), token, incarnation: stamp, to });
    }

    fn regrant(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        lane: Lane,
        to: Responder<Answer<Instant>>,
    ) {
        self.connection(lane).post(Command::Regrant { lease: lease.clone(), token, to });
    }

    fn renew(&self, leases: &[LeaseRequest], lane: Lane, to: Responder<Vec<Answer<Instant>>>) {
        self.write_label(leases.first(), lane, || self.connected_since(lane));
        let labelled = leases.iter().filter(|lease| self.writes_hold_label(lease));
        for (_, request) in labelled.filter_map(owner_label::of_hold) {
            self.connection(lane).post(request);
        }
        let read_write = |lease: &LeaseRequest| lease.claim.is_read_write();
        if leases.windows(2).all(|two| read_write(&two[0]) == read_write(&two[1])) {
            return self.renew_in_one_layout(leases, lane, to);
        }
        // A script has one layout.
        let second: Vec<_> = leases.iter().map(read_write).collect();
        let (last, first): (Vec<_>, Vec<_>) = leases.iter().cloned().partition(read_write);
        let gather = Gather::new(2, move |parts| of_two_parts(&second, parts), to);
        self.renew_in_one_layout(&first, lane, Responder::new(gather.clone(), 0));
        self.renew_in_one_layout(&last, lane, Responder::new(gather, 1));
    }

    fn release(
        &self,
        lease: &LeaseRequest,
        held: HeldInterval,
        lane: Lane,
        hints: Hints,
        to: Responder<Answer<ReleaseOutcome>>,
    ) {
        let hints = hints.if_notified(self.subscriptions.is_up());
        let queue_action = hints.enqueue().map(|place| QueueAction::KeepPlace(place.waited));
        let connection = self.connection(lane);
        if self.writes_hold_label(lease)
            && let Some((_, request)) = owner_label::end_of_hold(lease)
        {
            connection.post(request);
        }
        if lease.claim.is_one() {
            return connection.post(Command::release(lease.clone(), held, queue_action, to));
        }
        if let Some(place) = hints.enqueue() {
            place.queued_at.add_name(0);
        }
        let make = |answers| all_of(answers, ReleaseOutcome::of_all);
        let gather = Gather::new(lease.claim.count(), make, to);
        for (at, lease) in lease.of_each_name().enumerate() {
            let to = Responder::new(gather.clone(), at);
            // It keeps one place: that of the first name (PROTOCOL.md SET4).
            let queue_action = queue_action.filter(|_| at == 0);
            connection.post(Command::release(lease, held, queue_action, to));
        }
    }

    fn connected_since(&self, lane: Lane) -> Option<Instant> {
        self.connection(lane).connected_since()
    }

    fn greeted(&self) -> bool {
        self.callers.greeted() || self.watchdog.greeted()
    }

    fn wall_offset(&self) -> Option<i64> {
        self.facts.wall_offset()
    }

    fn clock_advance(&self) -> Duration {
        Duration::from_micros(self.context.clock_advance.load(Ordering::Acquire))
    }

    fn list(&self, at: ListPosition, to: Responder<Answer<ListStep>>) {
        self.callers.post(list::request(at, &self.context, || 1, to));
    }

    fn inspect(&self, claim: &Claim, to: Responder<Answer<Option<Holder>>>) {
        let to = match self.context.redis_cluster {
            // The label is on another member (RedisCluster).
            true => to,
            false => {
                let callers = self.callers.clone();
                with_label(to, move |_, request| callers.post(request))
            }
        };
        self.callers.post(Command::Inspect { claim: claim.clone(), to });
    }

    fn force_release(&self, claim: &Claim, of: Option<&str>, to: Responder<Answer<bool>>) {
        let (claim, holder) = (claim.clone(), of.map(str::to_owned));
        self.callers.post(Command::ForceRelease { claim, holder, to });
    }

    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        Some(self)
    }
}

impl WaitQueue for RedisNode {
    fn leave(&self, claim: &Claim, offered: Option<&(LeaseRequest, HandoffOffer)>) {
        if let Some((lease, offer)) = offered {
            let leave = Some(QueueAction::Leave(*offer));
            let (held, to) = (HeldInterval::UNKNOWN, Responder::nobody());
            self.callers.post(Command::release(lease.clone(), held, leave, to));
        } else if self.subscriptions.is_up() {
            for claim in claim.of_each_name() {
                self.callers.post(Command::Dequeue(claim, true));
            }
        }
    }

    fn pass_on(&self, claim: &Claim) {
        self.callers.post(Command::Dequeue(claim.clone(), false));
    }

    fn supports_handoff(&self) -> bool {
        self.supports_handoff
    }

    fn subscribe(
        &self,
        name: &Name,
        to: Arc<dyn ReplySink<WaitEvent>>,
        from: usize,
    ) -> Subscription {
        self.subscriptions.subscribe(name, to, from)
    }

    fn hear_forced(&self, locker: Nonce, to: Arc<dyn ReplySink<Nonce>>) {
        self.subscriptions.hear_forced(locker, to);
    }
}
