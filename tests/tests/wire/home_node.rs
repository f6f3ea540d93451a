//! Waiters on a quorum: a waiter queues at the name's home node, and keeps its place if it is
//! notified in vain (PROTOCOL.md W7).

use std::future::IntoFuture as _;
use std::time::Duration;

use quorumlock::Layout;
use quorumlock_tests::{Plain, Proxy, eventually, waiters, within};

use crate::members::{self, Sign, channel_of};
use crate::{LAYOUTS, LONG_LEASE, Quorum, is_asked, plain_quorum, slow_log};

const NAME: &str = "invoice/7";
/// A holder as Redisson writes it.
const ANOTHER: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:1";

#[tokio::test]
async fn a_turn_in_vain_goes_on_and_wakes_nobody() {
    for layout in LAYOUTS {
        let Some(quorum) = Quorum::start(3, layout).await else { return };
        let mut names = names();
        eventually("only at the gate", async || {
            let name = names.next()?;
            is_queued_at_home_alone(&quorum, (layout, &name)).await.then_some(())
        })
        .await;
    }
}

/// Three times two ways are less than the longest wait for a home node, 250 ms.
const ONE_WAY: Duration = Duration::from_millis(30);

/// A busy machine takes less for a turn in vain.
const IN_VAIN_WITHIN: Duration = Duration::from_secs(4);

/// Whether the waiter is queued at the home node alone, both after its first refusal and after a
/// notification in vain. `false` if the home node was slow just then, or the waiter polled just
/// then.
///
/// The nodes are far for the waiter. A client waits three times as long for a home node as one
/// usually takes, so it awaits this home node on a loaded machine as well (PROTOCOL.md W7).
async fn is_queued_at_home_alone(quorum: &Quorum, (layout, name): (Layout, &str)) -> bool {
    let far = |node: usize| Proxy::delayed(quorum.servers[node].addr().expect("ours"), ONE_WAY);
    let ways = [0, 1, 2].map(far);
    let locker = plain_quorum(layout, ways.each_ref().map(Proxy::url));
    let (_, plain) = quorum.clients();
    // It connects to the nodes and learns how long they take.
    within("free", locker.lock("first")).await.expect("granted").unlock().await.expect("held");
    for node in &plain {
        held_by_another(node, (layout, name)).await;
    }
    let (gate, waiters) = (quorum.home(name).await, waiters(name));
    let at = &plain[gate];
    let mut waiting = Box::pin(locker.lock(name).lease(LONG_LEASE).into_future());
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("it is held: {answer:?}"),
        () = awaits_queued(at, name) => {}
    }
    let stood = queued_at(&plain, name).await;
    if stood != [gate] {
        return false;
    }
    let ours = members::all(at, &waiters).await.remove(0);
    let behind = format!("next {}", members::kind_of(layout));
    let mut next = members::waiter(at, &waiters, &behind, members::LATE, Sign::NOW).await;

    // The waiter is notified while others hold the majority.
    at.ask::<i64>(&["DEL", name]).await;
    at.ask::<i64>(&["ZREM", &waiters, &ours]).await;
    at.ask::<i64>(&["PUBLISH", &channel_of(&ours), name]).await;
    let back = async {
        while members::all(at, &waiters).await != [&*ours, &*behind] || at.exists(name).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("it is held: {answer:?}"),
        // A poll of the waiter that came between these requests has made it another member.
        back = tokio::time::timeout(IN_VAIN_WITHIN, back) => if back.is_err() {
            return false;
        },
    }
    let queued = queued_at(&plain, name).await;
    at.ask::<i64>(&["PUBLISH", &channel_of(&behind), "nothing"]).await;
    // It was not woken before.
    if queued != [gate] || next.next().await != "nothing" {
        return false;
    }

    // The home node is free: what is there is a vote for the waiter, which may poll at any time.
    for other in (0..3).filter(|node| *node != gate) {
        plain[other].ask::<i64>(&["DEL", name]).await;
    }
    let guard = within("it looks", waiting).await.expect("free");
    guard.unlock().await.expect("held");
    assert_eq!(next.next().await, name);
    true
}

