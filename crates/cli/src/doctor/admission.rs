//! Which nodes of a quorum may vote, and whether the next one may be restarted.

use std::time::Duration;

use quorumlock::Locker;
use quorumlock::admission::{NodeStatus, NodeStatusReport};

use super::facts::{Facts, NodeFacts};
use super::judge::{Finding, Severity};
use crate::cluster::{Cluster, Cure, Remark};
use crate::servers::Topology;
use crate::text::brief;

/// Asks the nodes for their status. `facts` are those of the servers. `age`: how old a note must be.
pub(super) async fn examine(
    locker: &Locker,
    facts: &[NodeFacts],
    topology: Topology,
    age: Duration,
) -> Vec<Finding> {
    let answers: Vec<_> = facts.iter().map(|node| node.facts().is_some()).collect();
    let answers = match topology {
        // One node, wherever the master is.
        Topology::Replicated { .. } => vec![answers.contains(&true)],
        _ => answers,
    };
    let refuses =
        |facts: &&Facts| facts.lock.refuses() && facts.info.role.as_deref() != Some("slave");
    let refuse = facts.iter().filter_map(NodeFacts::facts).filter(refuses).count();
    let status = locker.node_status().await;
    status.map_or_else(|_| Vec::new(), |nodes| judge(&nodes, &answers, refuse, age))
}

/// `answers`: whether each node answered the other checks, which report those that did not; `refuse`: how many
/// nodes take no lock, whatever their admission.
fn judge(
    nodes: &[NodeStatusReport],
    answers: &[bool],
    refuse: usize,
    age: Duration,
) -> Vec<Finding> {
    let cluster = Cluster::new(nodes, age);
    let wait = if is_new(nodes) { INIT } else { "wait" };
    let finding = |severity, remark| finding(severity, remark, wait);
    let objection = |(node, answers): (&NodeStatusReport, &bool)| {
        let remark = cluster.obstacle(node).filter(|_| *answers || node.status.is_ok())?;
        Some(Finding { nodes: vec![node.node.clone()], ..finding(severity(node), remark) })
    };
    let mut findings: Vec<_> = nodes.iter().zip(answers).filter_map(objection).collect();
    let of_the_list = cluster.remarks().into_iter().map(|remark| finding(Severity::Warn, remark));
    findings.extend(of_the_list);
    findings.push(verdict(&cluster, refuse));
    findings
}

/// The check whether the next node may be restarted.
pub(super) const RESTART: &str = "restart";

/// What an operator may do for a quorum of new nodes.
const INIT: &str = "run quorumlock init once, or wait";

/// Whether no node of the quorum has ever been admitted.
fn is_new(nodes: &[NodeStatusReport]) -> bool {
    nodes.iter().all(|node| matches!(node.status, Ok(NodeStatus::New)))
}

/// How bad it is that the node does not vote.
fn severity(node: &NodeStatusReport) -> Severity {
    match node.status {
        Ok(NodeStatus::New | NodeStatus::Unproven) => Severity::Warn,
        _ => Severity::Problem,
    }
}

/// `wait`: what an operator may do about what mends itself.
fn finding(severity: Severity, remark: Remark, wait: &'static str) -> Finding {
    let Remark { nodes, what, cure } = remark;
    let (what, remedy, heals) = match cure {
        Cure::Operator(action) => (what, action, false),
        Cure::Itself(within) => (
            format!("{what}: votes within {}, if a program that locks runs then", brief(within)),
            wait,
            true,
        ),
    };
    Finding { severity, check: "admission", nodes, what, remedy: Some(remedy), heals }
}

fn verdict(cluster: &Cluster<'_>, refuse: usize) -> Finding {
    // Some that refuse may not be admitted either.
    let (votes, needed) = (cluster.votes().saturating_sub(refuse), cluster.needed());
    let (severity, mut what, remedy) = if let [_] = cluster.nodes {
        match votes > 0 {
            true => (
                Severity::Ok,
                "the server may vote: a restart costs all locks, until it has proven its memory"
                    .into(),
                None,
            ),
            false => (
                Severity::Problem,
                "the server may not vote: no lock is granted".into(),
                Some("wait until it has proven its memory, or see to what is said above"),
            ),
        }
    } else if is_new(cluster.nodes) {
        (Severity::Problem, "all nodes are new: no lock is granted yet".into(), Some(INIT))
    } else if votes == cluster.nodes.len() {
        (Severity::Ok, "every node may vote: one of them may be restarted".into(), None)
    } else if votes > needed {
        (
            Severity::Warn,
            format!("{votes} nodes may vote and a lock needs {needed}: restart no other node now"),
            Some("wait until all of them vote again"),
        )
    } else {
        (
            if votes < needed { Severity::Problem } else { Severity::Warn },
            format!("{votes} nodes may vote and a lock needs {needed}: restart none of those"),
            Some("see to the others first"),
        )
    };
    if cluster.nodes.iter().any(|node| node.status.is_err()) {
        what += &format!(
            ". A node that has been restarted votes again by itself within {}, if a program that locks \
             runs then",
            brief(cluster.age())
        );
    }
    let mut obstacles = cluster.nodes.iter().filter_map(|node| cluster.obstacle(node));
    let heals = remedy.is_some()
        && refuse == 0
        && obstacles.all(|remark| matches!(remark.cure, Cure::Itself(_)));
    Finding { severity, check: RESTART, nodes: Vec::new(), what, remedy, heals }
}

