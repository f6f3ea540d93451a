use std::sync::Arc;

use quorumlock_protocol::{
    Acceptance, Answer, Claim, ConfigError, Denial, FencingToken, HandoffOffer, HeldInterval,
    Hints, Holder, Incarnation, Instant, Lane, Layout, LeaseRequest, ListPosition, ListStep, Name,
    Node, NodeProblem, Nonce, OnDropped, ReleaseOutcome, ReplySink, Responder, Settings,
    Subscription, Vote, WaitEvent, WaitQueue,
};
use quorumlock_watchdog::Clock;

use crate::command::Command;
use crate::gather::Gather;
use crate::list;
use crate::node::RedisNode;
use crate::node_factory::MAX_REPLICAS;
use crate::owner_label::{self, OwnerLabel, with_label};
use crate::slot_router::SlotRouter;
use crate::targets::parse;

/// A Redis Cluster as one node: the vote on a name is that of the master which serves its slot
/// (PROTOCOL.md, Redis Cluster).
///
/// It has a [`RedisNode`] for each master that it has met. It learns which member serves a slot from
/// each new connection, and from members that send a request on (SLOT5).
#[derive(Debug)]
pub struct RedisCluster(Arc<SlotRouter>, OwnerLabel);

/// The Redis Cluster of which the servers at `urls` are members. Does no I/O.
///
/// # Errors
/// As [`redis_nodes`](crate::redis_nodes), and for a database number or a Unix socket.
pub fn redis_cluster(
    urls: &[impl AsRef<str>],
    layout: Layout,
    settings: &Settings,
    clock: &Clock,
) -> Result<RedisCluster, ConfigError> {
    settings.check()?;
    settings.check_replicas(MAX_REPLICAS)?;
    let targets = parse(urls)?;
    for (option, given) in [
        ("a database number", targets.iter().any(|target| target.redis().db() != 0)),
        ("a Unix socket", targets.iter().any(|target| target.host().is_none())),
    ] {
        if given {
            return Err(ConfigError::DoesNotApply { option, servers: "a Redis Cluster" });
        }
    }
    let router = SlotRouter::new(targets, layout, settings, clock)?;
    Ok(RedisCluster(router, OwnerLabel::new(settings)))
}

impl RedisCluster {
    /// Asks a member for all masters: their URLs, with users and passwords.
    ///
    /// # Errors
    /// Why no member names any.
    #[doc(hidden)]
    pub async fn discovered_urls(&self) -> Result<Option<Vec<String>>, NodeProblem> {
        self.0.seeds().discovered_urls().await
    }

    /// Tells the master that has the key of its label who this locker is, if it is time; `renews`: also if
    /// that master may have lost it.
    fn write_label(&self, lease: &LeaseRequest, lane: Lane, renews: bool) {
        let (router, now) = (&self.0, || self.0.seeds().clock.now());
        let master = || router.master_of(&Name::owner(lease.nonce));
        let connected = || renews.then(|| master().connected_since(lane))?;
        if let Some((key, request)) = self.1.due(Some(lease), now, connected) {
            router.master_of(&key).connection(lane).post(request);
        }
        if renews {
            self.post(lane, owner_label::of_hold(lease));
        }
    }

    /// Posts a request about a key to the master that has it.
    fn post(&self, lane: Lane, request: Option<(Name, Command)>) {
        if let Some((key, request)) = request {
            self.0.master_of(&key).connection(lane).post(request);
        }
    }

    /// Posts requests about keys, as [`Self::post`], from the answer to another request.
    fn ask(&self) -> impl Fn(&Name, Command) + Send + Sync + 'static {
        let router = self.0.clone();
        move |key, request| router.master_of(key).callers.post(request)
    }
}

impl Node for RedisCluster {
    fn label(&self) -> &str {
        self.0.seeds().label()
    }

    fn identity(&self) -> u64 {
        self.0.seeds().identity()
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation::NONE
    }

    fn acquire(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        stamp: Incarnation,
        hints: Hints,
        to: Responder<Answer<Vote>>,
    ) {
        match one_master(&lease.claim) {
            Ok(()) => {
                self.write_label(lease, Lane::Caller, false);
                let to = match lease.label {
                    Some(_) => owner_label::once_granted(lease, to, self.ask()),
                    None => to,
                };
                self.0.master_of(lease.name()).acquire(lease, token, stamp, hints, to);
            }
            Err(denial) => to.send(Answer::No(denial)),
        }
    }

    fn raise(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        stamp: Incarnation,
        to: Responder<Answer<Acceptance>>,
    ) {
        self.0.master_of(lease.name()).raise(lease, token, stamp, to);
    }

    fn regrant(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        lane: Lane,
        to: Responder<Answer<Instant>>,
    ) {
        self.0.master_of(lease.name()).regrant(lease, token, lane, to);
    }

