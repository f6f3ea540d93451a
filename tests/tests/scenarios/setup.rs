//! The setup of `resynchronisation`: three nodes, of which the holder reaches two, and a rival that
//! reaches all. The fault then hits one of the holder's two nodes (`FAULTY`): if this node forgets
//! the holder, the rival finds a majority there and on the third node.

use std::time::Duration;

use quorumlock::{Admission, Builder, Error, Guard, Locker, NodeProblem, NodeReport};
use quorumlock_testbed::servers::{Server, ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, Proxy, eventually, within};

pub(crate) use quorumlock::Admission::{Redlock, Strict};

/// The lock that all clients want.
pub(crate) const NAME: &str = "x";

/// Names of the rival that are taken together, at all nodes.
pub(crate) const ON_ALL: [&str; 2] = ["another", "beside"];

/// The node that has granted the lock and is hit by the fault.
pub(crate) const FAULTY: usize = 1;

/// Under strict admission: the longest lease, for which a node that forgot does not vote.
pub(crate) const MAX_LEASE: Duration = Duration::from_secs(4);
pub(crate) const LEASE: Duration = Duration::from_secs(3);
const CLOCK_BOUND: Duration = Duration::from_millis(100);

/// A builder for one mode. In plain Redlock leases are so long that no renewal happens during the
/// fault.
pub(crate) fn builder(mode: Admission) -> Builder {
    let patient = quorumlock_tests::builder()
        .admission(mode)
        .answer_timeout(Duration::from_secs(1))
        .connect_timeout(Duration::from_secs(2));
    match mode {
        Strict => patient.max_lease(MAX_LEASE).lease(LEASE).clock_bound(CLOCK_BOUND),
        _ => patient.lease(Duration::from_secs(60)),
    }
}

/// The URL of a path to the server, with the label that clients with the server's own URL use.
pub(crate) fn same_member(path: &Proxy, server: &Server) -> String {
    let address = server.addr().expect("ours");
    format!("{}?label={address}/0", path.url())
}

/// Runs a scenario in which both modes behave the same. Both run concurrently, because most of the
/// time is spent waiting.
pub(crate) async fn in_both(scenario: impl AsyncFn(Admission)) {
    futures::join!(scenario(Redlock), scenario(Strict));
}

/// Servers that may vote; `None` if this machine has no server program.
pub(crate) async fn voters(mode: Admission, n: usize, options: &ServerOptions) -> Option<Servers> {
    let servers = for_test(n, options)?;
    admit(mode, &servers).await;
    Some(servers)
}

/// Admits the servers, under strict admission.
pub(crate) async fn admit(mode: Admission, servers: &Servers) {
    if mode == Strict {
        let operator =
            builder(mode).on(quorumlock::Servers::quorum(servers.urls())).expect("good URLs");
        operator.admit_nodes().await.expect("all nodes answer");
    }
}

/// Asserts the violation: both guards are valid at one instant.
fn assert_both_hold(one: &Guard, other: &Guard) {
    assert_eq!(one.check(), Ok(()));
    assert_eq!(other.check(), Ok(()));
    // A lost guard is never valid again, so the first guard was valid when the other one was.
    assert_eq!(one.check(), Ok(()), "{other:?} is valid, too");
}

/// Three nodes, and the rival with live connections to all of them.
pub(crate) struct ScenarioSetup {
    pub(crate) mode: Admission,
    pub(crate) servers: Servers,
    rival: Locker,
    /// The holder's path to the third node, which is cut.
    cut: Proxy,
}

impl ScenarioSetup {
    /// Starts the setup. The name was held and released before, so that every node has a mark.
    pub(crate) async fn start(mode: Admission, options: &ServerOptions) -> Option<Self> {
        let servers = voters(mode, 3, options).await?;
        let cut = Proxy::to(servers[2].addr().expect("ours"));
        cut.cut();
        let rival =
            builder(mode).on(quorumlock::Servers::quorum(servers.urls())).expect("good URLs");
        let setup = Self { mode, servers, rival, cut };
        // A node that has just been verified is asked only in the next round.
        setup.awaits_rival_on_all().await;
        let before = within("a free lock", setup.rival.lock([NAME, "with it"])).await;
        let before = before.expect("free");
        before.unlock().await.expect("held");
        for i in 0..3 {
            let plain = setup.plain(i).await;
            eventually("a mark, and the release", async || {
                (plain.mark(NAME).await.is_some() && !plain.exists(NAME).await).then_some(())
            })
            .await;
        }
        Some(setup)
    }

