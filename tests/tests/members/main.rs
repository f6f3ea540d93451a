//! Which nodes belong to a cluster, on real servers (docs/PROTOCOL.md, Members).

mod earlier_memory;
mod scripts;
mod without_admission;

use std::time::Duration;

use quorumlock::admission::{ChangeStep, MemberChange, NodeStatus, NoteStep, Until};
use quorumlock::{Builder, Error, Locker, NodeProblem};
use quorumlock_testbed::servers::{Faketime, ServerOptions, Servers, Shift, for_test};
use quorumlock_testbed::skip;
use quorumlock_tests::{Plain, Stopwatch, eventually};

const MAX_LEASE: Duration = Duration::from_millis(600);
const PATIENT: Duration = Duration::from_secs(2);
const CLOCK_BOUND: Duration = Duration::from_millis(50);

fn builder() -> Builder {
    quorumlock_tests::builder()
        .admission(quorumlock::Admission::Strict)
        .lease(MAX_LEASE / 2)
        .max_lease(MAX_LEASE)
        .clock_bound(CLOCK_BOUND)
}

/// What a change of members needs.
fn operator(longest: Duration) -> Builder {
    Builder::without_servers().max_lease(longest).clock_bound(CLOCK_BOUND)
}

/// For locks that are held for a while: a loaded machine renews them in time.
fn patient() -> Builder {
    builder().lease(PATIENT / 2).max_lease(PATIENT)
}

fn locker(urls: &[String]) -> Locker {
    builder().on(quorumlock::Servers::quorum(urls)).expect("good URLs")
}

fn patient_locker(urls: &[String]) -> Locker {
    patient().on(quorumlock::Servers::quorum(urls)).expect("good URLs")
}

fn problems<T: std::fmt::Debug>(refused: Result<T, Error>) -> Vec<NodeProblem> {
    match refused {
        Err(Error::Refused(why)) => why.nodes.into_iter().map(|node| node.problem).collect(),
        other => panic!("not refused: {other:?}"),
    }
}

fn is_barred(problem: &NodeProblem) -> bool {
    matches!(problem, NodeProblem::OtherMembers { .. })
}

/// A process that asks once, and ends.
async fn short_process(urls: &[String]) -> bool {
    matches!(locker(urls).try_lock("x").await, Ok(Some(_)))
}

async fn awaits_granted(urls: &[String]) {
    eventually("a short process is granted", async || short_process(urls).await.then_some(()))
        .await;
}

/// Processes that end at their first error bring the nodes a step on, also while others are dead or
/// hung.
#[tokio::test]
async fn a_call_that_fails_writes_notes_before_it_ends() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let noted = async || {
        // No background makes a pass so soon.
        let builder = builder().max_lease(Duration::from_secs(60)).clock_bound(CLOCK_BOUND * 100);
        let locker = builder
            .answer_timeout(Duration::from_millis(400))
            .on(quorumlock::Servers::quorum(servers.urls()));
        let failed = locker.expect("good URLs").try_lock("x").await;
        let failed = failed.expect_err("nobody admitted the nodes");
        (failed, Plain::to(servers[2].url()).await.exists(RECORD).await)
    };
    let (failed, written) = noted().await;
    assert!(matches!(failed, Error::Refused(_)) && written, "{failed:?}");
    servers[2].restart_empty().expect("ours");
    servers[1].kill().expect("ours");
    servers[0].pause().expect("ours");
    eventually("a note", async || {
        let (failed, written) = noted().await;
        assert!(matches!(failed, Error::Unreachable(_)), "{failed:?}");
        written.then_some(())
    })
    .await;
}

/// PROTOCOL.md ADM2, MEM3, MEM4, MEM5: no process lives for the longest lease.
#[tokio::test]
async fn short_processes_alone_found_a_cluster_and_heal_it() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let urls = servers.urls();
    awaits_granted(&urls).await;
    for restarted in [&[2][..], &[0, 1, 2]] {
        let since = Stopwatch::start();
        for server in restarted {
            servers[*server].restart_empty().expect("ours");
        }
        awaits_granted(&urls).await;
        if restarted.len() == 3 {
            assert!(since.elapsed() >= MAX_LEASE, "{:?}", since.elapsed());
        }
    }
    eventually("all vote", async || {
        short_process(&urls).await;
        let nodes = locker(&urls).node_status().await.ok()?;
        nodes.iter().all(|node| node.is_admitted()).then_some(())
    })
    .await;
}

