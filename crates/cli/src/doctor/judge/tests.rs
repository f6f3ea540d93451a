use super::super::capabilities::Capabilities;
use super::super::facts::{Facts, RoundTrips};
use super::*;

const MS: Duration = Duration::from_millis(1);
const REDLOCK: Topology = Topology::Quorum { strict: false };
const STRICT: Topology = Topology::Quorum { strict: true };

/// A node in which nothing is wrong.
fn good(name: &str) -> (String, Facts) {
    let info = Info {
        server: Some("redis".into()),
        version: Some("8.0.0".into()),
        run_id: Some(format!("run of {name}")),
        mode: Some("standalone".into()),
        role: Some("master".into()),
        replicas: Some(0),
        connections: Some(3),
        loading: Some(false),
        maxmemory: Some(0),
        maxmemory_policy: Some("noeviction".into()),
        aof: Some(true),
        appendfsync: Some("always".into()),
        save: Some(String::new()),
        repl_backlog_ttl: Some(3600),
        replaced_by: Vec::new(),
        members: None,
        cluster_state: None,
        slots_assigned: None,
    };
    let round_trips = RoundTrips { best: MS, median: MS, worst: MS };
    let lock = Trial::Taken { took: MS, within: Duration::from_millis(500) };
    let capabilities = Capabilities::default();
    let (clock, missing_rights) = (Some(0), Vec::new());
    (name.to_owned(), Facts { round_trips, clock, info, missing_rights, capabilities, lock })
}

/// Three good nodes, of which `spoil` changes the first.
fn three(spoil: impl FnOnce(&mut Facts)) -> Vec<NodeFacts> {
    let mut nodes = ["a", "b", "c"].map(good);
    spoil(&mut nodes[0].1);
    nodes.into_iter().map(|(node, facts)| given(node, facts)).collect()
}

fn given(node: String, facts: Facts) -> NodeFacts {
    NodeFacts { node, answer: Answer::Given(Box::new(facts)) }
}

/// The findings that are not `Ok`: severity, check, nodes.
fn wrong(nodes: &[NodeFacts]) -> Vec<(Severity, &'static str, String)> {
    let findings =
        judge(nodes, REDLOCK).into_iter().filter(|finding| finding.severity != Severity::Ok);
    findings
        .inspect(|finding| assert!(finding.remedy.is_some(), "{finding:?} says what to do"))
        .map(|finding| (finding.severity, finding.check, finding.nodes.join(" ")))
        .collect()
}

fn only(
    severity: Severity,
    check: &'static str,
    nodes: &str,
) -> Vec<(Severity, &'static str, String)> {
    vec![(severity, check, nodes.to_owned())]
}

#[test]
fn good_nodes_pass_every_check() {
    let findings = judge(&three(|_| ()), REDLOCK);
    assert_eq!(findings.len(), checks(REDLOCK).len() + 1, "and one about permissions");
    assert!(findings.iter().all(|finding| finding.severity == Severity::Ok), "{findings:?}");
}

#[test]
fn a_silent_node_is_a_problem_and_no_check_passes_unseen() {
    let mut nodes = three(|_| ());
    nodes[1].answer = Answer::Silent { error: "connection refused".into() };
    assert_eq!(wrong(&nodes), only(Severity::Problem, "reach", "b"));
    assert_eq!(judge(&nodes, REDLOCK).len(), 1);
}

#[test]
fn a_node_that_refuses_info_is_a_warning() {
    let nodes = three(|facts| facts.info = Info::default());
    assert_eq!(wrong(&nodes), only(Severity::Warn, "info", "a"));
}

#[test]
fn an_even_number_is_a_warning() {
    let mut nodes = three(|_| ());
    nodes.pop();
    assert_eq!(wrong(&nodes), only(Severity::Warn, "number", ""));
    nodes.pop();
    assert_eq!(wrong(&nodes), []);
}

