use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, Weak};

use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::admission::members::{ClientName, MemberList};
use quorumlock_protocol::{ClockMonitor, ConfigError, Lane, Layout, Nonce, Settings};
use quorumlock_watchdog::Clock;

use crate::command::NodeContext;
use crate::connection::{AckPolicy, Connection, ConnectionRules, STALL_TIMES};
use crate::contended_names::ContendedNames;
use crate::dial::{DialOptions, Dialer, RunIdRegistry};
use crate::handshake::identity;
use crate::happy_eyeballs::AddressMemory;
use crate::master::{Addresses, MasterResolver};
use crate::network::Network;
use crate::node::RedisNode;
use crate::node_addr::NodeAddr;
use crate::node_facts::NodeFacts;
use crate::owner_label::OwnerLabel;
use crate::redirect::{Router, Routing};
use crate::scripts::{LastBound, Scripts, Tokens};
use crate::sentinel_url::{SentinelUrl, master_addr, sentinel_addr};
use crate::sentinels::Sentinels;
use crate::subscriptions::Subscriptions;
use crate::taken_up::TakenUp;
use crate::targets::{Targets, distinct, parse};
use crate::tls::Tls;
use crate::unconfirmed_releases::UnconfirmedReleases;

/// The nodes of one locker, at `urls`. Does no I/O.
///
/// # Errors
/// [`ConfigError`] for a bad URL, an empty list, an address listed twice, settings out of bounds.
pub fn redis_nodes(
    urls: &[impl AsRef<str>],
    layout: Layout,
    cluster: Option<&ClusterConfig>,
    settings: &Settings,
    clock: &Clock,
) -> Result<Vec<RedisNode>, ConfigError> {
    settings.check()?;
    settings.check_replicas(0)?;
    let maker = NodeFactory {
        layout,
        cluster: cluster.cloned().map(Arc::new),
        settings,
        clock,
        run_ids: RunIdRegistry::default(),
        waiter: Nonce::fresh()?,
        name_channels: layout == Layout::Redisson && urls.len() == 1,
        supports_handoff: false,
        network: Network::System,
        router: None,
    };
    parse(urls)?.into_iter().map(|target| maker.node(Targets::Listed(vec![target]))).collect()
}

/// The labels of the nodes at `urls`: `host:port/db`, or what a URL gives as `label`. Does no I/O.
///
/// # Errors
/// [`ConfigError`] for a bad URL, an empty list, or one address or label listed twice.
pub fn member_list(urls: &[impl AsRef<str>]) -> Result<MemberList, ConfigError> {
    Ok(MemberList::new(parse(urls)?.iter().map(|target| target.member().clone())))
}

/// The list of the one node at `urls`, which are its addresses, or those of the sentinels that monitor
/// `master`. The label is the same for all addresses, so that a replica may come and go. Does no I/O.
///
/// # Errors
/// [`ConfigError`] for a bad URL, an empty list, or one address listed twice.
pub fn master_list(
    urls: &[impl AsRef<str>],
    master: Option<&str>,
) -> Result<MemberList, ConfigError> {
    let sentinels = match urls {
        [url] => SentinelUrl::parse(url.as_ref()).transpose()?,
        _ => None,
    };
    let server = match master.or_else(|| Some(&*sentinels.as_ref()?.master)) {
        Some(master) => master_addr(master)?.1,
        None => parse(urls)?.swap_remove(0),
    };
    Ok(MemberList::new([format!("master/{}", server.redis().db())]))
}

/// The one node at `urls`: the only server, or the master among several servers, or the master that one
/// URL `redis-sentinel://...` names. With a `cluster`, which has one member, it counts only while its
/// memory is proven. Does no I/O.
///
/// # Errors
/// As [`redis_nodes`], and as [`redis_sentinel`].
pub fn redis_master(
    urls: &[impl AsRef<str>],
    (layout, cluster): (Layout, Option<&ClusterConfig>),
    settings: &Settings,
    clock: &Clock,
) -> Result<RedisNode, ConfigError> {
    if let [url] = urls
        && let Some(parsed) = SentinelUrl::parse(url.as_ref())
    {
        let SentinelUrl { sentinels, master } = parsed?;
        return redis_sentinel(&sentinels, &master, (layout, cluster), settings, clock);
    }
    let targets = parse(urls)?;
    let max_replicas = match targets.len() {
        // One address may stand for a master with any number of replicas.
        1 => MAX_REPLICAS,
        n => n - 1,
    };
    one_node(Targets::Listed(targets), max_replicas, (layout, cluster), settings, clock)
}

