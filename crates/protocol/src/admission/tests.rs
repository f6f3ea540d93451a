use super::members::{CLOCK_BOUND, Entry, MemberRecord, Note, ServerClock, entry};
use super::*;

const AGE: Duration = Duration::from_secs(30);

fn incarnation(bits: u128) -> Incarnation {
    Incarnation::parse(&format!("{bits:032x}")).expect("32 digits")
}

fn list(labels: &str) -> MemberList {
    MemberList::new(labels.split(' '))
}

fn cluster_config() -> ClusterConfig {
    ClusterConfig {
        prefix: "quorumlock".into(),
        members: list("a b c"),
        longest: Duration::from_secs(10),
        clock_bound: CLOCK_BOUND,
        replicated: false,
    }
}

fn terms(labels: &str) -> Terms {
    Terms { phase: 1, list: list(labels), next: None }
}

/// A node of the cluster that votes.
fn node_info(label: &str) -> NodeInfo {
    let record =
        MemberRecord { label: label.into(), terms: terms("a b c"), run_identity: "run1".into() };
    NodeInfo {
        memory: NodeMemory {
            label: label.into(),
            run_identity: "run1".into(),
            record: Some(record),
            note: None,
            clock: ServerClock { server: 0, client: 0, bound: CLOCK_BOUND },
        },
        incarnation: Some(incarnation(1)),
        note_id: None,
        agreed_ms: Some((10_000, 5_000)),
        protocol: PROTOCOL,
        outdated: None,
        role: "master".into(),
        replicas: 0,
        policy: "noeviction".into(),
        major: 7,
    }
}

fn with(change: impl Fn(&mut NodeInfo)) -> NodeInfo {
    let mut info = node_info("a");
    change(&mut info);
    info
}

fn restarted(info: &mut NodeInfo) {
    info.memory.run_identity = "run2".into();
    info.incarnation = None;
}

fn blank(label: &str) -> NodeInfo {
    let mut info = node_info(label);
    (info.memory.record, info.incarnation, info.agreed_ms) = (None, None, None);
    info
}

#[test]
fn only_the_admitted_run_votes_and_only_for_its_lists() {
    let status = |change: fn(&mut NodeInfo)| classify(&with(change), &cluster_config());
    assert_eq!(status(|_| {}), NodeStatus::Admitted(incarnation(1)));
    assert_eq!(status(restarted), NodeStatus::Unproven);
    assert_eq!(status(|info| info.incarnation = None), NodeStatus::Unproven, "a damaged record");
    assert_eq!(status(|info| *info = blank("a")), NodeStatus::New);
    let other = status(|info| info.memory.record.as_mut().unwrap().terms = terms("a d e"));
    let (found, ours) = (terms("a d e"), list("a b c"));
    assert_eq!(other, NodeStatus::OtherMembers { found, ours });
    let apart = |info: &mut NodeInfo| info.memory.clock.server = 3_600_000_000;
    assert_eq!(status(apart), NodeStatus::Admitted(incarnation(1)), "no note is judged");
    let late = status(|info| {
        restarted(info);
        info.memory.clock.server = 3_600_000_000;
    });
    assert_eq!(late, NodeStatus::ClockDiffers(3_600_000_000));
}

#[test]
fn misfits_name_what_was_found_and_expected() {
    type Change = fn(&mut NodeInfo);
    let cases: [(Change, &str); 6] = [
        (|s| s.role = "slave".into(), "role"),
        (|s| s.replicas = 1, "connected replicas"),
        (|s| s.policy = "allkeys-lru".into(), "maxmemory-policy"),
        (|s| s.major = 6, "version"),
        (|s| s.agreed_ms = Some((9, 5_000)), "longest lease"),
        (|s| s.agreed_ms = Some((10_000, 9)), "clock bound"),
    ];
    for (change, what) in cases {
        let (NodeStatus::ConfigMismatch(mismatch) | NodeStatus::Unfit(mismatch)) =
            classify(&with(change), &cluster_config())
        else {
            panic!("{what} was admitted")
        };
        assert_eq!(mismatch.what, what);
    }
}

