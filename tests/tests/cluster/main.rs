//! Locks on a real Redis Cluster: three masters, each with a replica (`docs/PROTOCOL.md`, Redis
//! Cluster).

mod containers;
mod failover;
mod moving;
mod refusals;
mod routes;

use std::time::Duration;

use quorumlock::{Builder, Locker};
use quorumlock_protocol::Name;
use quorumlock_testbed::servers::{ServerOptions, Servers, Source, for_test};
use quorumlock_tests::{Plain, builder, eventually, missed, second_server};

const MASTERS: usize = 3;
/// How long a member is silent before the others take it for failed.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// The members of one cluster. Those after the first [`MASTERS`] are replicas at first: each of the
/// member so many places before it.
struct Fleet {
    servers: Servers,
    plain: Vec<Plain>,
    ids: Vec<String>,
}

impl Fleet {
    /// Three masters, each with one replica; `None` if this machine has no server program.
    async fn start() -> Option<Self> {
        Self::start_with(1, NODE_TIMEOUT).await
    }

    /// As [`Self::start`], of the second kind of server, if this machine has it.
    async fn start_second() -> Option<Self> {
        let Some(source) = second_server() else {
            missed("no Redis here; scripts/get-redis fetches one");
            return None;
        };
        Some(Self::start_on(&source, 1, None, NODE_TIMEOUT).await)
    }

    async fn start_with(replicas: usize, node_timeout: Duration) -> Option<Self> {
        Some(Self::start_on(&source()?, replicas, None, node_timeout).await)
    }

    async fn start_on(
        source: &Source,
        replicas: usize,
        password: Option<&str>,
        node_timeout: Duration,
    ) -> Self {
        let node_timeout = node_timeout.as_millis().to_string();
        let args = [
            ["--cluster-node-timeout", &node_timeout],
            // A replica that was synchronised late may be promoted all the same.
            ["--cluster-replica-validity-factor", "0"],
            ["--cluster-allow-replica-migration", "no"],
        ];
        let mut args: Vec<_> = args.as_flattened().iter().map(|&arg| arg.to_owned()).collect();
        if let Some(password) = password {
            args.extend(["--masterauth".to_owned(), password.to_owned()]);
        }
        let password = password.map(str::to_owned);
        let options = ServerOptions { cluster: true, args, password, ..Default::default() };
        let servers = Servers::start_with(source, MASTERS * (1 + replicas), &options);
        let servers = servers.unwrap_or_else(|error| panic!("{error}"));
        let mut members = Vec::new();
        for server in &servers {
            let port = server.addr().expect("ours").port();
            let bus_port = server.bus_port().expect("a member");
            let plain = Plain::to(server.url()).await;
            members.push(Member { plain, host: "127.0.0.1".into(), port, bus_port });
        }
        let ids = form(&members).await;
        Self { servers, plain: members.into_iter().map(|member| member.plain).collect(), ids }
    }

    /// Its time to connect is so long that a test fails if a locker waits for a member that hangs.
    fn builder(&self) -> Builder {
        builder().connect_timeout(Duration::from_secs(20))
    }

    /// A locker that is given one member, which serves some of the slots.
    fn locker(&self) -> Locker {
        self.builder()
            .on(quorumlock::Servers::cluster([self.servers[0].url()]))
            .expect("a good URL")
    }

    /// The member that serves a name, as another member than `silent` says. In a failover that is ordered it
    /// may hear that the old master is a replica before it hears of the new master: then nobody serves it.
    async fn master_of(&self, name: &str, silent: usize) -> Option<usize> {
        let slot = Name::new(name).expect("a good name").slot();
        let other = (0..self.servers.len()).find(|at| *at != silent).expect("others");
        // A fresh connection: a promotion ends those of clients.
        let plain = Plain::to(self.servers[other].url()).await;
        type Range = (usize, usize, Vec<redis::Value>);
        let ranges: Vec<Vec<redis::Value>> = plain.ask(&["CLUSTER", "SLOTS"]).await;
        let ranges = ranges.into_iter().map(|range| -> Range {
            let at = |at: usize| range[at].clone();
            let number = |value| redis::from_redis_value(value).expect("a slot");
            (number(at(0)), number(at(1)), redis::from_redis_value(at(2)).expect("a member"))
        });
        let mut ranges = ranges.filter(|(first, last, _)| (*first..=*last).contains(&slot));
        let (_, _, member) = ranges.next()?;
        let id: String = redis::from_redis_value(member[2].clone()).expect("an id");
        Some(self.ids.iter().position(|each| *each == id).expect("a member"))
    }
}

/// The servers of all tests. Without any, says that the test is skipped, or fails where it must not be.
fn source() -> Option<Source> {
    Source::discover().ok().or_else(|| {
        drop(for_test(0, &ServerOptions::default()));
        None
    })
}

/// A server that is to be a member.
struct Member {
    plain: Plain,
    host: String,
    port: u16,
    bus_port: u16,
}

/// Makes a cluster of the servers: the first [`MASTERS`] are masters, and each of the others is a replica
/// of the member so many places before it. Returns their ids.
async fn form(members: &[Member]) -> Vec<String> {
    let mut ids = Vec::<String>::new();
    for (at, Member { plain, .. }) in members.iter().enumerate() {
        ids.push(plain.ask(&["CLUSTER", "MYID"]).await);
        if at < MASTERS {
            plain.ask::<String>(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]).await;
            let [first, last] = slots_of(at).map(|slot| slot.to_string());
            plain.ask::<String>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await;
        }
    }
    for Member { host, port, bus_port, .. } in &members[1..] {
        let [port, bus_port] = [port, bus_port].map(ToString::to_string);
        members[0].plain.ask::<String>(&["CLUSTER", "MEET", host, &port, &bus_port]).await;
    }
    for Member { plain, .. } in members {
        until(plain, &["CLUSTER", "INFO"], &format!("cluster_known_nodes:{}", members.len())).await;
    }
    for (at, Member { plain, .. }) in members.iter().enumerate().skip(MASTERS) {
        let master = &ids[at % MASTERS];
        // Until they have greeted each other it is known by another id.
        until(plain, &["CLUSTER", "NODES"], master).await;
        plain.ask::<String>(&["CLUSTER", "REPLICATE", master]).await;
        until(plain, &["INFO", "replication"], "master_link_status:up").await;
    }
    for Member { plain, .. } in members {
        until(plain, &["CLUSTER", "INFO"], "cluster_state:ok").await;
    }
    ids
}

/// Waits until a replica has the key of a name.
async fn copied(replica: &Plain, name: &str) {
    replica.ask::<String>(&["READONLY"]).await;
    eventually("copied", async || replica.exists(name).await.then_some(())).await;
}

/// Waits until a member says so.
async fn until(plain: &Plain, command: &[&str], line: &str) {
    eventually(line, async || {
        let info: String = plain.ask(command).await;
        info.contains(line).then_some(())
    })
    .await;
}

/// The first and the last slot of a master at first.
fn slots_of(master: usize) -> [usize; 2] {
    [master * Name::SLOTS / MASTERS, (master + 1) * Name::SLOTS / MASTERS - 1]
}

/// A name in the slot.
fn name_in(slot: usize) -> String {
    format!("job{}", Name::tag_of(slot))
}
