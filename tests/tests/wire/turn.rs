//! A waiter's turn on a quorum: it stands in line at the name's gate, and keeps a turn that was in vain
//! (SAFETY.md d1).

use std::future::IntoFuture as _;

use quorumlock::Wire;
use quorumlock_tests::{Plain, eventually, within};

use crate::{LONG, Quorum, WIRES, deletes_if_equal, plain_quorum, slow_log};

const NAME: &str = "invoice/7";
const WAITERS: &str = "redisson_lock_waiters:{invoice/7}";

#[tokio::test]
async fn a_turn_in_vain_goes_on_and_wakes_nobody() {
    for wire in WIRES {
        let Some(quorum) = Quorum::start(3, wire).await else { return };
        let (locker, plain) = quorum.clients();
        for node in &plain {
            held_by_another(node, wire).await;
        }
        let mut waiting = Box::pin(locker.lock(NAME).lease(LONG).into_future());
        let gate = tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            gate = one_with_a_queue(&plain) => gate,
        };
        let at = &plain[gate];
        let ours = queue(at).await.remove(0);
        let mut next = at.listen(&channel_of("next")).await;
        at.ask::<i64>(&["ZADD", WAITERS, &i64::MAX.to_string(), "next"]).await;

        // Its turn comes, and others hold the majority.
        at.ask::<i64>(&["DEL", NAME]).await;
        at.ask::<i64>(&["ZREM", WAITERS, &ours]).await;
        at.ask::<i64>(&["PUBLISH", &channel_of(&ours), NAME]).await;
        let back = eventually("in vain", async || {
            let there = queue(at).await == [&*ours, "next"] && !at.exists(NAME).await;
            there.then_some(())
        });
        tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            () = back => {}
        }
        for (other, node) in plain.iter().enumerate() {
            assert_eq!(node.exists(WAITERS).await, other == gate, "it stands at the gate alone");
        }
        at.ask::<i64>(&["PUBLISH", &channel_of("next"), "nothing"]).await;
        assert_eq!(next.next().await, "nothing", "it was not woken before");

        for node in &plain {
            node.ask::<i64>(&["DEL", NAME]).await;
        }
        let guard = within("it looks", waiting).await.expect("free");
        guard.unlock().await.expect("held");
        assert_eq!(next.next().await, NAME);
    }
}

/// Where the gate does not answer, those get the lock in the end who stand elsewhere.
#[tokio::test]
async fn without_a_gate_waiters_stand_at_the_other_nodes() {
    for wire in WIRES {
        let Some(quorum) = Quorum::start(3, wire).await else { return };
        let (locker, plain) = quorum.clients();
        let guard = locker.lock(NAME).lease(LONG).await.expect("free");
        let mut waiting =
            Box::pin(plain_quorum(wire, quorum.servers.urls()).lock(NAME).into_future());
        let gate = tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            gate = one_with_a_queue(&plain) => gate,
        };
        quorum.servers[gate].kill().expect("a process");
        let others: Vec<_> = (0..3).filter(|node| *node != gate).collect();
        let stands = eventually("in line", async || {
            let mut all = true;
            for other in &others {
                all &= plain[*other].exists(WAITERS).await;
            }
            all.then_some(())
        });
        tokio::select! {
            biased;
            answer = &mut waiting => panic!("it is held: {answer:?}"),
            () = stands => {}
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
    let looked_at = async || {
        for node in &plain {
            let _: Option<String> = node.send(&["SLOWLOG", "RESET"]).await.ok();
        }
        within("free", locker.lock(NAME)).await.expect("granted").unlock().await.expect("held");
        let mut found = Vec::new();
        for (at, node) in plain.iter().enumerate() {
            let Ok(_) = node.send::<String>(&["PING"]).await else { continue };
            let looked = slow_log(node).await.iter().any(|sent| *sent == ["EXISTS", WAITERS]);
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
        let queues = format!("redisson_lock_waiters:{{{name}}}");
        eventually("in one line", async || {
            let mut lengths = Vec::new();
            for node in &plain {
                lengths.push(node.ask::<u32>(&["ZCARD", &queues]).await);
            }
            lengths.sort_unstable();
            (lengths == [0, 0, 2]).then_some(())
        })
        .await;
        guard.unlock().await.expect("held");
        for waiter in waiting {
            within("its turn", waiter).await.expect("no panic");
        }
    }
}

async fn held_by_another(node: &Plain, wire: Wire) {
    match wire {
        Wire::Redlock => {
            node.ask::<String>(&["SET", NAME, "another", "PX", "60000"]).await;
        }
        _ => {
            node.ask::<i64>(&["HSET", NAME, "another:1", "1"]).await;
            node.ask::<i64>(&["PEXPIRE", NAME, "60000"]).await;
        }
    }
}

async fn one_with_a_queue(plain: &[Plain]) -> usize {
    eventually("in line", async || {
        let mut with = None;
        for (at, node) in plain.iter().enumerate() {
            if node.exists(WAITERS).await {
                assert!(with.replace(at).is_none(), "it stands at one node");
            }
        }
        with
    })
    .await
}

async fn queue(node: &Plain) -> Vec<String> {
    node.ask(&["ZRANGE", WAITERS, "0", "-1"]).await
}

fn channel_of(id: &str) -> String {
    format!("redisson_lock__channel:waiter:{id}")
}
