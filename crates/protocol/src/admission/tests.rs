use super::*;
use crate::test_clock::Clock;

const MAX_LEASE: Duration = Duration::from_secs(10);

fn incarnation(bits: u128) -> Incarnation {
    Incarnation::parse(&format!("{bits:032x}")).expect("32 digits")
}

fn cluster_config(nodes: usize) -> ClusterConfig {
    ClusterConfig {
        prefix: "quorumlock".into(),
        cluster: "main".into(),
        epoch: 1,
        nodes,
        longest: MAX_LEASE,
    }
}

fn node_info() -> NodeInfo {
    let record = AdmissionRecord {
        cluster: "main".into(),
        epoch: 1,
        nodes: 3,
        longest_ms: 10_000,
        stamp: incarnation(1).to_string(),
        life: "run1/repl1".into(),
        pending: String::new(),
    };
    NodeInfo {
        record: Some(record),
        run_identity: "run1/repl1".into(),
        role: "master".into(),
        replicas: 0,
        policy: "noeviction".into(),
        major: 7,
    }
}

fn status_with(change: impl Fn(&mut NodeInfo)) -> NodeStatus {
    let mut info = node_info();
    change(&mut info);
    classify(&info, &cluster_config(3))
}

#[test]
fn only_the_admitted_life_may_vote() {
    assert_eq!(status_with(|_| {}), NodeStatus::Admitted(incarnation(1)));
    for change in ["run2/repl1", "run1/repl2"] {
        assert_eq!(
            status_with(|s| s.run_identity = change.into()),
            NodeStatus::Unproven(None),
            "{change}"
        );
    }
    assert_eq!(status_with(|s| s.record = None), NodeStatus::New(None));
    // A record that only a quarantine note has created.
    let marked = status_with(|s| {
        let record = s.record.as_mut().unwrap();
        (record.life, record.stamp) = (String::new(), String::new());
        record.pending = "run1/repl1/abc".into();
    });
    assert_eq!(marked, NodeStatus::New(Some("run1/repl1/abc".into())));
    let damaged = status_with(|s| s.record.as_mut().unwrap().stamp = "s1".into());
    assert_eq!(damaged, NodeStatus::Unproven(None));
    let watched = status_with(|s| {
        s.run_identity = "run2/repl2".into();
        s.record.as_mut().unwrap().pending = "run2/repl2/abc".into();
    });
    assert_eq!(watched, NodeStatus::Unproven(Some("run2/repl2/abc".into())));
    // A note of an earlier run does not count for this run's quarantine.
    let stale = status_with(|s| {
        s.run_identity = "run3/repl3".into();
        s.record.as_mut().unwrap().pending = "run2/repl2/abc".into();
    });
    assert_eq!(stale, NodeStatus::Unproven(None));
    // The run is the admitted one, but there is no incarnation: no vote.
    let fresh = status_with(|s| s.record.as_mut().unwrap().stamp.clear());
    assert_eq!(fresh, NodeStatus::Unproven(None));
}

#[test]
fn misfits_name_what_was_found_and_expected() {
    type Change = fn(&mut NodeInfo);
    let cases: [(Change, &str); 8] = [
        (|s| s.role = "slave".into(), "role"),
        (|s| s.replicas = 1, "connected replicas"),
        (|s| s.policy = "allkeys-lru".into(), "maxmemory-policy"),
        (|s| s.major = 6, "version"),
        (|s| s.record.as_mut().unwrap().cluster = "other".into(), "cluster"),
        (|s| s.record.as_mut().unwrap().epoch = 2, "epoch"),
        (|s| s.record.as_mut().unwrap().nodes = 5, "number of nodes"),
        (|s| s.record.as_mut().unwrap().longest_ms = 9, "longest lease"),
    ];
    for (change, what) in cases {
        let (NodeStatus::ConfigMismatch(mismatch) | NodeStatus::Unfit(mismatch)) =
            status_with(change)
        else {
            panic!("{what} was admitted")
        };
        assert_eq!(mismatch.what, what);
    }
}

type Status = Option<NodeStatus>;

