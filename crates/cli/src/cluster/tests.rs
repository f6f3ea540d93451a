use quorumlock_protocol::{Mismatch, NodeProblem};

use super::*;

const AGE: Duration = Duration::from_secs(70);
const SOON: Duration = Duration::from_secs(12);

fn list(labels: &str) -> MemberList {
    MemberList::new(labels.split(' '))
}

fn terms(phase: u64, lists: &[&str]) -> Terms {
    Terms { phase, list: list(lists[0]), next: lists.get(1).map(|labels| list(labels)) }
}

fn silent(label: &str) -> NodeStatusReport {
    let refused = NodeProblem::NotConnected("refused".into());
    NodeStatusReport::silent(format!("redis://{label}"), label, refused)
}

fn votes(label: &str, terms: Terms) -> NodeStatusReport {
    let mut node = silent(label);
    (node.status, node.terms) = (Ok(NodeStatus::Admitted(Default::default())), Some(terms));
    node
}

fn unproven(label: &str, note: NoteStep) -> NodeStatusReport {
    let mut node = silent(label);
    (node.status, node.note) = (Ok(NodeStatus::Unproven), Some(note));
    node
}

fn says(label: &str, status: NodeStatus) -> NodeStatusReport {
    let mut node = silent(label);
    node.status = Ok(status);
    node
}

fn abc() -> Terms {
    terms(1, &["a b c"])
}

/// What each node that does not vote needs.
fn cures(nodes: &[NodeStatusReport]) -> Vec<Cure> {
    let cluster = Cluster::new(nodes, AGE);
    nodes.iter().filter_map(|node| cluster.obstacle(node)).map(|remark| remark.cure).collect()
}

fn action(cure: Cure) -> &'static str {
    match cure {
        Cure::Operator(action) => action,
        Cure::Itself(within) => panic!("within {within:?}"),
    }
}

#[test]
fn beside_a_majority_a_note_needs_its_own_time_only() {
    for (note, within) in [
        (NoteStep::Wait(SOON), SOON),
        (NoteStep::Mature, Duration::ZERO),
        (NoteStep::Write, AGE),
        (NoteStep::TakeOver, AGE),
    ] {
        let nodes = [votes("a", abc()), votes("b", abc()), unproven("c", note)];
        assert_eq!(cures(&nodes), [Cure::Itself(within)], "{note:?}");
    }
}

#[test]
fn without_a_majority_the_last_note_counts_and_every_node_must_be_ready() {
    let (wait, mature) = (NoteStep::Wait(SOON), NoteStep::Mature);
    let ready = [votes("a", abc()), unproven("b", wait), unproven("c", mature)];
    assert_eq!(cures(&ready), [Cure::Itself(SOON); 2]);
    for bad in [
        silent("a"),
        unproven("a", NoteStep::OtherList),
        votes("a", terms(2, &["a b c", "a b c d"])),
        says("a", NodeStatus::ClockDiffers(1)),
    ] {
        let cure = cures(&[bad, unproven("b", wait), unproven("c", mature)]).pop();
        assert!(action(cure.expect("of c")).contains("quorumlock init"), "{cure:?}");
    }
    let noted = [unproven("a", NoteStep::OtherList), unproven("b", wait), unproven("c", mature)];
    assert!(action(cures(&noted)[0]).contains("same nodes"), "{:?}", cures(&noted));
}

#[test]
fn a_node_that_shows_nothing_is_told_with_the_reason() {
    let what = |problem| {
        let mut nodes = [votes("a", abc()), votes("b", abc()), silent("c")];
        nodes[2].status = Err(problem);
        Cluster::new(&nodes, AGE).obstacle(&nodes[2]).expect("it does not vote").what
    };
    let refused = NodeProblem::NotConnected("Connection refused".into());
    assert_eq!(what(refused), "does not answer: not connected: Connection refused");
    let password = NodeProblem::Authentication("WRONGPASS".into());
    assert_eq!(what(password), "authentication failed: WRONGPASS");
}

#[test]
fn a_node_of_another_cluster_bars_the_others() {
    let other = NodeStatus::OtherMembers { found: terms(1, &["c x y"]), ours: list("a b c") };
    let mismatch =
        NodeStatus::ConfigMismatch(Mismatch::new("clock bound", "1 ms".into(), "2 ms".into()));
    let newer = NodeStatus::NewerProtocol(2);
    let cases =
        [(other, "another cluster"), (mismatch, "--max-lease"), (newer, "an older quorumlock")];
    for (status, part) in cases {
        let nodes = [unproven("a", NoteStep::Mature), votes("b", abc()), says("c", status)];
        let cure = cures(&nodes)[0];
        assert!(action(cure).contains(part), "{cure:?}");
    }
}

#[test]
fn a_clock_that_differs_is_the_servers_unless_all_differ_alike() {
    let differs = |label, micros| says(label, NodeStatus::ClockDiffers(micros));
    let all = [differs("a", 1), differs("b", 2), differs("c", 3)];
    assert!(action(cures(&all)[0]).contains("clock of this machine"));
    let apart = [differs("a", 1), differs("b", -2), differs("c", 3)];
    let one = [differs("a", 7_000_000), votes("b", abc()), votes("c", abc())];
    for nodes in [apart, one] {
        assert!(action(cures(&nodes)[0]).contains("the server's"));
    }
    let cluster_of_one = [differs("a", 7_000_000), votes("b", abc()), votes("c", abc())];
    let remark = Cluster::new(&cluster_of_one, AGE).obstacle(&cluster_of_one[0]);
    assert!(remark.expect("it does not vote").what.contains("7s ahead"));
}

fn remarks(nodes: &[NodeStatusReport]) -> Vec<Remark> {
    Cluster::new(nodes, AGE).remarks()
}

#[test]
fn a_change_that_is_not_finished_is_told_with_what_to_do() {
    let both = || terms(2, &["a b c", "a b c d"]);
    let settled = ["a", "b", "c"].map(|label| votes(label, abc()));
    assert_eq!(remarks(&settled), []);
    let under_way = ["a", "b", "c"].map(|label| votes(label, both()));
    let found = remarks(&under_way);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.contains("from [a, b, c] to [a, b, c, d]"), "{found:?}");
    assert!(action(found[0].cure).contains("finish"), "{found:?}");
    let begun = [votes("a", both()), votes("b", abc()), votes("c", abc())];
    let found = remarks(&begun);
    assert_eq!(found[1].nodes, ["b", "c"]);
    assert!(action(found[0].cure).contains("add"), "{found:?}");
    let late = terms(3, &["a b c"]);
    let finished = [votes("a", late.clone()), votes("b", late), votes("c", both())];
    let found = remarks(&finished);
    assert_eq!((found.len(), &*found[0].nodes), (1, &["c".to_owned()][..]));
}

#[test]
fn programs_with_an_old_list_are_told_once_each_and_for_a_while() {
    let came = |label, list: MemberList, secs| {
        let mut node = votes(label, abc());
        node.outdated = Some((list, Duration::from_secs(secs)));
        node
    };
    let nodes = [came("a", list("a b"), 30), came("b", list("a b"), 20), came("c", list("x"), 601)];
    let found = remarks(&nodes);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].nodes, ["a", "b"]);
    assert_eq!(found[0].what, "a program came 20s ago with the list [a, b]");
    // The command itself, if its list is not the newest.
    assert_eq!(remarks(&[came("a", list("a b c"), 0), votes("b", abc()), votes("c", abc())]), []);
}
