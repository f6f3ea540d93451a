//! Five nodes in containers: paused, killed, restarted empty, disconnected from the network.
//!
//! Tests reach the nodes by their own addresses, so disconnecting one is a real partition:
//! connections stay open and hang.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use quorumlock::{Error, Guard, Locker, Servers};
use quorumlock_testbed::containers::{self, Container, Containers};
use quorumlock_tests::{Stopwatch, builder, eventually, within};
use tokio::sync::{Semaphore, SemaphorePermit};

/// What happens to one node of five.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Paused,
    Killed,
    RestartedEmpty,
    Disconnected,
}

impl Fault {
    async fn inject(self, node: &Container) {
        let struck = match self {
            Self::Paused => node.pause().await,
            Self::Killed => node.kill().await,
            Self::RestartedEmpty => {
                node.kill().await.expect("killed");
                node.start_again().await
            }
            Self::Disconnected => node.disconnect().await,
        };
        struck.expect("the engine does it");
    }

    async fn heal(self, node: &Container) {
        let healed = match self {
            Self::Paused => node.unpause().await,
            Self::Killed => node.start_again().await,
            Self::RestartedEmpty => Ok(()),
            Self::Disconnected => node.reconnect().await,
        };
        healed.expect("the engine does it");
    }
}

const LONG_LEASE: Duration = Duration::from_secs(60);

/// The node that the fault hits. The choice must not matter: it may be the name's home node or
/// another one.
const VICTIM: usize = 2;

/// For a connection, and for an answer: a node that answers late, because containers of other tests start
/// meanwhile, is not dead.
const PATIENCE: Duration = Duration::from_secs(2);

/// Five nodes of one test.
struct Nodes {
    containers: Containers,
    /// Given back once the containers are gone.
    _turn: SemaphorePermit<'static>,
}

impl Deref for Nodes {
    type Target = Containers;

    fn deref(&self) -> &Containers {
        &self.containers
    }
}

/// Ten servers start and answer in time, also on two busy cores; those of all tests together do not.
static TURNS: Semaphore = Semaphore::const_new(2);

/// Five admitted nodes; `None` without a container engine.
async fn nodes() -> Option<Nodes> {
    let turn = TURNS.acquire().await.expect("never closed");
    let nodes = containers::for_test(5).await?;
    // The engine says that a node runs before the node greets.
    let patient = patient(&nodes, Duration::from_secs(20));
    within("admitted", patient.admit_nodes()).await.expect("all nodes are up");
    Some(Nodes { containers: nodes, _turn: turn })
}

fn locker(nodes: &Containers) -> Locker {
    patient(nodes, PATIENCE)
}

/// A locker that waits so long for a connection, and for an answer.
fn patient(nodes: &Containers, timeout: Duration) -> Locker {
    let builder = builder().connect_timeout(timeout).answer_timeout(timeout);
    builder.on(Servers::quorum(nodes.ip_urls())).expect("good URLs")
}

/// The lock is renewed, and no other client gets it, during the fault and after it.
async fn a_held_lock_survives(fault: Fault) {
    let Some(nodes) = nodes().await else { return };
    let (ours, other) = (locker(&nodes), locker(&nodes));
    let lease = Duration::from_secs(2);
    let guard = within("a free lock", ours.lock("x").lease(lease)).await.expect("free");
    fault.inject(&nodes[VICTIM]).await;
    stays_held(&guard, &other, lease * 2).await;
    fault.heal(&nodes[VICTIM]).await;
    stays_held(&guard, &other, lease).await;

    let fence = guard.token();
    guard.unlock().await.expect("unlocked");
    let next = within("a free lock", other.lock("x").lease(lease)).await.expect("free");
    assert!(next.token() > fence);
}