    /// A locker that reaches only two nodes.
    fn holder(&self) -> Locker {
        let mut urls = self.servers.urls();
        urls[2] = same_member(&self.cut, &self.servers[2]);
        builder(self.mode).on(quorumlock::Servers::quorum(urls)).expect("good URLs")
    }

    /// The holder takes the lock on a bare majority.
    pub(crate) async fn hold(self) -> Held {
        let holder = self.holder();
        let guard = within("a free lock", holder.lock(NAME)).await.expect("two of three");
        Held { setup: self, holder, guard }
    }

    /// Waits until the rival's connections have noticed the fault, and every node votes for it.
    async fn awaits_rival_on_all(&self) {
        let mut nodes = Vec::new();
        for server in &self.servers {
            nodes.push(Plain::to(server.url()).await);
        }
        eventually("the rival is heard everywhere", async || {
            let _held = self.rival.try_lock(ON_ALL).await.ok()??;
            for node in &nodes {
                if !node.exists(ON_ALL[0]).await {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }

    pub(crate) async fn plain(&self, i: usize) -> Plain {
        Plain::to(self.servers[i].url()).await
    }
}

/// The lock is held by a bare majority, and the fault has struck or is about to.
pub(crate) struct Held {
    pub(crate) setup: ScenarioSetup,
    holder: Locker,
    guard: Guard,
}

impl Held {
    /// Asserts the behaviour of plain Redlock: the rival gets the lock as well.
    pub(crate) async fn is_violated(&self) {
        self.setup.awaits_rival_on_all().await;
        let second = within("an answer", self.setup.rival.try_lock(NAME)).await;
        let second = second.expect("all answer").expect("granted a second time");
        assert_both_hold(&self.guard, &second);
    }

    /// Asserts the behaviour of strict admission: the node that forgot does not vote, and the rival
    /// gets the lock only when the holder knows that it has lost it.
    pub(crate) async fn is_safe(&self) {
        // The rival tries from the beginning, while the holder still believes that it holds the
        // lock.
        let next = succession(&self.guard, &self.setup.rival);
        drop(futures::join!(next, self.awaits_disregard()));
    }

    async fn awaits_disregard(&self) {
        let name = self.setup.servers[FAULTY].url();
        eventually("the node that forgot counts for nothing", async || {
            // The holder reaches only this node and the first one, so it can lock nothing.
            let Err(Error::Refused(why) | Error::Unreachable(why)) =
                self.holder.try_lock("another").await
            else {
                return None;
            };
            why.nodes.iter().any(|node| node.node == name && counts_for_nothing(node)).then_some(())
        })
        .await;
    }
}

/// Asserts that the rival gets the lock in the end, and not while the holder believes that it holds
/// it.
pub(crate) async fn succession(first: &Guard, rival: &Locker) -> Guard {
    let next = granted(rival).await;
    let believes = first.check();
    assert!(believes.is_err(), "two holders: {first:?} and {next:?}");
    assert!(next.token() > first.token(), "{} after {}", next.token(), first.token());
    next
}

async fn granted(rival: &Locker) -> Guard {
    eventually("the rival gets the lock", async || match rival.try_lock(NAME).await {
        Ok(guard) => guard,
        // The rival's connections, too, have to notice the fault first.
        Err(Error::Refused(_) | Error::Unreachable(_)) => None,
        Err(error) => panic!("{error}"),
    })
    .await
}

/// Waits until the locker can lock nothing, because nodes that forgot do not vote.
pub(crate) async fn refused(locker: &Locker, name: &str) {
    eventually("refused by nodes that forgot", async || match locker.try_lock(name).await {
        Err(Error::Refused(why) | Error::Unreachable(why)) => {
            why.nodes.iter().any(counts_for_nothing).then_some(())
        }
        Ok(None) => None,
        other => panic!("not refused: {other:?}"),
    })
    .await;
}

fn counts_for_nothing(node: &NodeReport) -> bool {
    matches!(node.problem, NodeProblem::New | NodeProblem::NotAdmitted)
}
