//! The scripts of members on a real server (docs/PROTOCOL.md MEM2 to MEM6).

use std::time::Duration;

use quorumlock::Wire;
use quorumlock_core::Environment;
use quorumlock_protocol::Settings;
use quorumlock_protocol::admission::members::{
    ChangeStep, Entry, MemberInfo, MemberList, MemberRpc, NoteRequest, Standing, Terms, standing,
};
use quorumlock_protocol::admission::{ClusterConfig, Marks};
use quorumlock_quorum::{MemberChange, MemberPass};
use quorumlock_redis::{RedisNode, redis_nodes};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::eventually;

const STAMPS: [&str; 2] = ["00000000000000000000000000000001", "00000000000000000000000000000002"];

fn ours() -> MemberList {
    MemberList::new(["a", "b", "c"])
}

fn theirs() -> MemberList {
    MemberList::new(["a", "d", "e"])
}

fn terms(phase: u64, next: Option<MemberList>) -> Terms {
    Terms { phase, list: ours(), next }
}

/// A node that its clients call by this label.
fn node(servers: &Servers, label: &str) -> RedisNode {
    nodes(&[servers[0].url().to_owned()], &[label]).pop().expect("one")
}

/// The nodes of one client.
fn nodes(urls: &[String], labels: &[&str]) -> Vec<RedisNode> {
    let config = ClusterConfig {
        prefix: "quorumlock".into(),
        cluster: "quorumlock".into(),
        epoch: 1,
        nodes: 1,
        longest: Duration::from_secs(1),
    };
    let labelled = |(url, label): (&String, &&str)| format!("{url}?label={label}");
    let urls: Vec<_> = urls.iter().zip(labels).map(labelled).collect();
    let clock = Environment::default().clock;
    let nodes = redis_nodes(&urls, Wire::Redlock, Some(&config), &Settings::default(), &clock);
    nodes.expect("good URLs")
}

fn note(list: MemberList, id: &str, instead_of: Option<String>) -> NoteRequest {
    NoteRequest { list, id: id.into(), instead_of }
}

async fn info(node: &RedisNode) -> MemberInfo {
    node.member_info().await.expect("it answers")
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
    let marks = Marks::new();
    let admit =
        async |id: &str, age, stamp| a.admit_member(id, &terms(3, None), stamp, age, &marks).await;
    assert_eq!(admit("another", now, STAMPS[0]).await, Ok(false));
    assert_eq!(admit(&id, day, STAMPS[0]).await, Ok(false), "too young");
    assert_eq!(admit(&id, now, STAMPS[0]).await, Ok(true));
    assert_eq!(admit(&id, now, STAMPS[1]).await, Ok(false), "the note has ended");
    let admitted = info(&a).await;
    assert_eq!(standing(&admitted.memory, &ours()), Standing::Votes(&terms(3, None)));
    assert_eq!(standing(&admitted.memory, &theirs()), Standing::Foreign(&terms(3, None)));
    assert_eq!(a.note(note(theirs(), "two", None)).await, Ok(false), "it is admitted");
    let alias = node(&servers, "A");
    assert_eq!(alias.note(note(theirs(), "two", None)).await, Ok(false), "whatever its label");
    let clone = node(&servers, "b");
    assert_eq!(clone.note(note(ours(), "two", None)).await, Ok(true), "a clone of a");
}

#[tokio::test]
async fn a_phase_is_written_over_the_one_before_it_and_ends_its_incarnation() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let a = node(&servers, "a");
    a.note(note(ours(), "one", None)).await.expect("it answers");
    let id = info(&a).await.note_id.expect("a note");
    let admitted =
        a.admit_member(&id, &terms(3, None), STAMPS[0], Duration::ZERO, &Marks::new()).await;
    assert_eq!(admitted, Ok(true));
    let found = info(&a).await.incarnation.expect("admitted");
    let both = terms(4, Some(MemberList::new(["a", "b", "c", "d"])));
    let skipped = Terms { phase: 5, ..both.clone() };
    assert_eq!(a.write_phase(found, &skipped, STAMPS[1]).await, Ok(false), "over a phase");
    assert_eq!(a.write_phase(found, &both, STAMPS[1]).await, Ok(true));
    assert_eq!(a.write_phase(found, &both, STAMPS[1]).await, Ok(false), "another incarnation");
    assert_eq!(standing(&info(&a).await.memory, &ours()), Standing::Votes(&both));
}

