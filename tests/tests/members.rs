//! Which nodes belong to a cluster, on real servers (docs/PROTOCOL.md, Members).

use std::time::Duration;

use quorumlock::admission::{ChangeStep, NodeStatus, NoteStep, Until};
use quorumlock::{Builder, Error, Locker, NodeProblem, Wire};
use quorumlock_protocol::Settings;
use quorumlock_protocol::admission::members::{MemberList, Standing, Terms, standing};
use quorumlock_protocol::admission::{
    AdmissionRpc, AdmitRequest, ClusterConfig, Marks, NodeInfo, NoteRequest,
};
use quorumlock_redis::{RedisNode, redis_nodes};
use quorumlock_testbed::servers::{Faketime, Server, ServerOptions, Servers, Shift, for_test};
use quorumlock_testbed::skip;
use quorumlock_tests::{Plain, Stopwatch, eventually};
use quorumlock_watchdog::Clock;

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

/// For locks that are held for a while: a loaded machine renews them in time.
fn patient() -> Builder {
    builder().lease(PATIENT / 2).max_lease(PATIENT)
}

fn locker(urls: &[String]) -> Locker {
    builder().quorum(urls).expect("good URLs")
}

fn patient_locker(urls: &[String]) -> Locker {
    patient().quorum(urls).expect("good URLs")
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

mod scripts {
    //! The scripts of one node.

    use super::*;

    /// On a loaded machine a request may be carried out late.
    const BOUND: Duration = Duration::from_secs(30);
    const INCARNATIONS: [&str; 2] =
        ["00000000000000000000000000000001", "00000000000000000000000000000002"];

    fn ours() -> MemberList {
        MemberList::new(["a", "b", "c"])
    }

    fn theirs() -> MemberList {
        MemberList::new(["a", "d", "e"])
    }

    fn terms(phase: u64, next: Option<MemberList>) -> Terms {
        Terms { phase, list: ours(), next }
    }

    fn ours_and_one() -> MemberList {
        MemberList::new(["a", "b", "c", "d"])
    }

    /// The node that its clients call by this label.
    fn node(servers: &Servers, label: &str) -> RedisNode {
        let url = format!("{}?label={label}", servers[0].url());
        node_at(url, &Clock::system(), BOUND)
    }

    fn node_at(url: String, clock: &Clock, clock_bound: Duration) -> RedisNode {
        let cluster = ClusterConfig {
            prefix: "quorumlock".into(),
            members: ours(),
            longest: MAX_LEASE,
            clock_bound,
        };
        let settings = Settings::default();
        let nodes = redis_nodes(&[url], Wire::Redlock, Some(&cluster), &settings, clock);
        nodes.expect("a good URL").pop().expect("one")
    }

    /// The clock of a client that is this many seconds ahead.
    fn clock_ahead(seconds: i64) -> Clock {
        let wall = move || Clock::system().wall_micros().saturating_add_signed(seconds * 1_000_000);
        Clock::given(move || Duration::from_micros(wall()))
    }

    fn note(list: MemberList, id: &str, instead_of: Option<String>) -> NoteRequest {
        NoteRequest { list, id: id.into(), instead_of }
    }

    async fn info(node: &RedisNode) -> NodeInfo {
        node.node_info().await.expect("it answers")
    }

    async fn admit(node: &RedisNode, note: &str, age: Duration, incarnation: &str) -> bool {
        let (note, incarnation) = (note.to_owned(), incarnation.to_owned());
        let terms = terms(3, None);
        let request = AdmitRequest { note, age, terms, incarnation, marks: Marks::new() };
        node.admit(request).await.expect("it answers")
    }

    #[tokio::test]
    async fn a_run_has_one_note_which_a_majority_takes_over_with_its_time() {
        let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
        let a = node(&servers, "a");
        assert_eq!(info(&a).await.note_id, None);
        assert_eq!(a.note(note(theirs(), "one", None)).await, Ok(true));
        assert_eq!(a.note(note(ours(), "two", None)).await, Ok(false), "there is one");
        let first = info(&a).await;
        let written = first.memory.note.expect("a note");
        assert_eq!((written.list, &*written.label), (theirs(), "a"));
        assert!(first.memory.clock.agrees());
        let id = first.note_id;
        assert_eq!(a.note(note(ours(), "three", Some("another".into()))).await, Ok(false));
        assert_eq!(a.note(note(ours(), "three", id.clone())).await, Ok(true));
        let second = info(&a).await;
        assert_ne!(second.note_id, id);
        let taken = second.memory.note.expect("a note");
        assert_eq!((taken.list, taken.since), (ours(), written.since));
    }

    #[tokio::test]
    async fn a_run_is_admitted_under_the_same_mature_note_and_no_other() {
        let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
        let a = node(&servers, "a");
        a.note(note(ours(), "one", None)).await.expect("it answers");
        let id = info(&a).await.note_id.expect("a note");
        let (now, day) = (Duration::ZERO, Duration::from_secs(86_400));
        assert!(!admit(&a, "another", now, INCARNATIONS[0]).await);
        assert!(!admit(&a, &id, day, INCARNATIONS[0]).await, "too young");
        assert!(admit(&a, &id, now, INCARNATIONS[0]).await);
        assert!(!admit(&a, &id, now, INCARNATIONS[1]).await, "the note has ended");
        let admitted = info(&a).await;
        assert_eq!(admitted.agreed_ms, Some((600, 30_000)));
        assert_eq!(standing(&admitted.memory, &ours()), Standing::Votes(&terms(3, None)));
        assert_eq!(standing(&admitted.memory, &theirs()), Standing::Foreign(&terms(3, None)));
        assert_eq!(a.note(note(theirs(), "two", None)).await, Ok(false), "it is admitted");
        let alias = node(&servers, "A");
        assert_eq!(alias.note(note(theirs(), "two", None)).await, Ok(false), "whatever its label");
        let clone = node(&servers, "b");
        assert_eq!(clone.note(note(ours(), "two", None)).await, Ok(true), "a clone of a");
    }

    #[tokio::test]
    async fn terms_follow_those_before_and_end_their_incarnation() {
        let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
        let a = node(&servers, "a");
        a.note(note(ours(), "one", None)).await.expect("it answers");
        let id = info(&a).await.note_id.expect("a note");
        assert!(admit(&a, &id, Duration::ZERO, INCARNATIONS[0]).await);
        let found = info(&a).await.incarnation.expect("admitted");
        let both = terms(4, Some(ours_and_one()));
        let skipped = Terms { phase: 5, ..both.clone() };
        let after = Terms { phase: 5, list: ours_and_one(), next: None };
        let write = async |terms: &Terms| a.write_terms(found, terms, INCARNATIONS[1]).await;
        assert_eq!(write(&skipped).await, Ok(false), "over a phase");
        let plain = Plain::to(servers[0].url()).await;
        let outdated = ["HSET", RECORD, "outdated_list", "a b", "outdated_at", "1"];
        plain.ask::<i64>(&outdated).await;
        assert_eq!(write(&both).await, Ok(true));
        assert_eq!(plain.ask::<i64>(&["HEXISTS", RECORD, "outdated_list"]).await, 0);
        assert_eq!(write(&after).await, Ok(false), "another incarnation");
        assert_eq!(standing(&info(&a).await.memory, &ours()), Standing::Votes(&both));
        let clone = node(&servers, "b");
        let noted = clone.note(note(ours_and_one(), "two", None)).await;
        assert_eq!(noted, Ok(true), "the record has the second list, too");
    }

    /// PROTOCOL.md MEM7.
    #[tokio::test]
    async fn a_record_without_a_list_is_converted_once_and_completely() {
        let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
        let a = node(&servers, "a");
        assert_eq!(a.provision(None, &terms(1, None), INCARNATIONS[0]).await, Ok(true));
        forget_list(&servers[0]).await;
        let earlier = info(&a).await;
        assert_eq!((earlier.memory.record, earlier.agreed_ms), (None, None));
        assert_eq!(earlier.earlier.expect("an earlier record").nodes, 3);
        let found = earlier.incarnation.expect("of this run");
        let write = async |incarnation| a.write_terms(found, &terms(1, None), incarnation).await;
        assert_eq!(write(INCARNATIONS[1]).await, Ok(true));
        let converted = info(&a).await;
        assert_eq!(converted.earlier, None);
        assert_eq!(converted.agreed_ms, Some((600, 30_000)));
        assert_eq!(standing(&converted.memory, &ours()), Standing::Votes(&terms(1, None)));
    }

    /// PROTOCOL.md MEM3: in the step that writes or admits.
    #[tokio::test]
    async fn a_script_compares_the_clocks_itself() {
        let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
        let a = node(&servers, "a");
        let url = || format!("{}?label=a", servers[0].url());
        let wrong = [-60, 60].map(|seconds| node_at(url(), &clock_ahead(seconds), BOUND));
        for wrong in &wrong {
            assert_eq!(wrong.note(note(ours(), "one", None)).await, Ok(false));
        }
        assert_eq!(a.note(note(ours(), "two", None)).await, Ok(true));
        let id = info(&a).await.note_id.expect("a note");
        for wrong in &wrong {
            assert!(!admit(wrong, &id, Duration::ZERO, INCARNATIONS[0]).await);
        }
        assert!(admit(&a, &id, Duration::ZERO, INCARNATIONS[0]).await);
    }

    /// PROTOCOL.md MEM3.
    #[tokio::test]
    async fn the_age_of_a_note_is_by_the_servers_own_time() {
        let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
        let url = format!("{}?label=a", servers[0].url());
        let ahead = node_at(url, &clock_ahead(60), Duration::from_secs(600));
        assert_eq!(ahead.note(note(ours(), "one", None)).await, Ok(true));
        let shown = info(&ahead).await;
        let age = shown.memory.clock.server - shown.memory.note.expect("a note").since;
        assert!((0..30_000_000).contains(&age), "{age}");
        let id = shown.note_id.expect("a note");
        assert!(!admit(&ahead, &id, Duration::from_secs(30), INCARNATIONS[0]).await);
        // The time went back since the note was written.
        let later = (shown.memory.clock.server + 3_600_000_000).to_string();
        let plain = Plain::to(servers[0].url()).await;
        plain.ask::<i64>(&["HSET", RECORD, "note_since", &later]).await;
        assert_eq!(ahead.note(note(ours(), "two", None)).await, Ok(true), "it begins anew");
    }

    /// PROTOCOL.md MEM2, MEM3.
    #[tokio::test]
    async fn a_server_that_restarts_with_its_data_is_another_run() {
        let options = ServerOptions { appendonly: true, ..ServerOptions::default() };
        let Some(servers) = for_test(1, &options) else { return };
        let a = node(&servers, "a");
        assert_eq!(a.note(note(ours(), "one", None)).await, Ok(true));
        let id = info(&a).await.note_id.expect("a note");
        servers[0].restart().expect("ours");
        let a = node(&servers, "a");
        assert_eq!(info(&a).await.note_id, Some(id.clone()));
        assert!(!admit(&a, &id, Duration::ZERO, INCARNATIONS[0]).await);
        assert_eq!(a.note(note(ours(), "two", Some(id))).await, Ok(false), "no note of this run");
        assert_eq!(a.note(note(ours(), "two", None)).await, Ok(true));
        let id = info(&a).await.note_id.expect("a note");
        assert!(admit(&a, &id, Duration::ZERO, INCARNATIONS[0]).await);
        let found = info(&a).await.incarnation.expect("admitted");
        servers[0].restart().expect("ours");
        let a = node(&servers, "a");
        let shown = info(&a).await;
        assert_eq!((shown.incarnation, shown.agreed_ms), (None, None));
        let written = a.write_terms(found, &terms(4, None), INCARNATIONS[1]).await;
        assert_eq!(written, Ok(false), "a record of another run");
        assert_eq!(a.provision(None, &terms(4, None), INCARNATIONS[1]).await, Ok(true));
    }

    /// PROTOCOL.md MEM3: the server was cloned.
    #[tokio::test]
    async fn a_note_is_of_one_label() {
        let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
        let (a, b) = (node(&servers, "a"), node(&servers, "b"));
        assert_eq!(a.note(note(ours(), "one", None)).await, Ok(true));
        let id = info(&a).await.note_id.expect("a note");
        assert!(!admit(&b, &id, Duration::ZERO, INCARNATIONS[0]).await);
        assert_eq!(b.note(note(ours(), "two", Some(id))).await, Ok(false));
        assert_eq!(b.note(note(ours(), "two", None)).await, Ok(true));
        let shown = info(&b).await.memory.note.expect("a note");
        assert_eq!(&*shown.label, "b");
    }

    #[tokio::test]
    async fn a_server_that_cannot_write_shows_its_record_all_the_same() {
        let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
        let a = node(&servers, "a");
        assert_eq!(a.provision(None, &terms(1, None), INCARNATIONS[0]).await, Ok(true));
        let found = info(&a).await.incarnation.expect("admitted");
        let both = terms(2, Some(ours_and_one()));
        assert_eq!(a.write_terms(found, &both, INCARNATIONS[1]).await, Ok(true));
        let plain = Plain::to(servers[0].url()).await;
        let _: String = plain.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
        let shown = info(&a).await;
        assert_eq!(
            (standing(&shown.memory, &ours()), shown.outdated),
            (Standing::Votes(&both), None)
        );
        let _: String = plain.ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
        loop {
            let shown = info(&a).await;
            let now = shown.memory.clock.server;
            assert_eq!(shown.outdated, Some((ours(), now)), "its list is not the newest");
            // A time whose fraction begins with 0 is written correctly, too.
            if now % 1_000_000 < 100_000 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// PROTOCOL.md MEM6: with the same incarnations at the beginning and at the end.
    #[tokio::test]
    async fn a_change_waits_anew_for_a_node_with_another_incarnation() {
        let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
        let urls = servers.urls();
        locker(&urls).admit_nodes().await.expect("all answer");
        let change = builder().change_members(&urls, &urls[..2], Until::BothVote);
        let mut change = change.expect("good URLs");
        let first = change.step().await.expect("by one").expect("a cluster").step;
        assert!(matches!(first, ChangeStep::Wait(_)), "{first:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        let second = change.step().await.expect("by one").expect("a cluster").step;
        assert_ne!(second, first, "it has waited for a while");
        node(&servers, "a").barrier(INCARNATIONS[0]).await.expect("it answers");
        let third = change.step().await.expect("by one").expect("a cluster").step;
        assert_eq!(third, first);
    }

    #[tokio::test]
    async fn all_other_databases_with_a_record_are_found() {
        let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
        let url = |database: u8| format!("{}/{database}", servers[0].url());
        for database in [0, 3, 12] {
            let plain = Plain::to(&url(database)).await;
            plain.ask::<i64>(&["HSET", RECORD, "life", "x"]).await;
        }
        Plain::to(&url(5)).await.ask::<i64>(&["HSET", "another key", "life", "x"]).await;
        let third = node_at(url(3), &Clock::system(), BOUND);
        let mut found = third.other_databases().await.expect("it answers");
        found.sort_unstable();
        assert_eq!(found, [0, 12]);
    }

    #[tokio::test]
    async fn provision_fails_over_a_record_that_the_operator_has_not_seen() {
        let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
        let a = node(&servers, "a");
        let provision = async |found, incarnation| {
            a.provision(found, &terms(1, None), incarnation).await.expect("it answers")
        };
        assert!(provision(None, INCARNATIONS[0]).await);
        assert!(!provision(None, INCARNATIONS[1]).await, "another operator came first");
        let found = info(&a).await.incarnation;
        assert!(provision(found, INCARNATIONS[1]).await);
        assert!(!provision(found, INCARNATIONS[0]).await);
    }
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
        let locker = builder.answer_timeout(Duration::from_millis(400)).quorum(servers.urls());
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

async fn change(builder: &Builder, urls: &[String], target: &[String], until: Until) {
    let mut change = builder.clone().change_members(urls, target, until).expect("good URLs");
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
    change(&patient(), old, all, Until::BothVote).await;
    let second = patient_locker(all);
    assert!(second.try_lock("held").await.expect("it may ask").is_none(), "both lists exclude");
    second.lock("x").await.expect("free").unlock().await.expect("held");
    first.lock("x").await.expect("both lists vote").unlock().await.expect("held");
    guard.unlock().await.expect("held through the change");
    let guard = second.lock("held").await.expect("free");
    change(&patient(), all, all, Until::OnlyTarget).await;
    assert!(problems(first.lock("x").await).iter().any(is_barred), "the old list is refused");
    servers[0].kill().expect("ours");
    change(&patient(), all, new, Until::BothVote).await;
    change(&patient(), new, new, Until::OnlyTarget).await;
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
        let change = builder().change_members(&urls[..3], target, Until::BothVote);
        change.expect("good URLs").step().await.map_err(|refused| refused.to_string())
    };
    let exchanged = step(&urls[1..4]).await.expect_err("two servers differ");
    assert!(exchanged.contains("one server at a time"), "{exchanged}");
    change(&builder(), &urls[..3], &urls[..4], Until::BothVote).await;
    let other = [&urls[..3], &urls[4..]].concat();
    let under_way = step(&other).await.expect_err("another change");
    assert!(under_way.contains("under way"), "{under_way}");
}

/// The key of the admission record.
const RECORD: &str = "quorumlock:node";

/// Makes the record of a node one that an earlier release wrote.
async fn forget_list(server: &Server) {
    let plain = Plain::to(server.url()).await;
    let lists = ["HDEL", RECORD, "list", "next", "phase", "label", "clock_bound_ms"];
    plain.ask::<i64>(&lists).await;
    let cluster = ["HSET", RECORD, "cluster", "quorumlock", "epoch", "1", "nodes", "3"];
    plain.ask::<i64>(&cluster).await;
}

/// What an earlier release wrote (PROTOCOL.md MEM7).
#[tokio::test]
async fn records_without_a_list_become_records_of_the_first_whole_list() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let urls = servers.urls();
    locker(&urls).admit_nodes().await.expect("all answer");
    for server in &servers {
        forget_list(server).await;
    }
    let few = locker(&urls[..2]);
    let refused = problems(few.try_lock("x").await);
    assert!(refused.iter().all(|problem| *problem == NodeProblem::NotAdmitted), "{refused:?}");
    assert!(!short_process(&urls[..2]).await, "a shorter list converts nothing");
    awaits_granted(&urls).await;
    let nodes = locker(&urls).node_status().await.expect("they answer");
    let phases: Vec<_> = nodes.iter().map(|n| n.terms.as_ref().map(|t| t.phase)).collect();
    assert_eq!(phases, [Some(1); 3]);
}

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
