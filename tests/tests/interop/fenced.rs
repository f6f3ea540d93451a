//! Redisson's `RFencedLock`: its tokens and ours.

use quorumlock::FencingToken;
use quorumlock::fencing::FENCED_SET;
use quorumlock_tests::Plain;

use crate::client::Caller;
use crate::redisson::beside_redisson;
use crate::testbed::{LONG_LEASE, Testbed};

beside_redisson! {
    their_numbers_and_ours_are_one_row,
    our_counted_tokens_are_above_proposed_ones_and_theirs_are_not,
    a_resource_refuses_their_numbers_after_our_proposed_ones,
}

const NAME: &str = "invoice/7";

/// The token that Java's lock returns. The lock is released at once.
async fn theirs(caller: Caller<'_>) -> u64 {
    let token = number(caller.order("token", "").await.granted());
    caller.order("fenced:unlock", "").await.granted();
    token
}

async fn ours(caller: Caller<'_>) -> u64 {
    let token = number(caller.lock().await.granted());
    caller.unlock().await.granted();
    token
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

async fn their_numbers_and_ours_are_one_row(redisson: &str) {
    let Some(bed) = Testbed::start(redisson, "fenced", 1, LONG_LEASE).await else { return };
    let (one, java) = bed.both().await;
    let (java, one, two) = (java.caller("a", NAME), one.caller("b", NAME), one.caller("c", NAME));
    for begin in [1, 4, 7] {
        let row = [theirs(java).await, ours(one).await, ours(two).await];
        assert_eq!(row, [begin, begin + 1, begin + 2]);
    }
    // Waiters in one process are counted one by one, too.
    let rounds = async |caller: Caller<'_>| {
        for _ in 0..20 {
            ours(caller).await;
        }
    };
    futures::future::join(rounds(one), rounds(two)).await;
    assert_eq!(theirs(java).await, 50);
}

async fn our_counted_tokens_are_above_proposed_ones_and_theirs_are_not(redisson: &str) {
    let Some(bed) = Testbed::start(redisson, "fenced", 1, LONG_LEASE).await else { return };
    let (counting, java) = bed.both().await;
    let proposing = bed.in_layout("redisson").await;
    let (java, counting) = (java.caller("a", NAME), counting.caller("b", NAME));
    let proposing = proposing.caller("c", NAME);
    let mut last = theirs(java).await;
    for _ in 0..3 {
        for caller in [counting, proposing, counting] {
            let token = ours(caller).await;
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        // After a counted token Java's tokens continue the sequence.
        let token = theirs(java).await;
        assert_eq!(token, last + 1);
        last = token;
    }
    let proposed = ours(proposing).await;
    assert!(theirs(java).await < proposed);
}

async fn a_resource_refuses_their_numbers_after_our_proposed_ones(redisson: &str) {
    let Some(bed) = Testbed::start(redisson, "redisson", 1, LONG_LEASE).await else { return };
    let (we, java) = bed.both().await;
    let (java, we) = (java.caller("a", NAME), we.caller("b", NAME));
    let token = theirs(java).await;
    assert!(accepts(&bed.plain, token).await);
    let token = ours(we).await;
    assert!(accepts(&bed.plain, token).await);
    let token = theirs(java).await;
    assert!(!accepts(&bed.plain, token).await, "{token}");
}

/// Whether a resource that remembers the largest token accepts a write with this one.
async fn accepts(plain: &Plain, token: u64) -> bool {
    let token = FencingToken::new(token).to_string();
    let command = ["EVAL", FENCED_SET, "2", "invoice", "invoice:fence", &token, "paid"];
    let (written, _): (i64, String) = plain.ask(&command).await;
    written == 1
}