    /// One request for each lease: a script has keys of one slot, and while a slot is on its way only a
    /// request with one key is sure to be carried out.
    fn renew(&self, leases: &[LeaseRequest], lane: Lane, to: Responder<Vec<Answer<Instant>>>) {
        if leases.is_empty() {
            // The drain of the lane: the members that have a connection answer it last.
            let used = |member: &Arc<RedisNode>| member.connection(lane).is_up();
            let members: Vec<_> = self.0.everyone().into_iter().filter(used).collect();
            let gather = Gather::new(members.len(), |none: Vec<Vec<_>>| none.concat(), to);
            for (at, member) in members.iter().enumerate() {
                member.renew(&[], lane, Responder::new(gather.clone(), at));
            }
            return;
        }
        // No answers at all: the request was dropped.
        let one = |mut answers: Vec<_>| answers.pop().unwrap_or_else(Answer::missing);
        let make = move |all: Vec<Vec<_>>| all.into_iter().map(one).collect();
        let gather = Gather::new(leases.len(), make, to);
        for (at, lease) in leases.iter().enumerate() {
            let to = Responder::new(gather.clone(), at);
            self.write_label(lease, lane, true);
            self.0.master_of(lease.name()).renew(std::slice::from_ref(lease), lane, to);
        }
    }

    fn release(
        &self,
        lease: &LeaseRequest,
        held: HeldInterval,
        lane: Lane,
        hints: Hints,
        to: Responder<Answer<ReleaseOutcome>>,
    ) {
        self.post(lane, owner_label::end_of_hold(lease));
        self.0.master_of(lease.name()).release(lease, held, lane, hints, to);
    }

    fn connected_since(&self, lane: Lane) -> Option<Instant> {
        let mut latest = Instant::NEVER;
        for member in self.0.everyone() {
            latest = latest.max(member.connected_since(lane)?);
        }
        Some(latest)
    }

    fn shard(&self, name: &Name) -> u64 {
        self.0.master_of(name).identity()
    }

    fn wall_offset(&self) -> Option<i64> {
        self.0.everyone().iter().filter_map(|member| member.wall_offset()).max()
    }

    /// The seeds are the first member that is asked: the others are known then.
    fn list(&self, at: ListPosition, to: Responder<Answer<ListStep>>) {
        let mut members = self.0.everyone();
        members.rotate_right(1);
        let Some(member) = members.get(at.server) else {
            return to.send(Answer::Yes(ListStep { found: Vec::new(), next: None }));
        };
        let router = self.0.clone();
        let servers = move || router.everyone().len();
        member.callers.post(list::request(at, &member.context, servers, to));
    }

    fn inspect(&self, claim: &Claim, to: Responder<Answer<Option<Holder>>>) {
        match one_slot(claim.name()) {
            Ok(()) => {
                self.0.master_of(claim.name()).inspect(claim, with_label(to, self.ask()));
            }
            Err(denial) => to.send(Answer::No(denial)),
        }
    }

    fn force_release(&self, claim: &Claim, of: Option<&str>, to: Responder<Answer<bool>>) {
        match one_slot(claim.name()) {
            Ok(()) => self.0.master_of(claim.name()).force_release(claim, of, to),
            Err(denial) => to.send(Answer::No(denial)),
        }
    }

    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        Some(self)
    }
}

impl WaitQueue for RedisCluster {
    fn subscribe(
        &self,
        name: &Name,
        to: Arc<dyn ReplySink<WaitEvent>>,
        from: usize,
    ) -> Subscription {
        self.0.subscribe(name, to, from)
    }

    fn leave(&self, claim: &Claim, offered: Option<&(LeaseRequest, HandoffOffer)>) {
        self.0.master_of(claim.name()).leave(claim, offered);
    }

    fn pass_on(&self, claim: &Claim) {
        self.0.master_of(claim.name()).pass_on(claim);
    }

    /// A message that one member publishes reaches the subscribers of all.
    fn hear_forced(&self, locker: Nonce, to: Arc<dyn ReplySink<Nonce>>) {
        self.0.seeds().hear_forced(locker, to);
    }
}

/// Refuses names that a Redis Cluster may keep on different masters.
fn one_master(claim: &Claim) -> Result<(), Denial> {
    claim.names().try_for_each(one_slot)?;
    match claim.names().all(|name| name.slot() == claim.name().slot()) {
        true => Ok(()),
        false => Err(Denial::Config(ConfigError::NamesInCluster { names: claim.to_string() })),
    }
}

/// Refuses a name whose keys have different slots.
fn one_slot(name: &Name) -> Result<(), Denial> {
    match name.has_one_slot() {
        true => Ok(()),
        false => Err(Denial::Config(ConfigError::NameInCluster { name: name.to_string() })),
    }
}
