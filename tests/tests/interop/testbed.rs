use std::path::PathBuf;
use std::time::Duration;

use quorumlock_testbed::servers::{self, ServerOptions, Servers};
use quorumlock_tests::{Plain, Stopwatch, eventually, waiters, within};

use crate::client::{Client, program};

/// Servers on which quorumlock and another client lock.
pub(crate) struct Testbed {
    pub(crate) servers: Servers,
    pub(crate) plain: Plain,
    program: PathBuf,
    /// The layout of our clients.
    layout: &'static str,
    pub(crate) lease: Duration,
}

/// Longer than any test, so no grant in a test comes from a lease that ended.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(60);
/// Short enough that tests can wait for a renewal, or for its end.
pub(crate) const SHORT_LEASE: Duration = Duration::from_millis(1_500);

impl Testbed {
    /// Starts `count` servers for `other` and for our client in this layout. `None` if the other
    /// client is not installed.
    pub(crate) async fn start(
        other: &str,
        layout: &'static str,
        count: usize,
        lease: Duration,
    ) -> Option<Self> {
        let program = program(other)?;
        let servers = servers::for_test(count, &ServerOptions::default())?;
        let plain = Plain::to(servers[0].url()).await;
        Some(Self { servers, plain, program, layout, lease })
    }

    pub(crate) fn addresses(&self) -> String {
        let address = |url: &String| url.trim_start_matches("redis://").to_owned();
        self.servers.urls().iter().map(address).collect::<Vec<_>>().join(",")
    }

    /// Starts another process of our client.
    pub(crate) async fn ours(&self) -> Client {
        Client::ours(self.layout, &self.addresses(), self.lease).await
    }

    /// Starts another process of our client in another layout.
    pub(crate) async fn in_layout(&self, layout: &str) -> Client {
        Client::ours(layout, &self.addresses(), self.lease).await
    }

    /// Starts another process of the other client.
    pub(crate) async fn theirs(&self) -> Client {
        Client::other(&self.program, &self.addresses(), self.lease).await
    }

    /// Starts a process of a third client.
    ///
    /// # Panics
    /// If the third client is not installed, although the other client of the testbed is.
    pub(crate) async fn other(&self, name: &str) -> Client {
        let program = program(name).expect("fetched with the others");
        Client::other(&program, &self.addresses(), self.lease).await
    }

    /// Starts one process of each client.
    pub(crate) async fn both(&self) -> (Client, Client) {
        tokio::join!(self.ours(), self.theirs())
    }

    /// Waits until one of our clients is queued for the name.
    pub(crate) async fn awaits_ours(&self, name: &str) {
        let mut nodes = Vec::new();
        for server in self.servers.iter().filter(|server| server.is_running()) {
            nodes.push(Plain::to(server.url()).await);
        }
        eventually("one of ours waits", async || {
            for node in &nodes {
                if node.exists(&waiters(name)).await {
                    return Some(());
                }
            }
            None
        })
        .await;
    }

    /// Waits until at least `count` connections listen for a release of the name.
    pub(crate) async fn awaits_listeners(&self, name: &str, count: i64) {
        eventually("they listen", async || (self.listeners(name).await >= count).then_some(()))
            .await;
    }

    pub(crate) async fn awaits_no_listener(&self, name: &str) {
        eventually("nobody listens", async || (self.listeners(name).await == 0).then_some(()))
            .await;
    }

    pub(crate) async fn listeners(&self, name: &str) -> i64 {
        let command = ["PUBSUB", "NUMSUB", &channel(name)];
        let (_, listeners): (String, i64) = self.plain.ask(&command).await;
        listeners
    }
}

/// The channel on which Redisson, and our client in its layout, publish that a name is free.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// Lets one client wait for a lock that another one releases meanwhile. Returns the waiter's
/// result; stderr shows how long after the release it came.
///
/// # Panics
/// If no result comes within the patience of tests.
pub(crate) async fn comes_after<T>(
    who: &str,
    waits: impl Future<Output = T>,
    release: impl Future<Output = ()>,
) -> T {
    let watch = Stopwatch::start();
    let waits = async { (waits.await, watch.elapsed()) };
    let release = async {
        release.await;
        watch.elapsed()
    };
    let both = futures::future::join(waits, release);
    let ((came, at), released) = within(who, both).await;
    eprintln!("{who} came {:?} after the release", at.saturating_sub(released));
    came
}
