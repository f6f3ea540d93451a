//! A waiter's turn on a quorum: it stands in line at the name's gate, and keeps a turn that was in vain
//! (SAFETY.md d1).

use std::future::IntoFuture as _;

use quorumlock::Wire;
use quorumlock_tests::{Plain, eventually, waiters, within};

use crate::{LONG, Quorum, WIRES, deletes_if_equal, plain_quorum, slow_log};

const NAME: &str = "invoice/7";
/// As Redisson writes a holder.
const ANOTHER: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:1";

#[tokio::test]
async fn a_turn_in_vain_goes_on_and_wakes_nobody() {
    for wire in WIRES {
        let Some(quorum) = Quorum::start(3, wire).await else { return };
        let mut names = names();
        eventually("only at the gate", async || {
            let name = names.next()?;
            stands_at_the_gate_alone(&quorum, (wire, &name)).await.then_some(())
        })
        .await;
    }
}

/// From its first refusal to a turn in vain and after it. Not if its gate was slow just then (see [`names`]).
async fn stands_at_the_gate_alone(quorum: &Quorum, (wire, name): (Wire, &str)) -> bool {
    let (locker, plain) = quorum.clients();
    for node in &plain {
        held_by_another(node, (wire, name)).await;
    }
    let (gate, waiters) = (quorum.gate(name).await, waiters(name));
    let at = &plain[gate];
    let mut waiting = Box::pin(locker.lock(name).lease(LONG).into_future());
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("it is held: {answer:?}"),
        () = in_line(at, name) => {}
    }
    let stood = stands(&plain, name).await;
    let ours = queue(at, &waiters).await.remove(0);
    let mut next = at.listen(&channel_of("next")).await;
    at.ask::<i64>(&["ZADD", &waiters, &i64::MAX.to_string(), "next"]).await;

    // Its turn comes, and others hold the majority.
    at.ask::<i64>(&["DEL", name]).await;
    at.ask::<i64>(&["ZREM", &waiters, &ours]).await;
    at.ask::<i64>(&["PUBLISH", &channel_of(&ours), name]).await;
    let back = eventually("in vain", async || {
        let there = queue(at, &waiters).await == [&*ours, "next"] && !at.exists(name).await;
        there.then_some(())
    });
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("it is held: {answer:?}"),
        () = back => {}
    }
    let stands = stands(&plain, name).await;
    at.ask::<i64>(&["PUBLISH", &channel_of("next"), "nothing"]).await;
    assert_eq!(next.next().await, "nothing", "it was not woken before");

    for node in &plain {
        node.ask::<i64>(&["DEL", name]).await;
    }
    let guard = within("it looks", waiting).await.expect("free");
    guard.unlock().await.expect("held");
    assert_eq!(next.next().await, name);
    stood == [gate] && stands == [gate]
}

/// Where the gate does not answer, those get the lock in the end who stand elsewhere.
#[tokio::test]
async fn without_a_gate_waiters_stand_at_the_other_nodes() {
    for wire in WIRES {
        let Some(quorum) = Quorum::start(3, wire).await else { return };
        let (locker, plain) = quorum.clients();
        let gate = quorum.gate(NAME).await;
        let guard = locker.lock(NAME).lease(LONG).await.expect("free");
        let mut waiting =
            Box::pin(plain_quorum(wire, quorum.servers.urls()).lock(NAME).into_future());
        tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            () = in_line(&plain[gate], NAME) => {}
        }
        quorum.servers[gate].kill().expect("a process");
        let others: Vec<_> = (0..3).filter(|node| *node != gate).collect();
        let stand =
            futures::future::join_all(others.iter().map(|other| in_line(&plain[*other], NAME)));
        tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            _ = stand => {}
        }
        guard.unlock().await.expect("held by two");
        let _guard = within("its turn", waiting).await.expect("free");
    }
}

/// Nobody stands at another node while the gate answers, so nobody is looked for there.
#[tokio::test]
async fn a_release_looks_for_waiters_at_the_gate_alone_while_it_answers() {
    let Some(quorum) = Quorum::start(3, Wire::Redlock).await else { return };
    let (locker, plain) = quorum.clients();
    if !deletes_if_equal(&plain[0]).await {
        return eprintln!("skipped: before Valkey 9 a script releases");
    }
    for node in &plain {
        node.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    }
    let looks_at = waiters(NAME);
    let looked_at = async || {
        for node in &plain {
            let _: Option<String> = node.send(&["SLOWLOG", "RESET"]).await.ok();
        }
        within("free", locker.lock(NAME)).await.expect("granted").unlock().await.expect("held");
        let mut found = Vec::new();
        for (at, node) in plain.iter().enumerate() {
            let Ok(_) = node.send::<String>(&["PING"]).await else { continue };
            let looked = slow_log(node).await.iter().any(|sent| *sent == ["EXISTS", &*looks_at]);
            found.extend(looked.then_some(at));
        }
        found
    };
    // Until it has answered before the release, which two others are enough for.
    let gate = eventually("one of them", async || match looked_at().await[..] {
        [gate] => Some(gate),
        _ => None,
    })
    .await;
    quorum.servers[gate].kill().expect("a process");
    let others: Vec<_> = (0..3).filter(|node| *node != gate).collect();
    eventually("the others", async || (looked_at().await == others).then_some(())).await;
}