/// The master that the sentinels at `urls` monitor. `master` is its name, or a URL with the name in
/// place of the host, which has the user, password, database and TLS of the servers. `cluster` as for
/// [`redis_master`]. Does no I/O.
///
/// # Errors
/// As [`redis_nodes`], and [`ConfigError::BadMasterName`].
pub fn redis_sentinel(
    urls: &[impl AsRef<str>],
    master: &str,
    (layout, cluster): (Layout, Option<&ClusterConfig>),
    settings: &Settings,
    clock: &Clock,
) -> Result<RedisNode, ConfigError> {
    let sentinels = urls.iter().map(|url| sentinel_addr(url.as_ref())).collect::<Result<_, _>>()?;
    let targets = Targets::Sentinels(distinct(sentinels)?, master_addr(master)?);
    one_node(targets, MAX_REPLICAS, (layout, cluster), settings, clock)
}

fn one_node(
    targets: Targets,
    max_replicas: usize,
    (layout, cluster): (Layout, Option<&ClusterConfig>),
    settings: &Settings,
    clock: &Clock,
) -> Result<RedisNode, ConfigError> {
    settings.check()?;
    settings.check_replicas(max_replicas)?;
    let targets = match cluster.and_then(|cluster| cluster.members.labels().first()) {
        Some(member) => targets.of_member(member),
        None => targets,
    };
    NodeFactory {
        layout,
        cluster: cluster.cloned().map(Arc::new),
        settings,
        clock,
        run_ids: RunIdRegistry::default(),
        waiter: Nonce::fresh()?,
        name_channels: layout == Layout::Redisson,
        // A handoff cannot wait until replicas or disks have it, and a server that counts tokens
        // counts one only for a client that asks.
        supports_handoff: !settings.awaits_copies() && !settings.redisson_fenced,
        network: Network::System,
        router: None,
    }
    .node(targets)
}

/// No real master has more replicas, and a larger number may be meant as milliseconds.
pub(crate) const MAX_REPLICAS: usize = 32;

/// What the nodes of one locker have in common.
pub(crate) struct NodeFactory<'a> {
    pub(crate) layout: Layout,
    pub(crate) cluster: Option<Arc<ClusterConfig>>,
    pub(crate) settings: &'a Settings,
    pub(crate) clock: &'a Clock,
    pub(crate) run_ids: RunIdRegistry,
    pub(crate) waiter: Nonce,
    /// Whether programs that know of no queue may hold and release the same names.
    pub(crate) name_channels: bool,
    /// Whether a release may hand the name off to the next waiter.
    pub(crate) supports_handoff: bool,
    pub(crate) network: Network,
    /// Set for the members of a Redis Cluster.
    pub(crate) router: Option<Weak<dyn Router>>,
}

