//! Which nodes of a quorum may vote, and whether the next one may be restarted.

use std::time::Duration;

use quorumlock::Locker;
use quorumlock::admission::{NodeStatus, NodeStatusReport};

use super::facts::NodeFacts;
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
    locker.node_status().await.map_or_else(|_| Vec::new(), |nodes| judge(&nodes, &answers, age))
}

/// `answers`: whether each node answered the other checks, which report those that did not.
fn judge(nodes: &[NodeStatusReport], answers: &[bool], age: Duration) -> Vec<Finding> {
    let cluster = Cluster::new(nodes, age);
    let objection = |(node, answers): (&NodeStatusReport, &bool)| {
        let remark = cluster.obstacle(node).filter(|_| *answers || node.status.is_ok())?;
        Some(Finding { nodes: vec![node.node.clone()], ..finding(severity(node), remark) })
    };
    let mut findings: Vec<_> = nodes.iter().zip(answers).filter_map(objection).collect();
    let of_the_list = cluster.remarks().into_iter().map(|remark| finding(Severity::Warn, remark));
    findings.extend(of_the_list);
    findings.push(verdict(&cluster));
    findings
}

/// How bad it is that the node does not vote.
fn severity(node: &NodeStatusReport) -> Severity {
    match node.status {
        Ok(NodeStatus::New | NodeStatus::Unproven) => Severity::Warn,
        _ => Severity::Problem,
    }
}

fn finding(severity: Severity, Remark { nodes, what, cure }: Remark) -> Finding {
    let (what, remedy, heals) = match cure {
        Cure::Operator(action) => (what, action, false),
        Cure::Itself(within) => (
            format!("{what}: votes within {}, if a program that locks runs then", brief(within)),
            "wait, or admit it if no lock can have been forgotten: quorumlock init",
            true,
        ),
    };
    Finding { severity, check: "admission", nodes, what, remedy: Some(remedy), heals }
}

fn verdict(cluster: &Cluster<'_>) -> Finding {
    let (votes, needed) = (cluster.votes(), cluster.needed());
    let (severity, mut what, remedy) = if let [node] = cluster.nodes {
        match node.is_admitted() {
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
    let heals = remedy.is_some() && obstacles.all(|remark| matches!(remark.cure, Cure::Itself(_)));
    Finding { severity, check: "admission", nodes: Vec::new(), what, remedy, heals }
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
        let verdict = judge(&nodes(states), &[true; 3], AGE).pop().expect("always one");
        (verdict.severity, verdict.what)
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
        let findings = judge(&nodes([blank(), blank(), blank()]), &[true; 3], AGE);
        assert_eq!(findings.len(), 4);
        for finding in &findings[..3] {
            assert!(finding.remedy.is_some_and(|remedy| remedy.contains("init")), "{finding:?}");
            assert!(finding.what.contains("votes within 12s"), "{finding:?}");
        }
        assert!(findings.iter().all(|finding| finding.heals), "{findings:?}");
        assert_eq!(findings[0].nodes, ["redis://n0"]);
    }

    #[test]
    fn a_silent_node_is_left_to_the_check_that_says_why() {
        let findings = judge(&nodes([None, None, None]), &[false, false, true], AGE);
        assert_eq!(findings.len(), 2, "{findings:?}");
        let Finding { severity, nodes, what, .. } = &findings[0];
        assert_eq!((severity, &**what), (&Severity::Problem, "no permission: NOPERM eval"));
        assert_eq!(nodes, &["redis://n2"], "it answered the other checks");
        assert!(findings.iter().all(|finding| !finding.heals), "{findings:?}");
        assert!(findings[1].what.contains("votes again by itself within 1m 10s"), "{findings:?}");
    }
}
