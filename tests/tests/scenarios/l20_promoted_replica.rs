//! L20: a node is replaced, at its address, by a replica that has been up for long and lacks the
//! last writes (`SAFETY.md` H11).
//!
//! Plain Redlock: both hold, and nothing but their clocks orders their fencing tokens (A7). Strict
//! admission: the replica has the record and any uptime, but not the run that the record names; it counts for
//! nothing. A locker that connects while a replica is attached refuses the node by name: here the
//! replica comes after the lockers have connected, which they cannot see.

use quorumlock::{Admission, Error, NodeProblem, NodeReport};
use quorumlock_lab::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, Proxy, Way, eventually, mark_key};

use crate::ground::{Ground, Held, NAME, Redlock, STRUCK, Strict};

#[tokio::test]
async fn in_plain_redlock_both_hold_and_only_clocks_order_their_tokens() {
    let Some((held, _replica)) = strike(Redlock).await else { return };
    held.marks_are_lost().await;
    drop(held.is_violated().await);
}

#[tokio::test]
async fn under_strict_admission_the_replica_counts_for_nothing() {
    let Some((held, _replica)) = strike(Strict).await else { return };
    drop(held.is_safe().await);
}

async fn strike(mode: Admission) -> Option<(Held, Servers)> {
    // A synchronisation need not wait for more replicas to come.
    let options = ServerOptions {
        args: ["--repl-diskless-sync-delay", "0"].map(str::to_owned).to_vec(),
        ..Default::default()
    };
    let ground = Ground::start(mode, &options).await?;
    let replica = for_test(1, &options)?;
    let holder = ground.holder();
    // Both of its connections to each node: the release of a dropped guard has one of its own.
    drop(holder.lock("before").await.expect("free"));
    let master = ground.plain(STRUCK).await;
    eventually("released", async || (!master.exists("before").await).then_some(())).await;

    let stream = Proxy::to(ground.servers[STRUCK].addr().expect("ours"));
    let copy = follow(&replica, &stream).await;
    stream.hold(Way::Replies);
    if mode == Strict {
        refuses_a_node_with_replicas(&ground).await;
    }
    let held = ground.hold_by(holder).await;
    assert!(master.exists(NAME).await && !copy.exists(NAME).await, "the grant is not copied");
    copy.ask::<String>(&["REPLICAOF", "NO", "ONE"]).await;
    held.ground.servers[STRUCK].kill().expect("ours");
    held.ground.gates[STRUCK].lead_to(replica[0].addr().expect("ours"));
    Some((held, replica))
}

/// Attaches the replica by way of `stream`, and waits until it has everything.
async fn follow(replica: &Servers, stream: &Proxy) -> Plain {
    let copy = Plain::to(replica[0].url()).await;
    let port = stream.addr().port().to_string();
    copy.ask::<String>(&["REPLICAOF", "127.0.0.1", &port]).await;
    eventually("synchronised", async || {
        let info: String = copy.ask(&["INFO", "replication"]).await;
        info.contains("master_link_status:up").then_some(())
    })
    .await;
    assert!(copy.exists(mark_key(NAME)).await, "a full copy");
    copy
}

async fn refuses_a_node_with_replicas(ground: &Ground) {
    let newcomer = ground.holder().try_lock("another").await;
    let (Err(Error::Refused(why)) | Err(Error::Unreachable(why))) = newcomer else {
        panic!("not refused: {newcomer:?}")
    };
    let unfit = |node: &NodeReport| matches!(&node.problem, NodeProblem::Unfit(unfit) if unfit.what == "connected replicas");
    assert!(why.nodes.iter().any(unfit), "{why:?}");
}