#[cfg(test)]
mod tests {
    use quorumlock::NodeProblem;
    use quorumlock::admission::NoteStep;

    use super::*;

    const AGE: Duration = Duration::from_secs(70);

    fn nodes(states: [Option<NodeStatus>; 3]) -> Vec<NodeStatusReport> {
        let node = |(i, status): (usize, Option<NodeStatus>)| {
            let (node, label) = (format!("redis://n{i}"), format!("n{i}"));
            let no_eval = NodeProblem::Permission("NOPERM eval".into());
            let mut report = NodeStatusReport::silent(node, label, no_eval);
            report.note = status.as_ref().map(|_| NoteStep::Wait(Duration::from_secs(12)));
            report.status = status.map_or(report.status, Ok);
            report
        };
        states.into_iter().enumerate().map(node).collect()
    }

    fn last(states: [Option<NodeStatus>; 3]) -> (Severity, String) {
        let verdict = judge(&nodes(states), &[true; 3], 0, AGE).pop().expect("always one");
        (verdict.severity, verdict.what)
    }

    #[test]
    fn a_new_quorum_is_told_init_and_nothing_of_restarts() {
        let new = || Some(NodeStatus::New);
        let findings = judge(&nodes([new(), new(), new()]), &[true; 3], 0, AGE);
        let verdict = findings.last().expect("always one");
        assert_eq!((verdict.severity, verdict.remedy), (Severity::Problem, Some(INIT)));
        assert!(!verdict.what.contains("restart"), "{}", verdict.what);
    }

    #[test]
    fn a_node_may_be_restarted_only_while_all_vote() {
        let yes = || Some(NodeStatus::Admitted(Default::default()));
        assert_eq!(last([yes(), yes(), yes()]).0, Severity::Ok);
        let (severity, what) = last([yes(), yes(), Some(NodeStatus::Unproven)]);
        assert_eq!(severity, Severity::Warn);
        assert!(what.contains("restart none"), "{what}");
        assert_eq!(last([yes(), None, Some(NodeStatus::New)]).0, Severity::Problem);
    }

    #[test]
    fn each_node_that_may_not_vote_is_named_with_when_it_votes_and_what_to_do() {
        let blank = || Some(NodeStatus::New);
        let findings = judge(&nodes([blank(), blank(), blank()]), &[true; 3], 0, AGE);
        assert_eq!(findings.len(), 4);
        for finding in &findings[..3] {
            assert!(finding.remedy.is_some_and(|remedy| remedy.contains("init")), "{finding:?}");
            assert!(finding.what.contains("votes within 12s"), "{finding:?}");
        }
        assert!(findings.iter().all(|finding| finding.heals), "{findings:?}");
        assert_eq!(findings[0].nodes, ["redis://n0"]);
    }

    /// `init` is for servers that are all new.
    #[test]
    fn beside_a_node_that_has_a_record_nobody_is_told_to_run_init() {
        let (yes, blank) = (NodeStatus::Admitted(Default::default()), || Some(NodeStatus::New));
        for first in [yes, NodeStatus::Unproven] {
            let findings = judge(&nodes([Some(first), blank(), blank()]), &[true; 3], 0, AGE);
            let texts = findings.iter().map(|found| format!("{} {:?}", found.what, found.remedy));
            let texts: Vec<_> = texts.filter(|text| text.contains("init once")).collect();
            assert_eq!(texts, [] as [&str; 0]);
        }
    }

    #[test]
    fn a_silent_node_is_left_to_the_check_that_says_why() {
        let findings = judge(&nodes([None, None, None]), &[false, false, true], 0, AGE);
        assert_eq!(findings.len(), 2, "{findings:?}");
        let Finding { severity, nodes, what, .. } = &findings[0];
        assert_eq!((severity, &**what), (&Severity::Problem, "no permission: NOPERM eval"));
        assert_eq!(nodes, &["redis://n2"], "it answered the other checks");
        assert!(findings.iter().all(|finding| !finding.heals), "{findings:?}");
        assert!(findings[1].what.contains("votes again by itself within 1m 10s"), "{findings:?}");
    }
}