/// If the home node does not answer, a waiter queues at another node, and gets the lock there.
#[tokio::test]
async fn without_a_gate_a_waiter_stands_at_another_node() {
    for layout in LAYOUTS {
        let Some(quorum) = Quorum::start(3, layout).await else { return };
        let (locker, plain) = quorum.clients();
        let guard = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
        let mut waiting =
            Box::pin(plain_quorum(layout, quorum.servers.urls()).lock(NAME).into_future());
        let stands = async || queued_at(&plain, NAME).await.first().copied();
        let gate = tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            gate = eventually("in line", stands) => gate,
        };
        quorum.servers[gate].kill().expect("a process");
        let others = (0..3).filter(|node| *node != gate);
        let stand = others.map(|other| Box::pin(awaits_queued(&plain[other], NAME)));
        tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            _ = futures::future::select_all(stand) => {}
        }
        guard.unlock().await.expect("held by two");
        let _guard = within("its turn", waiting).await.expect("free");
    }
}

/// A caller that is granted by the others leaves the queue of the home node, which refused it: its
/// process may have ended when it is notified there.
#[tokio::test]
async fn a_caller_that_wins_without_the_home_node_leaves_its_queue() {
    for layout in LAYOUTS {
        let Some((quorum, home)) = held_on_all(layout).await else { return };
        let (locker, plain) = quorum.clients();
        let mut waiting = Box::pin(locker.lock(NAME).into_future());
        tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            () = awaits_queued(&plain[home], NAME) => {}
        }
        for other in (0..3).filter(|node| *node != home) {
            plain[other].ask::<i64>(&["DEL", NAME]).await;
        }
        let _guard = within("it polls", waiting).await.expect("two are free");
        eventually("left", async || queued_at(&plain, NAME).await.is_empty().then_some(())).await;
    }
}

/// The home node answers late, so that the caller is queued at all nodes. It is then granted by the
/// others, which it did not ask to enqueue it again, and leaves their queues, too.
#[tokio::test]
async fn a_caller_that_wins_leaves_the_queues_of_earlier_attempts() {
    for layout in LAYOUTS {
        let Some((quorum, home)) = held_on_all(layout).await else { return };
        let (locker, plain) = quorum.clients();
        let others: Vec<_> = (0..3).filter(|node| *node != home).map(|node| &plain[node]).collect();
        let mut waiting = Box::pin(locker.lock(NAME).into_future());
        let mut lease_ms = 100_000;
        let queued_everywhere = eventually("queued at all nodes", async || {
            // A waiter that sees that the lock changes hands asks the home node first.
            lease_ms += 10_000;
            plain[home].ask::<i64>(&["PEXPIRE", NAME, &lease_ms.to_string()]).await;
            for other in &others {
                other.ask::<String>(&["CLIENT", "PAUSE", "60000", "WRITE"]).await;
            }
            quorum.servers[home].pause().expect("ours");
            for other in &others {
                eventually("asked", async || is_asked(other).await.then_some(())).await;
            }
            quorum.servers[home].resume().expect("ours");
            plain[home].ask::<String>(&["PING"]).await;
            for other in &others {
                other.ask::<String>(&["CLIENT", "UNPAUSE"]).await;
            }
            (queued_at(&plain, NAME).await.len() == plain.len()).then_some(())
        });
        tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            () = queued_everywhere => {}
        }
        for other in &others {
            other.ask::<i64>(&["DEL", NAME]).await;
        }
        let _guard = within("it polls", waiting).await.expect("two are free");
        eventually("left", async || queued_at(&plain, NAME).await.is_empty().then_some(())).await;
    }
}

/// A quorum on which another client holds the lock, and its home node.
async fn held_on_all(layout: Layout) -> Option<(Quorum, usize)> {
    let quorum = Quorum::start(3, layout).await?;
    for node in &quorum.clients().1 {
        held_by_another(node, (layout, NAME)).await;
    }
    let home = quorum.home(NAME).await;
    Some((quorum, home))
}

/// A waiter that cannot reach the home node queues at other nodes (PROTOCOL.md W9).
#[tokio::test]
async fn a_release_looks_for_waiters_at_all_nodes() {
    let Some(quorum) = Quorum::start(3, Layout::Redlock).await else { return };
    let (locker, plain) = quorum.clients();
    for node in &plain {
        let guard = within("free", locker.lock(NAME)).await.expect("granted");
        let mut woken = members::waiter(node, &waiters(NAME), "other string", 1, Sign::NOW).await;
        guard.unlock().await.expect("held");
        assert_eq!(within("woken", woken.next()).await, NAME);
    }
}

