//! `RedissonRedLock` on five servers, and quorumlock in Redisson's layout on the same quorum.

use std::time::Duration;

use crate::client::Client;
use crate::redisson::beside_redisson;
use crate::testbed::{LONG_LEASE, Testbed, comes_after};

beside_redisson! {
    each_refuses_what_the_other_holds_and_comes_after_its_release,
    one_server_may_be_down,
}

const NAME: &str = "invoice/7";
const NOW: Duration = Duration::ZERO;

async fn start(redisson: &str) -> Option<Testbed> {
    Testbed::start(redisson, "redisson", 5, LONG_LEASE).await
}

async fn each_refuses_what_the_other_holds_and_comes_after_its_release(redisson: &str) {
    let Some(bed) = start(redisson).await else { return };
    let (ours, theirs) = bed.both().await;
    takes_turns(&bed, &ours, &theirs).await;
}

/// Our release notifies their waiter. Our waiter polls.
async fn takes_turns(bed: &Testbed, ours: &Client, theirs: &Client) {
    let (ours, theirs) = (ours.caller("a", NAME), theirs.caller("b", NAME));
    theirs.lock().await.granted();
    ours.try_lock(NOW).await.refused();
    let release = async {
        bed.awaits_ours(NAME).await;
        theirs.unlock().await.granted();
    };
    comes_after("ours", ours.lock(), release).await.granted();

    theirs.try_lock(NOW).await.refused();
    let release = async {
        bed.awaits_listeners(NAME, 1).await;
        ours.unlock().await.granted();
    };
    comes_after("theirs", theirs.lock(), release).await.granted();
    theirs.unlock().await.granted();
}

async fn one_server_may_be_down(redisson: &str) {
    let Some(bed) = start(redisson).await else { return };
    let (ours, theirs) = bed.both().await;
    bed.servers[4].kill().expect("ours");
    takes_turns(&bed, &ours, &theirs).await;
}
