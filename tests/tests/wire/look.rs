//! Waiters look by themselves, since no message is relied upon (SAFETY.md H22), and who looks is not the
//! one whose turn it is.

use std::future::IntoFuture as _;
use std::time::Duration;

use quorumlock::Wire;
use quorumlock_tests::{eventually, within};

use crate::{LONG, Node};

/// Of the log of slow commands.
type Entry = (i64, i64, i64, Vec<String>, String, String);

/// More than half of all grants went to somebody who just looked.
#[tokio::test]
async fn who_looks_leaves_the_turn_to_others_while_the_lease_moves_on() {
    let Some(node) = Node::start(Wire::Redisson).await else { return };
    let (locker, plain) = node.by_script(Wire::Redisson);
    plain.ask::<String>(&["CONFIG", "SET", "slowlog-max-len", "100000"]).await;
    plain.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    let guard = within("free", locker.lock("x").lease(LONG)).await.expect("granted");
    let (other, _) = node.by_script(Wire::Redisson);
    let waiting = tokio::spawn(other.lock("x").lease(LONG).into_future());
    let looks = async || {
        let log: Vec<Entry> = plain.ask(&["SLOWLOG", "GET", "100000"]).await;
        let asked = log.into_iter().rev().map(|(_, _, _, command, _, _)| command);
        // With the queue among its keys: by somebody who waits. The seventh argument: whether others go first.
        // Behind it may be as what it stood there before.
        let looks = asked.filter(|command| command.len() >= 13 && command[2] == "3");
        let looks = looks.map(|mut all| all.remove(12));
        looks.collect::<Vec<String>>()
    };
    // As renewals do, or other holders: as often as it takes, since it may be woken between two looks.
    let mut lease = LONG;
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