#[test]
fn a_server_that_is_listed_twice_is_a_problem() {
    let nodes = three(|facts| facts.info.run_id = Some("run of c".into()));
    assert_eq!(wrong(&nodes), only(Severity::Problem, "distinct", "a c"));
}

#[test]
fn replicas_sentinels_and_cluster_nodes_are_problems() {
    let replica = three(|facts| facts.info.role = Some("slave".into()));
    assert_eq!(wrong(&replica), only(Severity::Problem, "role", "a"));
    for mode in ["sentinel", "cluster"] {
        let nodes = three(|facts| facts.info.mode = Some(mode.into()));
        assert_eq!(wrong(&nodes), only(Severity::Problem, "role", "a"));
    }
    let master = three(|facts| facts.info.replicas = Some(2));
    assert_eq!(wrong(&master), only(Severity::Warn, "role", "a"));
}

/// Under strict admission the record is judged by what it says.
#[test]
fn a_member_of_a_cluster_is_a_problem_for_programs_without_admission() {
    let nodes = three(|facts| facts.info.members = Some("a:1/0 b:1/0".into()));
    assert_eq!(wrong(&nodes), only(Severity::Problem, "members", "a"));
    let findings = judge(&nodes, STRICT);
    assert!(findings.iter().all(|finding| finding.check != "members"), "{findings:?}");
    let found = judge(&nodes, Topology::Replicated { strict: false });
    let found = found.into_iter().find(|finding| finding.check == "members").expect("judged");
    assert!(found.what.contains("[a:1/0, b:1/0]"), "{found:?}");
}

/// Admission does not see each memory that goes back (SAFETY.md A3).
#[test]
fn commands_that_bring_a_memory_back_are_a_warning_under_admission() {
    let stats = "cmdstat_swapdb:calls=2,usec=9\r\ncmdstat_flushall:calls=1,usec=9\r\n";
    let nodes = three(|facts| facts.info.replaced_by = Info::parse(stats).replaced_by);
    assert_eq!(wrong(&nodes), [], "nothing is proven there");
    let found: Vec<_> =
        judge(&nodes, STRICT).into_iter().filter(|f| f.severity != Severity::Ok).collect();
    let [finding] = &found[..] else { panic!("{found:?}") };
    assert_eq!((finding.severity, finding.check), (Severity::Warn, "memory"));
    assert!(finding.what.ends_with("flushall (1), swapdb (2)"), "{finding:?}");
}

#[test]
fn slots_without_a_master_are_a_problem() {
    let told = |state: &'static str, assigned| {
        let nodes = three(|facts| {
            facts.info.mode = Some("cluster".into());
            facts.info.cluster_state = Some(state.into());
            facts.info.slots_assigned = Some(assigned);
        });
        let found = judge(&nodes, Topology::Cluster);
        found.into_iter().filter(|found| found.check == "slots").collect::<Vec<_>>()
    };
    assert_eq!(told("ok", 16_384)[0].severity, Severity::Ok);
    assert_eq!(told("ok", 16_383)[0].severity, Severity::Problem);
    assert_eq!(told("fail", 16_384)[0].severity, Severity::Problem);
}

#[test]
fn a_loading_node_is_a_problem() {
    let nodes = three(|facts| facts.info.loading = Some(true));
    assert_eq!(wrong(&nodes), only(Severity::Problem, "loading", "a"));
}

#[test]
fn eviction_is_a_problem_once_there_is_a_limit() {
    let evicting = |limit| {
        three(move |facts| {
            facts.info.maxmemory = Some(limit);
            facts.info.maxmemory_policy = Some("allkeys-lru".into());
        })
    };
    assert_eq!(wrong(&evicting(0)), only(Severity::Warn, "eviction", "a"));
    assert_eq!(wrong(&evicting(1 << 30)), only(Severity::Problem, "eviction", "a"));
    assert_eq!(wrong(&three(|facts| facts.info.maxmemory = Some(1 << 30))), []);
}

