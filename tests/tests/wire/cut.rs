//! What an unlock tells when its connection breaks: the release is asked again (decision 0031).

use std::time::Duration;

use quorumlock::{Error, Guard, Locker, Loss, Wire};
use quorumlock_lab::proxy::{Proxy, Way};
use quorumlock_lab::servers::{self, ServerOptions, Servers};
use quorumlock_tests::{Plain, builder, eventually, skipped, within};
use tokio::task::JoinHandle;

use crate::{LONG, WIRES};

/// One server, and a locker whose way to it can be cut.
struct Ground {
    servers: Servers,
    way: Proxy,
    locker: Locker,
    plain: Plain,
}

impl Ground {
    async fn start(wire: Wire, options: &ServerOptions) -> Option<Self> {
        let servers = servers::for_test(1, options)?;
        let Some(server) = servers[0].addr() else {
            skipped("the servers are not ours");
            return None;
        };
        let way = Proxy::to(server);
        // A loaded machine takes its time, and nothing here ends by a timeout.
        let builder = builder().wire(wire).answer_timeout(LONG);
        let locker = builder.single(way.url()).expect("a good URL");
        let plain = Plain::to(servers[0].url()).await;
        Some(Self { servers, way, locker, plain })
    }

    async fn lock(&self, lease: Duration) -> Guard {
        within("free", self.locker.lock("x").lease(lease)).await.expect("granted")
    }

    /// The release is written, and lost on its way; then the connection breaks.
    async fn unlock_unheard(&self, guard: Guard) -> JoinHandle<Result<(), Error>> {
        self.way.lose(Way::Requests);
        let unlocking = tokio::spawn(guard.unlock());
        within("written", self.way.awaits_lost()).await;
        unlocking
    }

    /// Ends all connections; new ones lead to the server again.
    fn cut(&self) {
        self.way.heal();
        self.way.lead_to(self.servers[0].addr().expect("ours"));
    }

    async fn free(&self) {
        eventually("free", async || (!self.plain.exists("x").await).then_some(())).await;
    }
}

fn assert_lost(told: Result<(), Error>) {
    let Err(Error::Lost(lost)) = told else { panic!("{told:?}") };
    assert_eq!(lost.why, Loss::Gone);
}

#[tokio::test]
async fn an_unlock_whose_answer_is_lost_is_asked_again_and_true() {
    for wire in WIRES {
        let Some(ground) = Ground::start(wire, &ServerOptions::default()).await else { return };
        let guard = ground.lock(LONG).await;
        ground.way.lose(Way::Replies);
        let unlocking = tokio::spawn(guard.unlock());
        ground.free().await;
        ground.cut();
        within("an answer", unlocking).await.expect("no panic").expect("given back");
    }
}

#[tokio::test]
async fn an_unlock_that_never_arrived_is_asked_again_and_gives_back() {
    for wire in WIRES {
        let Some(ground) = Ground::start(wire, &ServerOptions::default()).await else { return };
        let guard = ground.lock(LONG).await;
        let unlocking = ground.unlock_unheard(guard).await;
        assert!(ground.plain.exists("x").await, "still held");
        ground.cut();
        within("an answer", unlocking).await.expect("no panic").expect("given back");
        assert!(!ground.plain.exists("x").await);
    }
}

/// Else a repeat would hide that the server has forgotten the lock.
#[tokio::test]
async fn an_unlock_that_meets_a_server_which_forgot_the_lock_tells_of_the_loss() {
    let Some(ground) = Ground::start(Wire::Redisson, &ServerOptions::default()).await else {
        return;
    };
    let guard = ground.lock(LONG).await;
    let unlocking = ground.unlock_unheard(guard).await;
    ground.servers[0].restart_empty().expect("ours");
    ground.cut();
    assert_lost(within("an answer", unlocking).await.expect("no panic"));
}

/// The release is written to the server that has forgotten already, and so is the repeat.
#[tokio::test]
async fn a_restart_before_the_release_is_told_as_well() {
    let Some(ground) = Ground::start(Wire::Redisson, &ServerOptions::default()).await else {
        return;
    };
    let guard = ground.lock(LONG).await;
    ground.servers[0].restart_empty().expect("ours");
    // Over the connection on which the release will go.
    eventually("connected again", async || ground.locker.is_locked("y").await.ok()).await;
    let unlocking = ground.unlock_unheard(guard).await;
    ground.cut();
    assert_lost(within("an answer", unlocking).await.expect("no panic"));
}

/// It may have ended by itself: that the first release gave it back is not known.
#[tokio::test]
async fn a_repeat_after_the_window_tells_of_a_loss() {
    let Some(ground) = Ground::start(Wire::Redisson, &ServerOptions::default()).await else {
        return;
    };
    let guard = ground.lock(Duration::from_secs(2)).await;
    let unlocking = ground.unlock_unheard(guard).await;
    ground.free().await;
    ground.cut();
    assert_lost(within("an answer", unlocking).await.expect("no panic"));
}

/// A cut between the command that frees and the message that tells of it (decision 0007).
#[tokio::test]
async fn a_repeat_tells_programs_that_know_of_no_queue() {
    let Some(ground) = Ground::start(Wire::Redisson, &ServerOptions::default()).await else {
        return;
    };
    let guard = ground.lock(LONG).await;
    let mut stranger = ground.plain.listen("redisson_lock__channel:{x}").await;
    let unlocking = ground.unlock_unheard(guard).await;
    // As if only the first command of the release had arrived.
    assert_eq!(ground.plain.ask::<u32>(&["DEL", "x"]).await, 1);
    ground.cut();
    within("an answer", unlocking).await.expect("no panic").expect("given back");
    assert_eq!(within("told", stranger.next()).await, "0");
}

/// A server's script cache that is emptied again and again: here its user may not even load
/// scripts.
#[tokio::test]
async fn what_finds_no_script_twice_is_sent_as_text() {
    for wire in WIRES {
        let Some(ground) = Ground::start(wire, &ServerOptions::default()).await else { return };
        let guard = ground.lock(LONG).await;
        assert!(ground.locker.is_locked("x").await.expect("an answer"));
        ground.plain.ask::<String>(&["ACL", "SETUSER", "default", "-script|load"]).await;
        ground.plain.ask::<String>(&["SCRIPT", "FLUSH"]).await;
        assert!(within("an answer", ground.locker.is_locked("x")).await.expect("asked as text"));
        ground.plain.ask::<String>(&["SCRIPT", "FLUSH"]).await;
        within("an answer", guard.unlock()).await.expect("released, by a script or not");
        assert!(!ground.locker.force_unlock("x").await.expect("asked as text"), "it was free");
    }
}

/// Nobody waits for a server that is gone for longer than twice the answer timeout.
#[tokio::test]
async fn an_unlock_is_not_awaited_for_ever_and_goes_on_in_the_background() {
    let Some(ground) = Ground::start(Wire::Redisson, &ServerOptions::default()).await else {
        return;
    };
    let builder = builder().answer_timeout(Duration::from_millis(200));
    let locker = builder.single(ground.way.url()).expect("a good URL");
    let guard = within("free", locker.lock("x").lease(LONG)).await.expect("granted");
    let unlocking = ground.unlock_unheard(guard).await;
    let told = within("an answer", unlocking).await.expect("no panic");
    assert!(matches!(told, Err(Error::Unreachable(_))), "{told:?}");
    assert!(ground.plain.exists("x").await, "still held");
    ground.cut();
    ground.free().await;
    drop(locker);
}
