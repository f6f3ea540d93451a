//! Waiters poll, because they do not rely on messages (SAFETY.md H22). A waiter that polls lets
//! notified waiters go first.

use std::future::IntoFuture as _;
use std::time::Duration;

use quorumlock::Layout;
use quorumlock_tests::{eventually, within};

use crate::{LONG_LEASE, Node};

/// An entry of the slow log.
type Entry = (i64, i64, i64, Vec<String>, String, String);

/// Without this rule most grants would go to waiters that merely poll.
#[tokio::test]
async fn who_looks_leaves_the_turn_to_others_while_the_lease_moves_on() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.by_script(Layout::Redisson);
    plain.ask::<String>(&["CONFIG", "SET", "slowlog-max-len", "100000"]).await;
    plain.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
    let (other, _) = node.by_script(Layout::Redisson);
    let waiting = tokio::spawn(other.lock("x").lease(LONG_LEASE).into_future());
    let looks = async || {
        let log: Vec<Entry> = plain.ask(&["SLOWLOG", "GET", "100000"]).await;
        let asked = log.into_iter().rev().map(|(_, _, _, command, _, _)| command);
        // A waiter's attempt has the queue among its keys. The seventh argument says whether others
        // go first. After it there may be the waiter's former queue member.
        let looks = asked.filter(|command| command.len() >= 13 && command[2] == "3");
        let looks = looks.map(|mut all| all.remove(12));
        looks.collect::<Vec<String>>()
    };
    // Renewals and other holders move the expiry in the same way. The loop repeats this, because
    // the waiter may be notified between two polls.
    let mut lease = LONG_LEASE;
    eventually("it lets others go first", async || {
        lease += Duration::from_secs(1);
        plain.ask::<u32>(&["PEXPIRE", "x", &lease.as_millis().to_string()]).await;
        looks().await.iter().any(|look| look == "1").then_some(())
    })
    .await;
    eventually("and no longer, since nothing moves", async || {
        (looks().await.last()? == "0").then_some(())
    })
    .await;
    guard.unlock().await.expect("held");
    let next = within("the freed lock", waiting).await.expect("no panic").expect("granted");
    next.unlock().await.expect("held");
}