/// A process that looks once and ends.
async fn short_process(servers: &Servers, list: &str) -> Entry {
    let labels: Vec<_> = list.split(' ').collect();
    let urls: Vec<_> = (0..labels.len()).map(|i| servers[i].url().to_owned()).collect();
    let nodes = nodes(&urls, &labels);
    let entropy = Environment::default().entropy;
    let pass = MemberPass {
        nodes: &nodes,
        list: &MemberList::new(labels),
        age: Duration::from_millis(500),
        entropy: &entropy,
        answer_timeout: Duration::from_secs(5),
    };
    pass.run().await
}

#[tokio::test]
async fn short_processes_found_a_cluster_and_admit_servers_that_restarted_empty() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let whole = async |voters: usize| {
        eventually("a majority votes", async || match short_process(&servers, "a b c").await {
            Entry::BackIn { voters: found, .. } if found.len() == voters => Some(()),
            _ => None,
        })
        .await;
    };
    whole(3).await;
    servers[2].restart_empty().expect("ours");
    whole(3).await;
    for server in 0..3 {
        servers[server].restart_empty().expect("ours");
    }
    whole(3).await;
    let other = short_process(&servers, "a d e").await;
    assert!(matches!(other, Entry::Barred(_)), "{other:?}");
}

/// Changes the list of these labels, the servers in order, to another one.
async fn change(servers: &Servers, all: &str, to: &str) {
    let labels: Vec<_> = all.split(' ').collect();
    let urls: Vec<_> = (0..labels.len()).map(|i| servers[i].url().to_owned()).collect();
    let by_label = labels.iter().zip(nodes(&urls, &labels));
    let by_label = by_label.map(|(label, node)| ((*label).into(), node)).collect();
    let goal: Vec<_> = to.split(' ').collect();
    let url = |label: &&str| urls[labels.iter().position(|l| l == label).expect("one")].clone();
    let targets = nodes(&goal.iter().map(url).collect::<Vec<_>>(), &goal);
    let (list, world) = (MemberList::new(goal), Environment::default());
    let mut change = MemberChange {
        nodes: &by_label,
        targets: &targets,
        target: &list,
        longest: Duration::from_millis(300),
        age: Duration::from_millis(500),
        clock: &world.clock,
        entropy: &world.entropy,
        answer_timeout: Duration::from_secs(5),
        confirmed: None,
    };
    // `eventually` takes a closure without state.
    for _ in 0..1_000 {
        if change.step().await.expect("one step away") == Some(ChangeStep::Done) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the change is not done");
}

#[tokio::test]
async fn a_server_is_exchanged_for_another_in_two_changes() {
    let Some(servers) = for_test(4, &ServerOptions::default()) else { return };
    eventually("founded", async || match short_process(&servers, "a b c").await {
        Entry::BackIn { voters, .. } if voters.len() == 3 => Some(()),
        _ => None,
    })
    .await;
    change(&servers, "a b c d", "a b c d").await;
    servers[0].kill().expect("ours");
    change(&servers, "a b c d", "b c d").await;
    for (label, server) in [("b", 1), ("c", 2), ("d", 3)] {
        let node = nodes(&[servers[server].url().to_owned()], &[label]).pop().expect("one");
        let list = MemberList::new(["b", "c", "d"]);
        let shown = info(&node).await.memory;
        let expected = Terms { phase: 5, list: list.clone(), next: None };
        assert_eq!(standing(&shown, &list), Standing::Votes(&expected), "{label}");
        assert!(matches!(standing(&shown, &ours()), Standing::Foreign(_)), "{label}");
    }
}