/// PROTOCOL.md MARK1: not once for each node that is admitted.
#[tokio::test]
async fn the_marks_of_a_node_are_read_once_when_a_cluster_is_founded() {
    let Some(servers) = for_test(5, &ServerOptions::default()) else { return };
    // No call is late, so that one pass founds the cluster.
    let locker = builder()
        .answer_timeout(Duration::from_secs(20))
        .on(quorumlock::Servers::quorum(servers.urls()));
    let locker = locker.expect("good URLs");
    let _guard = eventually("founded", async || locker.try_lock("x").await.ok().flatten()).await;
    for server in servers.iter() {
        let stats: String = Plain::to(server.url()).await.ask(&["INFO", "commandstats"]).await;
        let calls =
            stats.split("cmdstat_zscore:calls=").nth(1).and_then(|rest| rest.split(',').next());
        assert_eq!(calls, Some("16384"), "one script reads all marks");
    }
}

/// SAFETY.md A4, H19.
#[tokio::test]
async fn a_client_with_another_list_is_barred_and_admits_nothing() {
    let Some(servers) = for_test(8, &ServerOptions::default()) else { return };
    let urls = servers.urls();
    let a = patient_locker(&urls[..5]);
    a.admit_nodes().await.expect("all answer");
    let guard = a.lock("x").await.expect("free");
    let theirs = [&urls[..2], &urls[5..]].concat();
    let since = Stopwatch::start();
    while since.elapsed() < (PATIENT + MAX_LEASE + 2 * CLOCK_BOUND) {
        let refused = problems(patient_locker(&theirs).try_lock("x").await);
        assert!(refused.iter().all(is_barred), "{refused:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let operator = patient_locker(&theirs);
    assert!(problems(operator.admit_nodes().await).iter().any(is_barred));
    let text = operator.lock("x").await.expect_err("barred").to_string();
    let address = |url: &String| url.trim_start_matches("redis://").to_owned();
    for url in urls.iter().chain(&theirs) {
        assert!(text.contains(&address(url)), "{url} is not in {text}");
    }
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("held");
    operator.force_admit_nodes().await.expect("the operator insists");
    // Its connections to the two servers must end first.
    eventually("now the others are barred", async || {
        matches!(a.try_lock("x").await, Err(Error::Refused(why)) if is_barred(&why.nodes[0].problem))
            .then_some(())
    })
    .await;
}

/// Neither by clients nor by the operator's word: that many servers have a record in database 0.
/// Returns the URLs.
async fn founds_nothing_in_database_1(urls: &[String], servers: usize) -> Vec<String> {
    let other: Vec<_> = urls.iter().map(|url| format!("{url}/1")).collect();
    let since = Stopwatch::start();
    while since.elapsed() < 2 * (MAX_LEASE + 2 * CLOCK_BOUND) {
        assert!(!short_process(&other).await, "no client founds a second cluster");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let refused = problems(locker(&other).admit_nodes().await);
    assert_eq!(refused, vec![NodeProblem::OtherDatabase(0); servers]);
    other
}

#[tokio::test]
async fn a_record_in_another_database_of_the_last_server_is_found_too() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let last = Plain::to(servers[2].url()).await;
    last.ask::<i64>(&["HSET", RECORD, "life", "of a cluster with other servers"]).await;
    founds_nothing_in_database_1(&servers.urls(), 1).await;
}

#[tokio::test]
async fn another_database_is_another_cluster_only_on_the_operators_word() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let urls = servers.urls();
    locker(&urls).admit_nodes().await.expect("all answer");
    let guard = locker(&urls).lock("x").await.expect("free");
    let other = founds_nothing_in_database_1(&urls, 3).await;
    locker(&other).force_admit_nodes().await.expect("the operator insists");
    assert!(short_process(&other).await, "locks of database 1 are other locks");
    drop(guard);
    awaits_granted(&urls).await;
}

async fn change(longest: Duration, urls: &[String], target: &[String], until: Until) {
    let mut change = MemberChange::new(
        operator(longest).with_servers(quorumlock::Servers::quorum(urls)),
        target,
        until,
    )
    .expect("good URLs");
    let done = async {
        loop {
            let progress = change.step().await.expect("one step away").expect("a cluster");
            if progress.step == ChangeStep::Done {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), done).await.expect("the change ends");
}

#[tokio::test]
async fn a_server_is_exchanged_under_a_held_lock() {
    let Some(servers) = for_test(4, &ServerOptions::default()) else { return };
    let urls = servers.urls();
    let (old, all, new) = (&urls[..3], &urls[..], &urls[1..]);
    let first = patient_locker(old);
    first.admit_nodes().await.expect("all answer");
    let guard = first.lock("held").await.expect("free");
    change(PATIENT, old, all, Until::BothVote).await;
    let second = patient_locker(all);
    assert!(second.try_lock("held").await.expect("it may ask").is_none(), "both lists exclude");
    second.lock("x").await.expect("free").unlock().await.expect("held");
    first.lock("x").await.expect("both lists vote").unlock().await.expect("held");
    guard.unlock().await.expect("held through the change");
    let guard = second.lock("held").await.expect("free");
    change(PATIENT, all, all, Until::OnlyTarget).await;
    assert!(problems(first.lock("x").await).iter().any(is_barred), "the old list is refused");
    servers[0].kill().expect("ours");
    change(PATIENT, all, new, Until::BothVote).await;
    change(PATIENT, new, new, Until::OnlyTarget).await;
    let third = patient_locker(new);
    drop(third.lock("x").await.expect("free"));
    assert!(problems(second.lock("x").await).iter().any(is_barred));
    drop(guard);
}

#[tokio::test]
async fn a_change_is_refused_if_it_exchanges_a_server_or_another_is_under_way() {
    let Some(servers) = for_test(5, &ServerOptions::default()) else { return };
    let urls = servers.urls();
    locker(&urls[..3]).admit_nodes().await.expect("all answer");
    let step = async |target: &[String]| {
        let change = MemberChange::new(
            operator(MAX_LEASE).with_servers(quorumlock::Servers::quorum(&urls[..3])),
            target,
            Until::BothVote,
        );
        change.expect("good URLs").step().await.map_err(|refused| refused.to_string())
    };
    let exchanged = step(&urls[1..4]).await.expect_err("two servers differ");
    assert!(exchanged.contains("one server at a time"), "{exchanged}");
    change(MAX_LEASE, &urls[..3], &urls[..4], Until::BothVote).await;
    let other = [&urls[..3], &urls[4..]].concat();
    let under_way = step(&other).await.expect_err("another change");
    assert!(under_way.contains("under way"), "{under_way}");
}

/// The key of the admission record.
const RECORD: &str = "quorumlock:node";

/// The server boots an hour ahead and is set right: no note may seem an hour old.
#[tokio::test]
async fn a_server_whose_clock_is_wrong_is_not_admitted_and_waits_anew_when_it_is_right() {
    let (clock, source) = match Faketime::discover(0).and_then(|c| Ok((c, Faketime::source()?))) {
        Ok(found) => found,
        Err(missing) => return skip("QUORUMLOCK_REQUIRE_FAKETIME", &missing.to_string()),
    };
    let options = ServerOptions { faketime: Some(clock), ..ServerOptions::default() };
    let servers = Servers::start_with(&source, 3, &options).expect("they start");
    let urls = servers.urls();
    servers[0].set_clock(Shift::ByMs(-3_600_000)).expect("ours");
    assert!(!short_process(&urls).await);
    let status = async || locker(&urls).node_status().await.expect("they answer").swap_remove(0);
    eventually("the client sees the clock", async || {
        short_process(&urls).await;
        matches!(status().await.status, Ok(NodeStatus::ClockDiffers(ahead)) if ahead < 0)
            .then_some(())
    })
    .await;
    assert!(matches!(status().await.note, Some(NoteStep::ClocksDiffer(_))));
    let since = Stopwatch::start();
    servers[0].set_clock(Shift::ByMs(0)).expect("ours");
    awaits_granted(&urls).await;
    assert!(since.elapsed() >= MAX_LEASE, "{:?}", since.elapsed());
}
