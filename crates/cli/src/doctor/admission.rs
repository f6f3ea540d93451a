//! Which nodes of a quorum may vote, and whether the next one may be restarted.

use quorumlock::Locker;
use quorumlock::admission::{NodeStatus, NodeStatusReport};

use super::judge::{Finding, Severity, majority};

/// Asks the nodes for their status. If they do not answer, the other checks report why.
pub(super) async fn examine(locker: &Locker) -> Vec<Finding> {
    locker.node_status().await.map_or_else(|_| Vec::new(), |nodes| judge(&nodes))
}

fn judge(nodes: &[NodeStatusReport]) -> Vec<Finding> {
    let voters = nodes.iter().filter(|node| votes(node)).count();
    let mut findings: Vec<_> = nodes.iter().filter_map(|node| objection(node, nodes)).collect();
    let needed = majority(nodes.len());
    findings.push(if voters == nodes.len() {
        finding(Severity::Ok, "every node may vote: one of them may be restarted".into(), None)
    } else if voters > needed {
        finding(
            Severity::Warn,
            format!("{voters} nodes may vote and a lock needs {needed}: restart no other node now"),
            Some("wait until all of them vote again: restarts are a longest lease apart"),
        )
    } else {
        finding(
            if voters < needed { Severity::Problem } else { Severity::Warn },
            format!("{voters} nodes may vote and a lock needs {needed}: restart none of those"),
            Some("wait for the longest lease, or admit the others: quorumlock init"),
        )
    });
    findings
}

fn votes(node: &NodeStatusReport) -> bool {
    matches!(node.status, Some(NodeStatus::Admitted(_)))
}

fn objection(node: &NodeStatusReport, nodes: &[NodeStatusReport]) -> Option<Finding> {
    let blank = |node: &NodeStatusReport| matches!(node.status, Some(NodeStatus::New(_)));
    let (severity, what, remedy) = match node.status.as_ref()? {
        NodeStatus::Admitted(_) => return None,
        NodeStatus::New(_) if nodes.iter().all(blank) => (
            Severity::Warn,
            "new: votes when a program has watched it for the longest lease".to_owned(),
            "admit it: quorumlock init",
        ),
        NodeStatus::New(_) => (
            Severity::Warn,
            "new, or has lost its memory: votes when a program has watched it for the longest lease"
                .to_owned(),
            "wait, or admit it if no lock can have been forgotten: quorumlock init",
        ),
        NodeStatus::Unproven(_) => (
            Severity::Warn,
            "has restarted or lost its memory: votes when a program has watched it for the longest \
             lease"
                .to_owned(),
            "wait, or admit it if no lock can have been forgotten: quorumlock init",
        ),
        NodeStatus::Unfit(error) => (Severity::Problem, error.to_string(), "set it up as expected"),
        NodeStatus::ConfigMismatch(error) => (
            Severity::Problem,
            error.to_string(),
            "give the same cluster, epoch, nodes and longest lease everywhere",
        ),
    };
    Some(Finding { nodes: vec![node.node.clone()], ..finding(severity, what, Some(remedy)) })
}

fn finding(severity: Severity, what: String, remedy: Option<&'static str>) -> Finding {
    Finding { severity, check: "admission", nodes: Vec::new(), what, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(standings: [Option<NodeStatus>; 3]) -> Vec<NodeStatusReport> {
        let name =
            |i: usize, standing| NodeStatusReport { node: format!("n{i}"), status: standing };
        standings.into_iter().enumerate().map(|(i, standing)| name(i, standing)).collect()
    }

    fn last(standings: [Option<NodeStatus>; 3]) -> (Severity, String) {
        let verdict = judge(&nodes(standings)).pop().expect("always one");
        (verdict.severity, verdict.what)
    }

    #[test]
    fn a_node_may_be_restarted_only_while_all_vote() {
        let yes = || Some(NodeStatus::Admitted(Default::default()));
        assert_eq!(last([yes(), yes(), yes()]).0, Severity::Ok);
        let (severity, what) = last([yes(), yes(), Some(NodeStatus::Unproven(None))]);
        assert_eq!(severity, Severity::Warn);
        assert!(what.contains("restart none"), "{what}");
        assert_eq!(last([yes(), None, Some(NodeStatus::New(None))]).0, Severity::Problem);
    }

    #[test]
    fn each_node_that_may_not_vote_is_named_with_what_to_do() {
        let blank = || Some(NodeStatus::New(None));
        let findings = judge(&nodes([blank(), blank(), blank()]));
        assert_eq!(findings.len(), 4);
        for finding in &findings[..3] {
            assert!(finding.remedy.is_some_and(|remedy| remedy.contains("init")), "{finding:?}");
        }
        assert_eq!(findings[0].nodes, ["n0"]);
    }
}
