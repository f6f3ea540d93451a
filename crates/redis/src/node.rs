use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_watchdog::Clock;

use crate::command::{Command, NodeContext};
use crate::connection::{AckPolicy, Connection, ConnectionRules};
use crate::contended_names::ContendedNames;
use crate::dial::{Dialer, NodeAddr, RunIdRegistry};
use crate::handshake::identity;
use crate::master::MasterResolver;
use crate::network::Network;
use crate::node_facts::NodeFacts;
use crate::scripts::{LastBound, Scripts, Tokens};
use crate::subscriptions::Subscriptions;
use crate::tls::Tls;
use crate::unconfirmed_releases::UnconfirmedReleases;
use quorumlock_protocol::ClockMonitor;
use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::admission::members::MemberList;
use quorumlock_protocol::next_id;
use quorumlock_protocol::{
    Acceptance, Answer, ConfigError, Fence, HandoffOffer, HeldInterval, Hints, Holder, Incarnation,
    Lane, LeaseRequest, Name, Node, Nonce, QueueAction, ReleaseOutcome, ReplySink, Responder,
    Settings, Subscription, Vote, WaitEvent, WaitQueue, Wire,
};

/// One Redis (or Valkey) server. It has two connections for requests and one for subscriptions.
/// Each is dialled when it is first needed, on the runtime that needs it.
#[derive(Debug)]
pub struct RedisNode {
    pub(crate) context: Arc<NodeContext>,
    /// Its label in lists of nodes.
    pub(crate) member: Arc<str>,
    pub(crate) database: i64,
    pub(crate) clock: Clock,
    pub(crate) cluster: Option<Arc<ClusterConfig>>,
    pub(crate) callers: Arc<Connection>,
    pub(crate) watchdog: Connection,
    facts: Arc<NodeFacts>,
    subscriptions: Subscriptions,
    supports_handoff: bool,
}

/// The nodes of one locker, at `urls`. Does no I/O.
///
/// # Errors
/// [`ConfigError`] for a bad URL, an empty list, one address listed twice, or settings out of
/// bounds.
pub fn redis_nodes(
    urls: &[impl AsRef<str>],
    wire: Wire,
    cluster: Option<&ClusterConfig>,
    settings: &Settings,
    clock: &Clock,
) -> Result<Vec<RedisNode>, ConfigError> {
    settings.check()?;
    settings.check_replicas(0)?;
    settings.check_redisson_fenced(wire, Some("a quorum"))?;
    let maker = NodeFactory {
        wire,
        cluster: cluster.cloned().map(Arc::new),
        settings,
        clock,
        run_ids: RunIdRegistry::default(),
        client_id: next_id(),
        waiter: Nonce::fresh()?,
        name_channels: wire == Wire::Redisson && urls.len() == 1,
        supports_handoff: false,
        network: Network::System,
    };
    parse(urls)?.into_iter().map(|target| maker.node(vec![target])).collect()
}

/// The labels of the nodes at `urls`: `host:port/db`, or what a URL gives as `label`. Does no I/O.
///
/// # Errors
/// [`ConfigError`] for a bad URL, an empty list, or one address or label listed twice.
pub fn member_list(urls: &[impl AsRef<str>]) -> Result<MemberList, ConfigError> {
    Ok(MemberList::new(parse(urls)?.iter().map(|target| target.member().clone())))
}

/// The one node at `urls`: the only server, or the master among several servers. Does no I/O.
///
/// # Errors
/// As [`redis_nodes`].
pub fn redis_master(
    urls: &[impl AsRef<str>],
    wire: Wire,
    settings: &Settings,
    clock: &Clock,
) -> Result<RedisNode, ConfigError> {
    settings.check()?;
    let targets = parse(urls)?;
    let replicated = (targets.len() > 1).then_some("a master and its replicas");
    settings.check_redisson_fenced(wire, replicated)?;
    settings.check_replicas(match targets.len() {
        // One address may stand for a master with any number of replicas.
        1 => MAX_REPLICAS,
        n => n - 1,
    })?;
    NodeFactory {
        wire,
        cluster: None,
        settings,
        clock,
        run_ids: RunIdRegistry::default(),
        client_id: next_id(),
        waiter: Nonce::fresh()?,
        name_channels: wire == Wire::Redisson,
        // A handoff cannot wait until replicas acknowledge it, and a server that counts tokens
        // counts one only for a client that asks.
        supports_handoff: settings.replicas == 0 && !settings.redisson_fenced,
        network: Network::System,
    }
    .node(targets)
}