/// The gate is the same for all, whatever they call the servers: a release looks there alone.
#[tokio::test]
async fn waiters_stand_at_one_node_by_whatever_address_they_know_it() {
    let Some(quorum) = Quorum::start(3, Wire::Redlock).await else { return };
    let (locker, plain) = quorum.clients();
    let mut urls = quorum.servers.urls();
    urls.iter_mut().for_each(|url| *url = url.replace("127.0.0.1", "localhost"));
    let by_name = plain_quorum(Wire::Redlock, urls);
    for name in ["one", "two", "three", "four", "five"] {
        let guard = locker.lock(name).lease(LONG).await.expect("free");
        let ours = [plain_quorum(Wire::Redlock, quorum.servers.urls()), by_name.clone()];
        // Whoever comes first gives it back by itself, whichever that is.
        let waiting = ours.map(|locker| {
            tokio::spawn(async move {
                let guard = locker.lock(name).lease(LONG).await.expect("free");
                guard.unlock().await.expect("held");
            })
        });
        // If the gate was slow just then, elsewhere, too.
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

/// It knows the servers by their addresses when it begins to wait, and by their run ids soon after: it stands at the
/// gate that all have, and takes a turn there for its own. Counted by how often it asks for it; one that leaves
/// the free lock to others first asks five times.
#[tokio::test]
async fn a_fresh_locker_takes_its_turn_at_the_gate_of_all() {
    let Some(quorum) = Quorum::start(5, Wire::Redlock).await else { return };
    let (holder, plain) = quorum.clients();
    for node in &plain {
        node.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
    }
    let mut asked = Vec::new();
    for name in names().take(24) {
        let gate = &plain[quorum.gate(&name).await];
        let guard = holder.lock(&name).lease(LONG).await.expect("free");
        let fresh = plain_quorum(Wire::Redlock, quorum.servers.urls());
        let waiting = {
            let name = name.clone();
            tokio::spawn(async move { fresh.lock(&name).lease(LONG).await })
        };
        in_line(gate, &name).await;
        gate.ask::<String>(&["SLOWLOG", "RESET"]).await;
        guard.unlock().await.expect("held");
        let guard = within("its turn", waiting).await.expect("no panic").expect("free");
        let queue = waiters(&name);
        let asks = |sent: &&Vec<String>| sent[0] == "EVALSHA" && sent[2] == "3" && sent[5] == queue;
        asked.push(slow_log(gate).await.iter().filter(asks).count());
        guard.unlock().await.expect("held");
    }
    // One or two more are those who look by themselves on a loaded machine.
    assert!(asked.iter().all(|times| (1..4).contains(times)), "{asked:?}");
}

/// A gate that takes longer than 3 ms, as it may on a loaded machine, is taken for none (SAFETY.md d1): whoever waits
/// stands at all nodes then. What is said of the gate alone is tried with names until it answers in time.
fn names() -> impl Iterator<Item = String> {
    (1..).map(|number| format!("invoice/{number}"))
}

async fn held_by_another(node: &Plain, (wire, name): (Wire, &str)) {
    match wire {
        Wire::Redlock => {
            node.ask::<String>(&["SET", name, "another", "PX", "60000"]).await;
        }
        _ => {
            node.ask::<i64>(&["HSET", name, ANOTHER, "1"]).await;
            node.ask::<i64>(&["PEXPIRE", name, "60000"]).await;
        }
    }
}

async fn in_line(node: &Plain, name: &str) {
    eventually("in line", async || node.exists(&waiters(name)).await.then_some(())).await;
}

/// The nodes where somebody stands in line.
async fn stands(plain: &[Plain], name: &str) -> Vec<usize> {
    let mut with = Vec::new();
    for (at, node) in plain.iter().enumerate() {
        with.extend(node.exists(&waiters(name)).await.then_some(at));
    }
    with
}

async fn queue(node: &Plain, waiters: &str) -> Vec<String> {
    node.ask(&["ZRANGE", waiters, "0", "-1"]).await
}

fn channel_of(id: &str) -> String {
    format!("quorumlock:waiter:{id}")
}
