//! Redlock's layout: redsync, node-redlock and pottery on five servers, redis-py on one.

use std::time::Duration;

use quorumlock::{Admission, Layout, Servers};
use quorumlock_tests::{builder, within};

use crate::client::Client;
use crate::contention::{Goal, contend};
use crate::testbed::{LONG_LEASE, Testbed, comes_after};

const NOW: Duration = Duration::ZERO;

/// A client, the name by which it shares a lock, and how many servers it locks on.
#[derive(Clone, Copy)]
struct Other(&'static str, &'static str, usize);

const REDSYNC: Other = Other("redsync", "invoice/7", 5);
const NODE_REDLOCK: Other = Other("node-redlock", "invoice/7", 5);
/// pottery puts `redlock:` before the name.
const POTTERY: Other = Other("python", "redlock:invoice/7", 5);
const REDIS_PY: Other = Other("python", "invoice/7", 1);

/// Makes each function a test of its own beside this client.
macro_rules! beside {
    ($module:ident, $other:ident: $($test:ident),*) => {
        mod $module { $(#[tokio::test] async fn $test() { super::$test(super::$other).await })* }
    };
}

beside!(redsync, REDSYNC: each_refuses_what_the_other_holds, each_comes_after_the_others_release, one_server_may_be_down);
beside!(node_redlock, NODE_REDLOCK: each_refuses_what_the_other_holds, each_comes_after_the_others_release, one_server_may_be_down);
beside!(pottery, POTTERY: each_refuses_what_the_other_holds, each_comes_after_the_others_release, one_server_may_be_down);
beside!(redis_py, REDIS_PY: each_refuses_what_the_other_holds, each_comes_after_the_others_release);

/// node-redlock's lock of several resources, and our lock of several names: each excludes the other on any
/// name that both have, and single locks of it. What is refused takes nothing.
#[tokio::test]
async fn several_names_beside_several_resources() {
    let Some(bed) = start(NODE_REDLOCK).await else { return };
    let locker = builder().layout(Layout::Redlock).admission(Admission::Redlock);
    let ours = locker.on(Servers::quorum(bed.servers.urls())).expect("good URLs");
    let client = bed.theirs().await;
    let (both, other) = (client.caller("a", "x+y"), client.caller("b", "y+z"));

    both.lock().await.granted();
    for name in ["x", "y"] {
        assert!(ours.try_lock(name).await.expect("an answer").is_none(), "{name} twice");
    }
    assert!(ours.try_lock(["y", "z"]).await.expect("an answer").is_none(), "y twice");
    both.extend().await.granted();
    both.unlock().await.granted();

    let set = within("free names", ours.lock(["y", "x"])).await.expect("free");
    other.try_lock(NOW).await.refused();
    client.caller("c", "x").try_lock(NOW).await.refused();
    let free = within("a free name", ours.lock("z")).await.expect("nothing of theirs is left");
    free.unlock().await.expect("held");
    set.unlock().await.expect("held");
    other.lock().await.granted();
    other.unlock().await.granted();
}

async fn start(Other(program, _, servers): Other) -> Option<Testbed> {
    Testbed::start(program, "redlock", servers, LONG_LEASE).await
}

async fn each_refuses_what_the_other_holds(other: Other) {
    let Some(bed) = start(other).await else { return };
    let (ours, theirs) = bed.both().await;
    takes_turns(&ours, &theirs, other.1).await;
}

async fn takes_turns(ours: &Client, theirs: &Client, name: &str) {
    let (ours, theirs) = (ours.caller("a", name), theirs.caller("b", name));
    for _ in 0..3 {
        theirs.lock().await.granted();
        ours.try_lock(NOW).await.refused();
        theirs.extend().await.granted();
        assert!(theirs.holds().await);
        theirs.unlock().await.granted();

        ours.lock().await.granted();
        theirs.try_lock(NOW).await.refused();
        assert!(ours.holds().await);
        ours.unlock().await.granted();
    }
}

/// The other clients publish no releases and poll, so both sides poll: each waits far less than a
/// lease.
async fn each_comes_after_the_others_release(other: Other) {
    let Some(bed) = start(other).await else { return };
    let (ours, theirs) = bed.both().await;
    let (ours, theirs) = (ours.caller("a", other.1), theirs.caller("b", other.1));
    theirs.lock().await.granted();
    let release = async {
        bed.awaits_ours(other.1).await;
        theirs.unlock().await.granted();
    };
    comes_after("ours", ours.lock(), release).await.granted();
    let release = async {
        // The other clients leave no trace while they wait, so the test sleeps.
        tokio::time::sleep(Duration::from_millis(200)).await;
        ours.unlock().await.granted();
    };
    comes_after("theirs", theirs.lock(), release).await.granted();
}

async fn one_server_may_be_down(other: Other) {
    let Some(bed) = start(other).await else { return };
    let (ours, theirs) = bed.both().await;
    bed.servers[4].kill().expect("ours");
    takes_turns(&ours, &theirs, other.1).await;
}

#[tokio::test]
async fn all_of_them_share_a_name() {
    // Some of them do not release the grants of a failed attempt: these keys stay until their
    // leases end (docs/INTEROP.md).
    let lease = Duration::from_secs(3);
    let Some(bed) = Testbed::start("redsync", "redlock", 5, lease).await else { return };
    let (redsync, node_redlock, pottery) =
        tokio::join!(bed.theirs(), bed.other("node-redlock"), bed.other("python"));
    let (one, two) = tokio::join!(bed.ours(), bed.ours());
    let name = "redlock:invoice/7";
    let callers = [
        redsync.caller("redsync", name),
        node_redlock.caller("node-redlock", name),
        pottery.caller("pottery", name),
        one.caller("ours-1", name),
        two.caller("ours-2", name),
    ];
    let (shares, errors) = contend(&callers, Goal { total: 300, each: 1, one_of: None }).await;
    eprintln!("{shares:?}, {errors} errors");
}