impl NodeFactory<'_> {
    /// The node at one URL.
    #[cfg(feature = "simulation")]
    pub(crate) fn node_at(&self, url: &str) -> Result<RedisNode, ConfigError> {
        self.node(Targets::Listed(parse(&[url])?))
    }

    fn node(&self, targets: Targets) -> Result<RedisNode, ConfigError> {
        let replicated = targets.replicated();
        let Some(first) = targets.servers().next().cloned() else {
            return Err(ConfigError::NoNodes);
        };
        Ok(self.node_over(self.resolver(targets)?, &first, replicated))
    }

    /// The node whose addresses are given; `first` is one of them.
    pub(crate) fn node_over(
        &self,
        addresses: MasterResolver,
        first: &NodeAddr,
        replicated: bool,
    ) -> RedisNode {
        let settings = self.settings;
        let (label, addresses) = (addresses.label(), Arc::new(addresses));
        let facts = Arc::new(NodeFacts::new(identity(&label)));
        let context = Arc::new(self.context(label));
        let rules = |lane| ConnectionRules {
            stall: settings.answer_timeout * STALL_TIMES,
            acks: AckPolicy::new(settings),
            bound: self.cluster.is_some(),
            several: replicated,
            lane,
        };
        let connection = |lane| {
            let (clock, facts) = (self.clock.clone(), facts.clone());
            let routing = self.router.clone();
            let routing = routing.map(|router| Routing { router, member: first.endpoint() });
            let rules = (rules(lane), routing);
            Connection::new(addresses.clone(), context.clone(), rules, facts, clock)
        };
        let (callers, watchdog) = (Arc::new(connection(Lane::Caller)), connection(Lane::Watchdog));
        let subscriptions = Subscriptions::new(
            addresses.clone(),
            facts.clone(),
            context.clone(),
            Arc::downgrade(&callers),
            (self.name_channels, self.supports_handoff),
            settings.max_lease,
        );
        RedisNode {
            context,
            member: first.member().clone(),
            database: first.redis().db(),
            endpoint: first.endpoint(),
            clock: self.clock.clone(),
            cluster: self.cluster.clone(),
            callers,
            watchdog,
            facts,
            subscriptions,
            supports_handoff: self.supports_handoff,
            owner_label: OwnerLabel::new(settings),
        }
    }

    fn context(&self, label: String) -> NodeContext {
        let settings = self.settings;
        let scripts_only =
            settings.scripts_only || settings.redisson_fenced || settings.strict_order;
        NodeContext {
            label,
            layout: self.layout,
            tokens: self.tokens(),
            max_clock_drift: settings.max_clock_drift,
            delay: settings.delay_at_node(),
            strict_order: settings.strict_order,
            unconfirmed: UnconfirmedReleases::default(),
            bound: self.cluster.is_some(),
            run_identities: Mutex::default(),
            contended: ContendedNames::default(),
            scripts_only: AtomicBool::new(scripts_only),
            clock_monitor: Mutex::new(ClockMonitor::new(settings.max_clock_drift)),
            clock_advance: AtomicU64::new(0),
            waiter: self.waiter,
            taken_up: TakenUp::default(),
            redis_cluster: self.router.is_some(),
            observes: settings.observes,
            on_event: settings.on_event.clone(),
        }
    }

    /// Where the node is.
    pub(crate) fn resolver(&self, targets: Targets) -> Result<MasterResolver, ConfigError> {
        targets.check_logins(self.settings.credentials.is_some())?;
        let options = Arc::new(self.dial_options(&targets)?);
        let dialer = |target| Dialer { target, options: options.clone() };
        let dialers = |targets: Vec<NodeAddr>| {
            targets.into_iter().map(|target| Arc::new(dialer(target))).collect::<Vec<_>>()
        };
        let addresses = match targets {
            Targets::Listed(targets) => Addresses::Listed(dialers(targets)),
            Targets::AnyOf(targets) => Addresses::AnyOf(dialers(targets)),
            Targets::Sentinels(sentinels, (name, server)) => {
                let sentinels = Sentinels::new(dialers(sentinels), &name, dialer(server));
                Addresses::Sentinels(Box::new(sentinels))
            }
        };
        Ok(MasterResolver::new(addresses, options))
    }

    /// In a quorum under strict admission the connections tell the list of the program, and its label: so an
    /// operator who changes the list finds the programs that have the old one.
    fn client_name(&self) -> Option<String> {
        let settings = self.settings;
        let name = settings.client_name.clone()?;
        let cluster = self.cluster.as_ref().filter(|cluster| !cluster.replicated);
        let Some(cluster) = cluster.filter(|_| !settings.observes) else { return Some(name) };
        Some(ClientName::new(&name, &cluster.members, settings.label.as_deref()).to_string())
    }

    fn dial_options(&self, targets: &Targets) -> Result<DialOptions, ConfigError> {
        let settings = self.settings;
        Ok(DialOptions {
            credentials: settings.credentials.clone(),
            last_credentials: Mutex::default(),
            tls: targets.any_tls().then(|| Tls::new(settings)).transpose()?,
            client_name: self.client_name(),
            observes: settings.observes,
            connect_timeout: settings.connect_timeout,
            user_timeout: settings.answer_timeout * 2,
            run_ids: (!targets.replicated()).then(|| self.run_ids.clone()),
            redis_cluster: matches!(targets, Targets::AnyOf(_)),
            all_replicas: settings.all_replicas,
            layout: self.layout,
            cluster: self.cluster.clone(),
            clock: self.clock.clone(),
            one_node: self.one_node(),
            unbound: self.unbound(),
            last_bound: LastBound::default(),
            seen_ids: Mutex::default(),
            waiter: self.waiter,
            probes: AtomicU64::new(0),
            warned: Mutex::default(),
            network: self.network.clone(),
            address_memory: AddressMemory::default(),
        })
    }

    /// The scripts of a connection to a server that is not verified, or that nobody has to verify.
    fn unbound(&self) -> Arc<Scripts> {
        match (&self.cluster, self.one_node()) {
            (Some(cluster), Some(order)) => Scripts::unproven(self.layout, cluster, order),
            _ => Scripts::unbound(self.layout, self.tokens(), self.settings.strict_order),
        }
    }

    /// As [`DialOptions::one_node`].
    fn one_node(&self) -> Option<bool> {
        let cluster = self.cluster.as_ref()?;
        (cluster.members.labels().len() == 1).then_some(self.settings.strict_order)
    }

    fn tokens(&self) -> Tokens {
        if self.settings.redisson_fenced { Tokens::Counted } else { Tokens::Proposed }
    }
}
