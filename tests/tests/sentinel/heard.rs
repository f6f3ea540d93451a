use quorumlock::Servers;
use quorumlock_tests::promises::heard::each_kind_hears;

use crate::{Fleet, MASTER};

/// As the promise of [`quorumlock_tests::promises::heard`], on a master that sentinels name.
#[tokio::test]
async fn a_waiter_of_each_kind_hears_of_a_release() {
    let Some(fleet) = Fleet::start(1).await else { return };
    for strict_order in [false, true] {
        let builder = || fleet.builder().polls(false).strict_order(strict_order);
        let urls = || fleet.sentinels.urls();
        each_kind_hears(|| builder().on(Servers::sentinel(urls(), MASTER)).expect("good URLs"))
            .await;
    }
}