/// PROTOCOL.md ADM8.
#[test]
fn a_record_of_a_newer_protocol_bars_the_client_whatever_else_it_says() {
    let newer = |change: fn(&mut NodeInfo)| {
        let info = NodeInfo { protocol: PROTOCOL + 1, ..with(change) };
        classify(&info, &cluster_config())
    };
    let changes: [fn(&mut NodeInfo); 5] = [
        |_| {},
        restarted,
        |info| info.memory.record = None,
        |info| info.agreed_ms = Some((9, 9)),
        |info| info.replicas = 1,
    ];
    for change in changes {
        assert_eq!(newer(change), NodeStatus::NewerProtocol(PROTOCOL + 1));
    }
    let problem = NodeStatus::NewerProtocol(2).problem().expect("it does not vote");
    assert_eq!(problem, NodeProblem::NewerProtocol { found: 2, ours: 1 });
    assert!(!problem.may_pass());
}

fn next(nodes: [NodeInfo; 3]) -> Vec<MemberAction> {
    next_actions(&cluster_config(), &nodes.map(Some), AGE)
}

#[test]
fn nothing_is_written_on_an_unfit_node_nor_by_a_client_of_other_terms_or_an_older_protocol() {
    let voters = || (node_info("b"), node_info("c"));
    let (b, c) = voters();
    assert_eq!(next([blank("a"), b, c]), [MemberAction::Note(0)]);
    let (b, c) = voters();
    let unfit = NodeInfo { replicas: 1, ..blank("a") };
    assert_eq!(next([unfit, b, c]), []);
    let (b, c) = voters();
    let other = NodeInfo { agreed_ms: Some((9, 5_000)), ..b };
    assert_eq!(next([blank("a"), other, c]), []);
    let (b, c) = voters();
    let newer = NodeInfo { protocol: PROTOCOL + 1, ..b };
    assert_eq!(next([blank("a"), newer, c]), []);
}

#[test]
fn a_report_says_what_a_node_waits_for() {
    let mut noted = blank("a");
    noted.memory.clock.server = 10_000_000;
    noted.memory.clock.client = 10_000_000;
    noted.memory.note = Some(Note {
        label: "a".into(),
        run_identity: "run1".into(),
        list: list("a b c"),
        since: 1_000_000,
    });
    let refused = NodeProblem::NotConnected("refused".into());
    let nodes = [Ok(noted), Ok(node_info("b")), Err(refused.clone())];
    let labelled = nodes.into_iter().zip(["a", "b", "c"]);
    let labelled =
        labelled.map(|(info, label)| (format!("redis://{label}"), label.into(), info)).collect();
    let reports = status_reports(&cluster_config(), labelled, AGE);
    assert_eq!(reports[0].note, Some(NoteStep::Wait(Duration::from_secs(21))));
    assert_eq!((&reports[0].status, &reports[0].terms), (&Ok(NodeStatus::New), &None));
    assert!(reports[1].is_admitted());
    assert_eq!((&reports[1].terms, &reports[1].note), (&Some(terms("a b c")), &None));
    assert_eq!(reports[2], NodeStatusReport::silent("redis://c", "c", refused));
    let seen = [Seen::Unproven(NoteStep::Mature); 3];
    assert_eq!(entry(&list("a b c"), &seen), Entry::Found(terms("a b c")));
}

#[test]
fn a_report_shows_terms_of_the_present_run_and_who_came_with_another_list() {
    let report = |info: NodeInfo| {
        let nodes = vec![("redis://a".to_owned(), "a".into(), Ok(info))];
        status_reports(&cluster_config(), nodes, AGE).pop().expect("one")
    };
    let gone = report(with(restarted));
    assert_eq!((gone.status, gone.terms), (Ok(NodeStatus::Unproven), None));
    assert_eq!(gone.note, Some(NoteStep::Write));
    let outdated = report(with(|info| {
        // By the server's own time, whatever the client's is.
        info.memory.clock.server = 9_000_000;
        info.outdated = Some((list("a b"), 2_000_000));
    }));
    assert_eq!(outdated.outdated, Some((list("a b"), Duration::from_secs(7))));
}
