//! The layouts, byte for byte, read and written by a plain client. Other libraries depend on
//! them; docs/decisions/ gives the reasons for each.

mod bad_marks;
mod counted;
mod counts;
mod crowd;
mod cut;
mod direct;
mod force;
mod foreign;
mod foreign_client;
mod handoff;
mod home_node;
mod keys;
mod lost_handoff;
mod marks;
mod members;
mod names;
mod other_kinds;
mod passed_over;
mod permits;
mod plain;
mod plain_single;
mod polling;
mod queue;
mod read_write;
mod redisson;
mod redlock;
mod release;
mod several_names;
mod shared;
mod spoilt;
mod strict_order;
mod unfenced;

use std::time::Duration;

use quorumlock::{Admission, FencingToken, Layout, Locker};
use quorumlock_core::{Environment, Lessor as _};
use quorumlock_protocol::{Lane, Name, Node as _, ReplyFuture, Settings};
use quorumlock_redis::redis_nodes;
use quorumlock_testbed::servers::{self, ServerOptions, Servers};
use quorumlock_tests::{Plain, builder};

/// Longer than any test.
const LONG_LEASE: Duration = Duration::from_secs(60);

const LAYOUTS: [Layout; 2] = [Layout::Redisson, Layout::Redlock];

/// One server with a locker and a plain client. The locker has no label: tests count keys and commands.
struct Node {
    layout: Layout,
    server: Servers,
    locker: Locker,
    plain: Plain,
}

impl Node {
    /// `None` if there is no server here.
    async fn start(layout: Layout) -> Option<Self> {
        let server = servers::for_test(1, &ServerOptions::default())?;
        let locker = builder()
            .label("")
            .layout(layout)
            .on(quorumlock::Servers::single(server[0].url()))
            .expect("a good URL");
        let plain = Plain::to(server[0].url()).await;
        Some(Self { layout, server, locker, plain })
    }

    fn clients(&self) -> (Locker, Plain) {
        (self.locker.clone(), self.plain.clone())
    }

    /// Like [`Node::clients`], with a locker that takes every lock by script.
    fn by_script(&self, layout: Layout) -> (Locker, Plain) {
        let builder = builder().label("").layout(layout).scripts_only(true);
        let locker =
            builder.on(quorumlock::Servers::single(self.server[0].url())).expect("a good URL");
        (locker, self.plain.clone())
    }

    /// How often the server has executed a command, including commands of scripts and transactions.
    async fn calls(&self, command: &str) -> usize {
        let stats: String = self.plain.ask(&["INFO", "commandstats"]).await;
        let prefix = format!("cmdstat_{command}:calls=");
        let calls = stats.lines().find_map(|line| line.strip_prefix(&prefix));
        calls.and_then(|rest| rest.split(',').next()).map_or(0, |n| n.parse().expect("a number"))
    }

    /// The first command of a release without waiters. Redlock's layout needs a script before
    /// Valkey 9.
    async fn releases_by(&self, layout: Layout) -> &'static str {
        if layout == Layout::Redisson {
            return "HDEL";
        }
        if deletes_if_equal(&self.plain).await { "DELIFEQ" } else { "EVALSHA" }
    }
}

/// The nodes of a quorum with a locker, and a plain client of each.
struct Quorum {
    servers: Servers,
    locker: Locker,
    plain: Vec<Plain>,
}

impl Quorum {
    /// `None` if there is no server here.
    async fn start(nodes: usize, layout: Layout) -> Option<Self> {
        let servers = servers::for_test(nodes, &ServerOptions::default())?;
        let locker = plain_quorum(layout, servers.urls());
        let mut plain = Vec::new();
        for url in servers.urls() {
            plain.push(Plain::to(&url).await);
        }
        Some(Self { servers, locker, plain })
    }

    fn clients(&self) -> (Locker, Vec<Plain>) {
        (self.locker.clone(), self.plain.clone())
    }

    /// The index of the home node of `name`, where its waiters queue.
    async fn home(&self, name: &str) -> usize {
        let (urls, world) = (self.servers.urls(), Environment::default());
        let settings = Settings::default();
        let nodes = redis_nodes(&urls, Layout::Redlock, None, &settings, &world.clock);
        let nodes = nodes.expect("good URLs");
        // A node that has greeted has told its run id. Until then its address stands for it.
        for node in &nodes {
            let (answered, to) = ReplyFuture::new();
            node.renew(&[], Lane::Caller, to);
            answered.await;
            assert!(node.greeted(), "{} answers", node.label());
        }
        let quorum = quorumlock_quorum::Quorum::new(nodes, world.clock, settings.answer_timeout);
        let quorum = quorum.expect("some nodes");
        quorum.home(&Name::new(name).expect("a good name")).expect("more than one node")
    }
}

/// The last 128 commands that clients sent, oldest first. Needs `slowlog-log-slower-than 0`.
async fn slow_log(node: &Plain) -> Vec<Vec<String>> {
    type Entry = (i64, i64, i64, Vec<String>, String, String);
    let log: Vec<Entry> = node.ask(&["SLOWLOG", "GET", "128"]).await;
    log.into_iter().rev().map(|(_, _, _, command, _, _)| command).collect()
}

/// Whether the server has `DELIFEQ` (Valkey 9).
async fn deletes_if_equal(node: &Plain) -> bool {
    node.send::<u32>(&["DELIFEQ", "nothing", ""]).await.is_ok()
}

/// A locker without admission, as other libraries lock.
fn plain_quorum(layout: Layout, urls: impl Into<Vec<String>>) -> Locker {
    let builder = builder().label("").layout(layout).admission(Admission::Redlock);
    builder.on(quorumlock::Servers::quorum(urls.into())).expect("good URLs")
}

/// The last token of the block that begins with `first`: the mark that the nodes have accepted.
fn last_of(first: FencingToken) -> u64 {
    first.get() | (FencingToken::BLOCK - 1)
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a request to a node that is paused by `CLIENT PAUSE` waits there.
async fn is_asked(node: &Plain) -> bool {
    let clients: String = node.ask(&["CLIENT", "LIST"]).await;
    clients.lines().any(|client| client.contains(" flags=b "))
}