#[test]
fn a_memory_of_its_own_needs_every_write_on_disk() {
    let nodes = three(|facts| facts.info.aof = Some(false));
    assert_eq!(wrong(&nodes), only(Severity::Warn, "persistence", "a"));
    for fsync in [None, Some("everysec".to_owned())] {
        let nodes = three(|facts| facts.info.appendfsync = fsync);
        assert_eq!(wrong(&nodes), only(Severity::Warn, "persistence", "a"));
    }
}

#[test]
fn what_is_true_of_several_nodes_is_said_once() {
    let nodes = ["a", "b", "c"].map(|name| {
        let (node, mut facts) = good(name);
        facts.info.aof = Some(false);
        given(node, facts)
    });
    assert_eq!(wrong(&nodes), only(Severity::Warn, "persistence", "a b c"));
}

#[test]
fn clocks_apart_are_a_warning_if_the_round_trips_cannot_explain_it() {
    let apart = |spread: Duration, round_trip| {
        three(move |facts| {
            facts.clock = Some(i64::try_from(spread.as_micros()).unwrap());
            facts.round_trips.best = round_trip;
        })
    };
    let ms = Duration::from_millis;
    assert_eq!(wrong(&apart(ms(100), ms(1))), []);
    assert_eq!(wrong(&apart(ms(102), ms(1))), only(Severity::Warn, "clocks", "a b"));
    assert_eq!(wrong(&apart(ms(200), ms(300))), []);
    assert_eq!(wrong(&three(|facts| facts.clock = None)), []);
}

#[test]
fn strict_admission_covers_what_a_restart_forgets_and_nothing_else() {
    let spoils: [fn(&mut Facts); 2] =
        [|facts| facts.info.aof = Some(false), |facts| facts.info.appendfsync = None];
    for spoil in spoils {
        let found = judge(&three(spoil), STRICT);
        assert!(found.iter().all(|finding| finding.severity == Severity::Ok), "{found:?}");
        let of_it = found.iter().find(|finding| finding.check == "persistence").unwrap();
        for part in ["admission covers", "longest lease", "marks"] {
            assert!(of_it.what.contains(part), "{of_it:?}");
        }
        assert_eq!(wrong(&three(spoil)).len(), 1, "without admission it is a warning");
    }
    let evicts = judge(&three(|facts| facts.info.maxmemory_policy = Some("x".into())), STRICT);
    assert!(evicts.iter().any(|finding| finding.severity == Severity::Warn), "{evicts:?}");
}

#[test]
fn what_the_user_lacks_is_as_bad_as_what_locks_lack_without_it() {
    let lacks = |right: &str| three(|facts| facts.missing_rights = vec![right.to_owned()]);
    let found = |right: &str, topology| {
        let found = judge(&lacks(right), topology).into_iter();
        let found = found.filter(|finding| finding.check == "permissions");
        found.map(|finding| (finding.severity, finding.what)).collect::<Vec<_>>()
    };
    let strict = |right: &str| found(right, STRICT);
    let lacking = |right: &str, lost: &str| format!("the user lacks {right}: {lost}");
    for right in ["+time", "+hmget", "~quorumlock:*"] {
        let expected = (Severity::Problem, lacking(right, "no lock is granted"));
        assert_eq!(strict(right), [expected]);
    }
    assert_eq!(strict("+type"), [(Severity::Warn, lacking("+type", "some calls fail"))]);
    assert_eq!(strict("+publish"), [(Severity::Warn, lacking("+publish", "waiters poll"))]);
    let good = || vec![(Severity::Ok, "the user may do all that locks need".to_owned())];
    assert_eq!(strict("+hexists"), good(), "Redlock's layout does without");
    assert_eq!(found("+hmget", REDLOCK)[0].0, Severity::Warn, "plain Redlock, too");
    assert_eq!(found("+hmget", Topology::Replicated { strict: false }), good());
}
