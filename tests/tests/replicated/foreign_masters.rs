//! Two masters in one list, neither of which was promoted over the other: a replica that came back
//! without `replicaof` (docs/PROTOCOL.md REP4).

use quorumlock::{Admission, Builder, Layout, Locker, NodeProblem};
use quorumlock_protocol::admission::members::CLOCK_BOUND;
use quorumlock_protocol::admission::{AdmissionRpc as _, ClusterConfig};
use quorumlock_protocol::{Node as _, Settings};
use quorumlock_redis::{master_list, redis_master};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, eventually, granted, within};
use quorumlock_watchdog::Clock;

use crate::{NAME, follow, long_timeouts, refusal};

/// Two servers, each of which is a master of its own. The first one in the list is down.
fn foreign_masters() -> Option<Servers> {
    let servers = for_test(2, &ServerOptions::default())?;
    servers[0].kill().expect("ours");
    Some(servers)
}

fn locker(servers: &Servers, strict: bool) -> Locker {
    let builder = match strict {
        true => long_timeouts().admission(Admission::Strict),
        false => long_timeouts(),
    };
    builder.on(quorumlock::Servers::replicated(servers.urls())).expect("good URLs")
}

/// The problem of a locker that has used neither master, once both have answered in time.
async fn refused_newcomer(servers: &Servers, strict: bool) -> NodeProblem {
    eventually("both masters answer in time", async || {
        let newcomer = locker(servers, strict);
        within("an answer", newcomer.lock(NAME).fail_fast()).await.err()?;
        let problem = refusal(&newcomer).await;
        matches!(problem, NodeProblem::MastersDisagree(_)).then_some(problem)
    })
    .await
}

/// A program stays where it was, and a new one is refused: no two of them hold one name.
#[tokio::test]
async fn a_new_program_is_refused_and_an_old_one_stays_where_it_was() {
    let Some(servers) = foreign_masters() else { return };
    let elder = locker(&servers, false);
    let guard = within("free", elder.lock(NAME)).await.expect("granted");
    servers[0].restart_empty().expect("ours");
    let there = Plain::to(servers[1].url()).await;
    there.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    let there = Plain::to(servers[1].url()).await;
    drop(granted(&elder, "other").await);
    within("an answer", guard.renew()).await.expect("at the same master");
    let NodeProblem::MastersDisagree(masters) = refused_newcomer(&servers, false).await else {
        unreachable!("checked");
    };
    for url in servers.urls() {
        assert!(masters.contains(&url), "{masters}");
    }
    assert!(there.exists(NAME).await && guard.check().is_ok());
    let back = Plain::to(servers[0].url()).await;
    assert!(!back.exists(NAME).await, "nothing is locked there");
    follow(&back, servers[1].addr().expect("ours").port()).await;
    let newcomer = locker(&servers, false);
    assert!(within("an answer", newcomer.try_lock(NAME)).await.expect("asked").is_none());
    guard.unlock().await.expect("held");
}

/// A master that proves its memory, and one that is new: the new one is not founded.
#[tokio::test]
async fn under_admission_a_stranger_is_neither_taken_nor_founded() {
    let Some(servers) = foreign_masters() else { return };
    let elder = locker(&servers, true);
    elder.admit_nodes().await.expect("the second server answers");
    let guard = within("free", elder.lock(NAME)).await.expect("granted");
    servers[0].restart_empty().expect("ours");
    refused_newcomer(&servers, true).await;
    assert_eq!(guard.check(), Ok(()));
}

/// A locker that has met the new master alone founds it only while no other address is a master, or
/// shows the record of a cluster.
#[tokio::test]
async fn a_master_is_admitted_only_while_no_other_address_may_have_the_locks() {
    let Some(servers) = for_test(2, &ServerOptions::default()) else { return };
    let urls = servers.urls();
    Builder::without_servers()
        .admission(Admission::Strict)
        .on(quorumlock::Servers::single(&urls[1]))
        .expect("a good URL")
        .admit_nodes()
        .await
        .expect("it answers");
    servers[1].pause().expect("ours");
    let settings = Settings::default();
    let cluster = ClusterConfig {
        prefix: "quorumlock".into(),
        members: master_list(&urls, None).expect("good URLs"),
        longest: settings.max_lease,
        clock_bound: CLOCK_BOUND,
        replicated: true,
    };
    let of = (Layout::Redisson, Some(&cluster));
    let node = redis_master(&urls, of, &settings, &Clock::system()).expect("good URLs");
    let shown = eventually("the first one answers", async || node.node_info().await.ok()).await;
    assert_eq!(shown.memory.record, None, "{} is new", node.label());
    node.stands_alone(true).await.expect("the other one is silent");
    servers[1].resume().expect("ours");
    let rival = async || {
        eventually("the other one answers", async || node.stands_alone(true).await.err()).await
    };
    let disagree = |problem: &NodeProblem| matches!(problem, NodeProblem::MastersDisagree(_));
    assert!(disagree(&rival().await.problem));
    // A replica of a server that is not in the list, with the record of a cluster.
    let other = Plain::to(&urls[1]).await;
    other.ask::<String>(&["REPLICAOF", "127.0.0.1", "1"]).await;
    assert!(disagree(&rival().await.problem));
    node.stands_alone(false).await.expect("a copy of an earlier master, after a failover");
}
