//! The result of an unlock whose connection breaks: the client repeats the release (decision 0016).

use std::time::Duration;

use quorumlock::{Error, Guard, Layout, Locker, LossReason};
use quorumlock_testbed::proxy::{Proxy, Way};
use quorumlock_testbed::servers::{self, ServerOptions, Servers};
use quorumlock_tests::{Plain, builder, eventually, missed, within};
use tokio::task::JoinHandle;

use crate::{LAYOUTS, LONG_LEASE};

/// One server, and a locker that reaches it through a proxy that can be cut.
struct CutSetup {
    servers: Servers,
    way: Proxy,
    locker: Locker,
    plain: Plain,
}

impl CutSetup {
    async fn start(layout: Layout, options: &ServerOptions) -> Option<Self> {
        let servers = servers::for_test(1, options)?;
        let Some(server) = servers[0].addr() else {
            missed("the servers are not ours");
            return None;
        };
        let way = Proxy::to(server);
        // A loaded machine is slow, so no call here may end by a timeout.
        let builder = builder().layout(layout).answer_timeout(LONG_LEASE);
        let locker = builder.on(quorumlock::Servers::single(way.url())).expect("a good URL");
        let plain = Plain::to(servers[0].url()).await;
        Some(Self { servers, way, locker, plain })
    }

    async fn lock(&self, lease: Duration) -> Guard {
        within("free", self.locker.lock("x").lease(lease)).await.expect("granted")
    }

    /// Unlocks. The release is written and lost on its way. The caller then cuts the connection.
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
    assert_eq!(lost.why, LossReason::Gone);
}

#[tokio::test]
async fn an_unlock_whose_answer_is_lost_is_asked_again_and_true() {
    for layout in LAYOUTS {
        let Some(setup) = CutSetup::start(layout, &ServerOptions::default()).await else { return };
        let guard = setup.lock(LONG_LEASE).await;
        setup.way.lose(Way::Replies);
        let unlocking = tokio::spawn(guard.unlock());
        setup.free().await;
        setup.cut();
        within("an answer", unlocking).await.expect("no panic").expect("given back");
    }
}

#[tokio::test]
async fn an_unlock_that_never_arrived_is_asked_again_and_gives_back() {
    for layout in LAYOUTS {
        let Some(setup) = CutSetup::start(layout, &ServerOptions::default()).await else { return };
        let guard = setup.lock(LONG_LEASE).await;
        let unlocking = setup.unlock_unheard(guard).await;
        assert!(setup.plain.exists("x").await, "still held");
        setup.cut();
        within("an answer", unlocking).await.expect("no panic").expect("given back");
        assert!(!setup.plain.exists("x").await);
    }
}

/// Otherwise a repeat would hide that the server has forgotten the lock.
#[tokio::test]
async fn an_unlock_that_meets_a_server_which_forgot_the_lock_tells_of_the_loss() {
    let Some(setup) = CutSetup::start(Layout::Redisson, &ServerOptions::default()).await else {
        return;
    };
    let guard = setup.lock(LONG_LEASE).await;
    let unlocking = setup.unlock_unheard(guard).await;
    setup.servers[0].restart_empty().expect("ours");
    setup.cut();
    assert_lost(within("an answer", unlocking).await.expect("no panic"));
}

/// Both the release and its repeat are written after the server has forgotten the lock.
#[tokio::test]
async fn a_restart_before_the_release_is_told_as_well() {
    let Some(setup) = CutSetup::start(Layout::Redisson, &ServerOptions::default()).await else {
        return;
    };
    let guard = setup.lock(LONG_LEASE).await;
    setup.servers[0].restart_empty().expect("ours");
    // This uses the connection on which the release will be sent.
    eventually("connected again", async || setup.locker.mutex("y").is_locked().await.ok()).await;
    let unlocking = setup.unlock_unheard(guard).await;
    setup.cut();
    assert_lost(within("an answer", unlocking).await.expect("no panic"));
}

/// The lease may have ended by itself, so the client cannot know that the first release freed the
/// lock.
#[tokio::test]
async fn a_repeat_after_the_window_tells_of_a_loss() {
    let Some(setup) = CutSetup::start(Layout::Redisson, &ServerOptions::default()).await else {
        return;
    };
    let guard = setup.lock(Duration::from_secs(2)).await;
    let unlocking = setup.unlock_unheard(guard).await;
    setup.free().await;
    setup.cut();
    assert_lost(within("an answer", unlocking).await.expect("no panic"));
}

/// The connection is cut between the command that frees the lock and the message that publishes it
/// (decision 0005).
#[tokio::test]
async fn a_repeat_tells_programs_that_know_of_no_queue() {
    let Some(setup) = CutSetup::start(Layout::Redisson, &ServerOptions::default()).await else {
        return;
    };
    let guard = setup.lock(LONG_LEASE).await;
    let mut listener = setup.plain.listen("redisson_lock__channel:{x}").await;
    let unlocking = setup.unlock_unheard(guard).await;
    // This has the same effect as if only the first command of the release had arrived.
    assert_eq!(setup.plain.ask::<u32>(&["DEL", "x"]).await, 1);
    setup.cut();
    within("an answer", unlocking).await.expect("no panic").expect("given back");
    assert_eq!(within("told", listener.next()).await, "0");
}

/// A server's script cache is emptied again and again. In addition the user may not load scripts.
#[tokio::test]
async fn what_finds_no_script_twice_is_sent_as_text() {
    for layout in LAYOUTS {
        let Some(setup) = CutSetup::start(layout, &ServerOptions::default()).await else { return };
        let guard = setup.lock(LONG_LEASE).await;
        assert!(setup.locker.mutex("x").is_locked().await.expect("an answer"));
        setup.plain.ask::<String>(&["ACL", "SETUSER", "default", "-script|load"]).await;
        setup.plain.ask::<String>(&["SCRIPT", "FLUSH"]).await;
        assert!(
            within("an answer", setup.locker.mutex("x").is_locked()).await.expect("asked as text")
        );
        setup.plain.ask::<String>(&["SCRIPT", "FLUSH"]).await;
        within("an answer", guard.unlock()).await.expect("released, by a script or not");
        assert!(
            !setup.locker.mutex("x").force_unlock().await.expect("asked as text"),
            "it was free"
        );
    }
}

/// An unlock waits for an unreachable server for at most twice the answer timeout.
#[tokio::test]
async fn an_unlock_is_not_awaited_for_ever_and_goes_on_in_the_background() {
    let Some(setup) = CutSetup::start(Layout::Redisson, &ServerOptions::default()).await else {
        return;
    };
    let builder = builder().answer_timeout(Duration::from_millis(200));
    let locker = builder.on(quorumlock::Servers::single(setup.way.url())).expect("a good URL");
    let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
    let unlocking = setup.unlock_unheard(guard).await;
    let told = within("an answer", unlocking).await.expect("no panic");
    assert!(matches!(told, Err(Error::Unreachable(_))), "{told:?}");
    assert!(setup.plain.exists("x").await, "still held");
    setup.cut();
    setup.free().await;
    drop(locker);
}
