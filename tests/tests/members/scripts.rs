//! The scripts of one node.

use std::time::Duration;

use quorumlock::Layout;
use quorumlock::admission::{ChangeStep, MemberChange, Until};
use quorumlock_protocol::admission::members::{MemberList, Membership, Terms, membership};
use quorumlock_protocol::admission::{
    AdmissionRpc, AdmitRequest, ClusterConfig, Marks, NodeInfo, NoteRequest,
};
use quorumlock_protocol::{PROTOCOL, Settings};
use quorumlock_redis::{RedisNode, redis_nodes};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, eventually};
use quorumlock_watchdog::Clock;

use crate::{CLOCK_BOUND, MAX_LEASE, RECORD, change, locker, operator};

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
        replicated: false,
    };
    let settings = Settings::default();
    let nodes = redis_nodes(&[url], Layout::Redlock, Some(&cluster), &settings, clock);
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
    let plain = Plain::to(servers[0].url()).await;
    assert_eq!(plain.ask::<u32>(&["HGET", RECORD, "protocol"]).await, PROTOCOL);
    assert_eq!(membership(&admitted.memory, &ours()), Membership::Votes(&terms(3, None)));
    assert_eq!(membership(&admitted.memory, &theirs()), Membership::Foreign(&terms(3, None)));
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
    assert_eq!(membership(&info(&a).await.memory, &ours()), Membership::Votes(&both));
    let clone = node(&servers, "b");
    let noted = clone.note(note(ours_and_one(), "two", None)).await;
    assert_eq!(noted, Ok(true), "the record has the second list, too");
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
    // More than a thousandth of the age: a wrong unit would admit.
    tokio::time::sleep(Duration::from_millis(50)).await;
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
        (membership(&shown.memory, &ours()), shown.outdated),
        (Membership::Votes(&both), None)
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
    let change = MemberChange::new(
        operator(MAX_LEASE).with_servers(quorumlock::Servers::quorum(&urls)),
        &urls[..2],
        Until::BothVote,
    );
    let mut change = change.expect("good URLs");
    let first = change.step().await.expect("by one").expect("a cluster").step;
    let longest = MAX_LEASE.mul_f64(1.0 + 2.0 * Settings::default().max_clock_drift);
    assert_eq!(first, ChangeStep::Wait(longest));
    tokio::time::sleep(Duration::from_millis(20)).await;
    let second = change.step().await.expect("by one").expect("a cluster").step;
    assert_ne!(second, first, "it has waited for a while");
    node(&servers, "a").barrier(INCARNATIONS[0]).await.expect("it answers");
    let third = change.step().await.expect("by one").expect("a cluster").step;
    assert_eq!(third, first);
}

/// The command was stopped while it wrote a phase.
#[tokio::test]
async fn a_change_that_was_begun_on_one_node_goes_on() {
    let Some(servers) = for_test(4, &ServerOptions::default()) else { return };
    let (urls, old) = (servers.urls(), &servers.urls()[..3]);
    locker(old).admit_nodes().await.expect("all answer");
    let list = |urls: &[String]| {
        let change = MemberChange::new(
            operator(MAX_LEASE).with_servers(quorumlock::Servers::quorum(urls)),
            urls,
            Until::BothVote,
        );
        change.expect("good URLs").target().clone()
    };
    let both = Terms { phase: 2, list: list(old), next: Some(list(&urls)) };
    let first = node_at(urls[0].clone(), &Clock::system(), CLOCK_BOUND);
    let found = info(&first).await.incarnation.expect("admitted");
    assert_eq!(first.write_terms(found, &both, INCARNATIONS[0]).await, Ok(true));
    change(MAX_LEASE, old, &urls, Until::BothVote).await;
    let shown = locker(&urls).node_status().await.expect("they answer");
    assert!(shown.iter().all(|node| node.terms == Some(both.clone())), "{shown:?}");
}

/// PROTOCOL.md MEM6: a record of another run confirms nothing.
#[tokio::test]
async fn a_change_waits_for_a_server_that_restarted_with_its_data() {
    let options = ServerOptions { appendonly: true, ..ServerOptions::default() };
    let Some(servers) = for_test(3, &options) else { return };
    let urls = servers.urls();
    locker(&urls).admit_nodes().await.expect("all answer");
    servers[0].restart().expect("ours");
    let change = MemberChange::new(
        operator(MAX_LEASE).with_servers(quorumlock::Servers::quorum(&urls)),
        &urls[..2],
        Until::BothVote,
    );
    let step = change.expect("good URLs").step().await.expect("by one").expect("a cluster").step;
    let restarted = node_at(urls[0].clone(), &Clock::system(), CLOCK_BOUND).member().clone();
    assert_eq!(step, ChangeStep::Unconfirmed(vec![restarted]));
}

/// PROTOCOL.md MEM6: each phase is written over the phase before it alone.
#[tokio::test]
async fn a_change_takes_no_node_from_another_cluster() {
    let Some(servers) = for_test(5, &ServerOptions::default()) else { return };
    let urls = servers.urls();
    let (ours, others) = (locker(&urls[..3]), locker(&urls[3..]));
    for locker in [&ours, &ours, &others] {
        locker.force_admit_nodes().await.expect("all answer");
    }
    let change = MemberChange::new(
        operator(MAX_LEASE).with_servers(quorumlock::Servers::quorum(&urls[..3])),
        &urls[..4],
        Until::BothVote,
    );
    let mut change = change.expect("good URLs");
    eventually("the change begins", async || {
        let progress = change.step().await.expect("by one").expect("a cluster");
        matches!(progress.step, ChangeStep::Begin(_)).then_some(())
    })
    .await;
    // Now the phase there is the one before that of the change.
    others.force_admit_nodes().await.expect("all answer");
    let before = others.node_status().await.expect("they answer");
    for _ in 0..2 {
        let step = change.step().await.expect("by one").expect("a cluster").step;
        assert!(matches!(step, ChangeStep::Unconfirmed(_)), "{step:?}");
    }
    let after = others.node_status().await.expect("they answer");
    assert_eq!((&before[0].terms, &before[0].status), (&after[0].terms, &after[0].status));
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