async fn stays_held(guard: &Guard, other: &Locker, time: Duration) {
    let watch = Stopwatch::start();
    while watch.elapsed() < time {
        let taken = within("an answer", other.try_lock("x")).await.expect("four nodes answer");
        assert!(taken.is_none(), "two holders: {guard:?} and {taken:?}");
        guard.check().expect("renewed by four nodes");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Contending lockers make progress whatever stage of an acquisition the fault hits, and waiters
/// are notified.
async fn acquiring_goes_on(fault: Fault) {
    let Some(nodes) = nodes().await else { return };
    let guard = locker(&nodes).lock("waited for").lease(LONG_LEASE).await.expect("free");
    let waiting = locker(&nodes);
    let waiter = tokio::spawn(async move { waiting.lock("waited for").lease(LONG_LEASE).await });

    let contest = Contest::start(&nodes, 3);
    contest.awaits_rounds(20).await;
    fault.inject(&nodes[VICTIM]).await;
    contest.awaits_rounds(20).await;
    assert!(!waiter.is_finished(), "two holders");
    guard.unlock().await.expect("unlocked");
    let guard = within("woken", waiter).await.expect("no panic").expect("free");
    fault.heal(&nodes[VICTIM]).await;
    contest.awaits_rounds(20).await;
    contest.end().await;
    guard.unlock().await.expect("unlocked");
}

/// Lockers that take the same lock again and again until told to stop.
struct Contest {
    rounds: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Contest {
    fn start(nodes: &Containers, lockers: usize) -> Self {
        let inside = Arc::new(AtomicBool::new(false));
        let (rounds, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let tasks = (0..lockers).map(|_| {
            let (inside, rounds, over) = (inside.clone(), rounds.clone(), over.clone());
            let locker = locker(nodes);
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    let guard = within("its turn", locker.lock("x").lease(LONG_LEASE)).await;
                    let guard = guard.expect("four nodes answer");
                    assert!(!inside.swap(true, Ordering::SeqCst), "two holders");
                    tokio::task::yield_now().await;
                    inside.store(false, Ordering::SeqCst);
                    guard.unlock().await.expect("unlocked");
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        let tasks = tasks.collect();
        Self { rounds, over, tasks }
    }

    /// Waits for `more` further acquisitions.
    async fn awaits_rounds(&self, more: usize) {
        let enough = self.rounds.load(Ordering::SeqCst) + more;
        eventually("more turns", async || {
            assert!(!self.tasks.iter().any(|task| task.is_finished()), "a locker failed");
            (self.rounds.load(Ordering::SeqCst) >= enough).then_some(())
        })
        .await;
    }

    async fn end(self) {
        self.over.store(true, Ordering::SeqCst);
        for task in self.tasks {
            within("the end", task).await.expect("no overlap");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_survives_a_paused_node() {
    a_held_lock_survives(Fault::Paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_survives_a_killed_node() {
    a_held_lock_survives(Fault::Killed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_survives_a_node_that_restarts_empty() {
    a_held_lock_survives(Fault::RestartedEmpty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_survives_a_partitioned_node() {
    a_held_lock_survives(Fault::Disconnected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquiring_goes_on_when_a_node_is_paused() {
    acquiring_goes_on(Fault::Paused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquiring_goes_on_when_a_node_is_killed() {
    acquiring_goes_on(Fault::Killed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquiring_goes_on_when_a_node_restarts_empty() {
    acquiring_goes_on(Fault::RestartedEmpty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquiring_goes_on_when_a_node_is_partitioned() {
    acquiring_goes_on(Fault::Disconnected).await;
}

/// Without a majority no client can lock, and the error comes quickly and names the nodes; a holder
/// is told of its loss in time; and everything works again when the majority is back.
#[tokio::test(flavor = "multi_thread")]
async fn three_of_five_gone_is_reported_by_name_and_heals() {
    let Some(nodes) = nodes().await else { return };
    let timeout = Duration::from_secs(1);
    let fresh = || patient(&nodes, timeout);
    let (ours, other) = (fresh(), fresh());
    let lease = Duration::from_secs(2);
    let held = within("a free lock", ours.lock("x").lease(lease)).await.expect("free");
    let faults = [(1, Fault::Paused), (2, Fault::Killed), (4, Fault::Disconnected)];
    for (node, fault) in faults {
        fault.inject(&nodes[node]).await;
    }

    for locker in [&ours, &other, &fresh()] {
        for name in ["y", "z"] {
            let watch = Stopwatch::start();
            let error =
                within("an answer", locker.lock(name).fail_fast()).await.expect_err("two of five");
            // One connect timeout and one answer timeout, and room for a loaded machine.
            assert!(watch.elapsed() < 5 * timeout, "{:?}", watch.elapsed());
            assert_names(&error, faults.map(|(node, _)| nodes[node].ip_url()));
        }
    }
    let lost = within("the end of its window", held.lost()).await;
    assert_eq!(lost.why, quorumlock::LossReason::WindowShut);

    for (node, fault) in faults {
        fault.heal(&nodes[node]).await;
    }
    for locker in [&ours, &other] {
        let next = eventually("locking resumes", async || locker.lock("x").await.ok()).await;
        assert!(next.token() > held.token());
        next.unlock().await.expect("unlocked");
    }
}

/// Asserts that the error names each of `urls`, and no other node.
fn assert_names(error: &Error, urls: [String; 3]) {
    let Error::Unreachable(unreachable) = error else { panic!("{error:?}") };
    assert_eq!(unreachable.needed, 3);
    for url in &urls {
        assert!(unreachable.nodes.iter().any(|node| node.node == *url), "{error}");
        assert!(error.to_string().contains(url), "{error}");
    }
    assert_eq!(unreachable.nodes.len(), urls.len(), "{error}");
}