/// No real master has more replicas, and a larger number may be meant as milliseconds.
const MAX_REPLICAS: usize = 32;

fn parse(urls: &[impl AsRef<str>]) -> Result<Vec<NodeAddr>, ConfigError> {
    let targets =
        urls.iter().map(|url| NodeAddr::parse(url.as_ref())).collect::<Result<Vec<_>, _>>()?;
    if targets.is_empty() {
        return Err(ConfigError::NoNodes);
    }
    for (i, target) in targets.iter().enumerate() {
        let is_twin = |other: &&NodeAddr| {
            other.label() == target.label() || other.member() == target.member()
        };
        if let Some(twin) = targets[..i].iter().find(is_twin) {
            let (a, b) = (twin.label().to_owned(), target.label().to_owned());
            return Err(ConfigError::SameServer { a, b });
        }
    }
    Ok(targets)
}

/// What the nodes of one locker have in common.
pub(crate) struct NodeFactory<'a> {
    pub(crate) wire: Wire,
    pub(crate) cluster: Option<Arc<ClusterConfig>>,
    pub(crate) settings: &'a Settings,
    pub(crate) clock: &'a Clock,
    pub(crate) run_ids: RunIdRegistry,
    pub(crate) client_id: u64,
    pub(crate) waiter: Nonce,
    /// Whether programs that know of no queue may hold and release the same names.
    pub(crate) name_channels: bool,
    /// Whether a release may hand the name off to the next waiter.
    pub(crate) supports_handoff: bool,
    pub(crate) network: Network,
}

impl NodeFactory<'_> {
    /// The node at one URL.
    #[cfg(feature = "simulation")]
    pub(crate) fn node_at(&self, url: &str) -> Result<RedisNode, ConfigError> {
        self.node(parse(&[url])?)
    }

    fn node(&self, targets: Vec<NodeAddr>) -> Result<RedisNode, ConfigError> {
        let Self { wire, settings, .. } = *self;
        let replicated = targets.len() > 1;
        let (member, database) = (targets[0].member().clone(), targets[0].redis().db());
        let dialers = targets.into_iter().map(|target| self.dialer(target, replicated));
        let addresses = Arc::new(MasterResolver::new(dialers.collect::<Result<_, _>>()?));
        let label = addresses.label();
        let facts = Arc::new(NodeFacts::new(identity(&label)));
        let context = Arc::new(NodeContext {
            label,
            wire,
            tokens: self.tokens(),
            max_clock_drift: settings.max_clock_drift,
            unconfirmed: UnconfirmedReleases::default(),
            bound: self.cluster.is_some(),
            run_identities: Mutex::default(),
            contended: ContendedNames::default(),
            scripts_only: AtomicBool::new(settings.scripts_only || settings.redisson_fenced),
            clock_monitor: Mutex::new(ClockMonitor::new(settings.max_clock_drift)),
            clock_advance: AtomicU64::new(0),
            client_id: self.client_id,
            waiter: self.waiter,
        });
        let rules = ConnectionRules {
            // Twice the time for which a caller waits for an answer.
            stall: settings.answer_timeout * 2,
            acks: AckPolicy::new(settings.replicas, settings.replica_timeout()),
            bound: self.cluster.is_some(),
            several: replicated,
        };
        let connection = || {
            let (clock, facts) = (self.clock.clone(), facts.clone());
            Connection::new(addresses.clone(), context.clone(), rules, facts, clock)
        };
        let (callers, watchdog) = (Arc::new(connection()), connection());
        let subscriptions = Subscriptions::new(
            addresses.clone(),
            facts.clone(),
            self.waiter,
            Arc::downgrade(&callers),
            self.name_channels,
        );
        Ok(RedisNode {
            context,
            member,
            database,
            clock: self.clock.clone(),
            cluster: self.cluster.clone(),
            callers,
            watchdog,
            facts,
            subscriptions,
            supports_handoff: self.supports_handoff,
        })
    }

    fn dialer(&self, target: NodeAddr, replicated: bool) -> Result<Dialer, ConfigError> {
        let settings = self.settings;
        let tls = match target.wants_tls() {
            true => Some(Tls::new(settings.tls_ca.as_deref(), settings.tls_client.as_ref())?),
            false => None,
        };
        Ok(Dialer {
            target,
            tls,
            client_name: settings.client_name.clone(),
            connect_timeout: settings.connect_timeout,
            user_timeout: settings.answer_timeout * 2,
            // Two addresses of one master may reach the same server, which is no mistake.
            run_ids: if replicated { RunIdRegistry::default() } else { self.run_ids.clone() },
            wire: self.wire,
            cluster: self.cluster.clone(),
            clock: self.clock.clone(),
            unbound: Scripts::unbound(self.wire, self.tokens()),
            last_bound: LastBound::default(),
            replicated,
            waiter: self.waiter,
            probes: AtomicU64::new(0),
            warned: Mutex::default(),
            network: self.network.clone(),
        })
    }

    fn tokens(&self) -> Tokens {
        if self.settings.redisson_fenced { Tokens::Counted } else { Tokens::Proposed }
    }
}