/// The home node does not depend on the addresses by which clients know the servers, so all waiters
/// queue at one node.
#[tokio::test]
async fn waiters_stand_at_one_node_by_whatever_address_they_know_it() {
    let Some(quorum) = Quorum::start(3, Layout::Redlock).await else { return };
    let (locker, plain) = quorum.clients();
    let mut urls = quorum.servers.urls();
    urls.iter_mut().for_each(|url| *url = url.replace("127.0.0.1", "localhost"));
    let by_name = plain_quorum(Layout::Redlock, urls);
    for name in ["one", "two", "three", "four", "five"] {
        let guard = locker.lock(name).lease(LONG_LEASE).await.expect("free");
        let ours = [plain_quorum(Layout::Redlock, quorum.servers.urls()), by_name.clone()];
        // Either waiter may be first. Each releases the lock in its own task.
        let waiting = ours.map(|locker| {
            tokio::spawn(async move {
                let guard = locker.lock(name).lease(LONG_LEASE).await.expect("free");
                guard.unlock().await.expect("held");
            })
        });
        // A waiter whose home node was slow just then is queued at other nodes, too.
        eventually("in one line", async || {
            let mut longest = 0;
            for node in &plain {
                longest = longest.max(node.ask::<u32>(&["ZCARD", &waiters(name)]).await);
            }
            (longest == 2).then_some(())
        })
        .await;
        guard.unlock().await.expect("held");
        for waiter in waiting {
            within("its turn", waiter).await.expect("no panic");
        }
    }
}

/// A fresh locker knows the servers by their addresses when it begins to wait, and by their run ids
/// soon after. It queues at the same home node as all clients, and acts on a notification from
/// there. The test counts its requests to the home node. A waiter that leaves a free lock to others
/// first asks once more.
#[tokio::test]
async fn a_fresh_locker_takes_its_turn_at_the_gate_of_all() {
    let Some(quorum) = Quorum::start(5, Layout::Redlock).await else { return };
    let (holder, plain) = quorum.clients();
    for node in &plain {
        node.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    }
    let (mut asked, mut at_home) = (Vec::new(), 0);
    for name in names().take(24) {
        let gate = &plain[quorum.home(&name).await];
        let guard = holder.lock(&name).lease(LONG_LEASE).await.expect("free");
        let fresh = plain_quorum(Layout::Redlock, quorum.servers.urls());
        let waiting = {
            let name = name.clone();
            tokio::spawn(async move { fresh.lock(&name).lease(LONG_LEASE).await })
        };
        // A home node that is slow to connect is passed by, and asked by a poll only.
        eventually("in line", async || (!queued_at(&plain, &name).await.is_empty()).then_some(()))
            .await;
        let queued = awaits_queued(gate, &name);
        at_home += u32::from(tokio::time::timeout(IN_LINE_WITHIN, queued).await.is_ok());
        gate.ask::<String>(&["SLOWLOG", "RESET"]).await;
        guard.unlock().await.expect("held");
        let guard = within("its turn", waiting).await.expect("no panic").expect("free");
        let queue = waiters(&name);
        let asks = |sent: &&Vec<String>| sent[0] == "EVALSHA" && sent[2] == "3" && sent[5] == queue;
        asked.push(slow_log(gate).await.iter().filter(asks).count());
        guard.unlock().await.expect("held");
    }
    // By its address each server would be the home node of one name in five.
    assert!(at_home >= 12, "{at_home} of 24");
    // On a loaded machine some waiters also poll.
    assert!(asked.iter().sum::<usize>() < 36, "{asked:?}");
}

/// A waiter whose home node answered in time is queued there at once.
const IN_LINE_WITHIN: Duration = Duration::from_secs(1);

/// Names for tests of the home node. A client treats a home node that takes longer than 3 ms, as it
/// may on a loaded machine, as absent, and its waiters queue at all nodes (PROTOCOL.md W7). Such a
/// test tries names until the home node answers in time.
fn names() -> impl Iterator<Item = String> {
    (1..).map(|number| format!("invoice/{number}"))
}

async fn held_by_another(node: &Plain, (layout, name): (Layout, &str)) {
    match layout {
        Layout::Redlock => {
            node.ask::<String>(&["SET", name, "another", "PX", "60000"]).await;
        }
        _ => {
            node.ask::<i64>(&["HSET", name, ANOTHER, "1"]).await;
            node.ask::<i64>(&["PEXPIRE", name, "60000"]).await;
        }
    }
}

async fn awaits_queued(node: &Plain, name: &str) {
    eventually("in line", async || node.exists(&waiters(name)).await.then_some(())).await;
}

/// The nodes where a waiter is queued.
async fn queued_at(plain: &[Plain], name: &str) -> Vec<usize> {
    let mut with = Vec::new();
    for (at, node) in plain.iter().enumerate() {
        with.extend(node.exists(&waiters(name)).await.then_some(at));
    }
    with
}