fn admitted() -> Status {
    Some(NodeStatus::Admitted(incarnation(1)))
}

fn unproven(note: Option<&str>) -> Status {
    Some(NodeStatus::Unproven(note.map(Into::into)))
}

#[test]
fn a_restarted_node_is_watched_for_the_longest_lease_by_our_own_clock() {
    let clock = Clock::manual();
    let mut readmission = Readmission::new(cluster_config(3), 0.01);
    let infos = [admitted(), admitted(), unproven(None)];
    assert_eq!(readmission.step(&infos, clock.now()), [AdmissionAction::BeginQuarantine(2)]);
    let infos = [admitted(), admitted(), unproven(Some("m"))];
    assert_eq!(readmission.step(&infos, clock.now()), []);
    clock.advance(MAX_LEASE);
    assert_eq!(readmission.step(&infos, clock.now()), [], "the drift and a margin are missing");
    clock.advance(readmission.quarantine() - MAX_LEASE);
    let admit = AdmissionAction::Admit {
        node: 2,
        quarantine_mark: "m".into(),
        helpers: vec![0, 1],
        needed: 2,
    };
    assert_eq!(readmission.step(&infos, clock.now()), [admit]);
}

#[test]
fn another_restart_begins_the_vigil_anew_and_a_silence_does_not() {
    let clock = Clock::manual();
    let mut readmission = Readmission::new(cluster_config(3), 0.01);
    let infos = |note: &str| [admitted(), admitted(), unproven(Some(note))];
    readmission.step(&infos("m"), clock.now());
    clock.advance(MAX_LEASE);
    readmission.step(&[admitted(), admitted(), None], clock.now());
    clock.advance(MAX_LEASE);
    assert_eq!(readmission.step(&infos("n"), clock.now()), [], "another life");
    assert_eq!(
        readmission.step(&infos("m"), clock.now()).len(),
        1,
        "the note proves the first one"
    );
}

#[test]
fn without_a_majority_of_admitted_helpers_nodes_watched_long_enough_stand_in() {
    let clock = Clock::manual();
    let mut readmission = Readmission::new(cluster_config(3), 0.01);
    let infos = [unproven(Some("a")), unproven(Some("b")), None];
    readmission.step(&infos, clock.now());
    clock.advance(readmission.quarantine());
    let acts = readmission.step(&infos, clock.now());
    assert_eq!(acts.len(), 2);
    // One node alone is no majority, however long it was watched.
    let mut readmission = Readmission::new(cluster_config(3), 0.01);
    let infos = [unproven(Some("a")), None, None];
    readmission.step(&infos, clock.now());
    clock.advance(readmission.quarantine() * 3);
    assert_eq!(readmission.step(&infos, clock.now()), []);
}

#[test]
fn a_helper_that_is_silent_for_a_moment_is_waited_for() {
    let clock = Clock::manual();
    let mut readmission = Readmission::new(cluster_config(3), 0.01);
    let all = [admitted(), admitted(), unproven(Some("m"))];
    readmission.step(&all, clock.now());
    clock.advance(readmission.quarantine());
    readmission.step(&[admitted(), admitted(), None], clock.now());
    let one_silent = [admitted(), None, unproven(Some("m"))];
    assert_eq!(readmission.step(&one_silent, clock.now()), [], "its marks are not lost");
    clock.advance(readmission.quarantine());
    assert_eq!(readmission.step(&one_silent, clock.now()).len(), 1, "it has been away for long");
}

/// PROTOCOL.md ADM2: when all nodes were flushed, they look just like new ones.
#[test]
fn uptime_admits_nobody() {
    let clock = Clock::manual();
    let mut readmission = Readmission::new(cluster_config(3), 0.01);
    let marks = [
        AdmissionAction::BeginQuarantine(0),
        AdmissionAction::BeginQuarantine(1),
        AdmissionAction::BeginQuarantine(2),
    ];
    let blank = || Some(NodeStatus::New(None));
    assert_eq!(readmission.step(&[blank(), blank(), blank()], clock.now()), marks);
    assert_eq!(readmission.step(&[blank(), blank(), None], clock.now()), marks[..2]);
}