impl RedisNode {
    fn connection(&self, lane: Lane) -> &Connection {
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
        token: Fence,
        stamp: Incarnation,
        hints: Hints,
        to: Responder<Answer<Vote>>,
    ) {
        self.callers.post(Command::Acquire {
            lease: lease.clone(),
            token,
            incarnation: stamp,
            hints: hints.if_notified(self.subscriptions.is_up()),
            to,
        });
    }

    fn raise(
        &self,
        lease: &LeaseRequest,
        token: Fence,
        stamp: Incarnation,
        to: Responder<Answer<Acceptance>>,
    ) {
        self.callers.post(Command::Raise { lease: lease.clone(), token, incarnation: stamp, to });
    }

    fn regrant(
        &self,
        lease: &LeaseRequest,
        token: Fence,
        lane: Lane,
        to: Responder<Answer<Instant>>,
    ) {
        self.connection(lane).post(Command::Regrant { lease: lease.clone(), token, to });
    }

    fn renew(&self, leases: &[LeaseRequest], lane: Lane, to: Responder<Vec<Answer<Instant>>>) {
        self.connection(lane).post(Command::Renew { leases: leases.to_vec(), to });
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
        self.connection(lane).post(Command::release(lease.clone(), held, queue_action, to));
    }

    fn connected_since(&self, lane: Lane) -> Option<Instant> {
        self.connection(lane).connected_since()
    }

    fn wall_offset(&self) -> Option<i64> {
        self.facts.wall_offset()
    }

    fn clock_advance(&self) -> Duration {
        Duration::from_micros(self.context.clock_advance.load(Ordering::Acquire))
    }

    fn inspect(&self, name: &Name, to: Responder<Answer<Option<Holder>>>) {
        self.callers.post(Command::Inspect { name: name.clone(), to });
    }

    fn force_release(&self, name: &Name, to: Responder<Answer<bool>>) {
        self.callers.post(Command::ForceRelease { name: name.clone(), to });
    }

    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        Some(self)
    }
}

impl WaitQueue for RedisNode {
    fn leave(&self, name: &Name, offered: Option<&(LeaseRequest, HandoffOffer)>) {
        if let Some((lease, offer)) = offered {
            let (lease, queue_action) = (lease.clone(), Some(QueueAction::Leave(*offer)));
            self.callers.post(Command::release(
                lease,
                HeldInterval::UNKNOWN,
                queue_action,
                Responder::nobody(),
            ));
        } else if self.subscriptions.is_up() {
            self.callers.post(Command::Dequeue(name.clone(), true));
        }
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
}
