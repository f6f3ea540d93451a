//! What a change waits for, as text. Does no I/O.

use std::mem::{Discriminant, discriminant};

use quorumlock::admission::{ChangeStep, NodeStatus, NoteStep};

use crate::cluster::{Cluster, Cure};
use crate::text::brief;

/// One state of a change. It is told once, though its times go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    phase: u64,
    step: Discriminant<ChangeStep>,
    waits_for: Vec<Waiting>,
}

type Waiting = (String, Option<Discriminant<NodeStatus>>, Option<Discriminant<NoteStep>>);

/// The state, and the text for people. `cluster`: the nodes for which the change waits are among
/// these.
pub(super) fn state(phase: u64, step: &ChangeStep, cluster: &Cluster<'_>) -> (State, String) {
    let mut waits_for = Vec::new();
    let text = match step {
        ChangeStep::Done => format!("phase {phase}: done"),
        ChangeStep::Wait(left) => {
            format!("phase {phase}: waits {}, until earlier leases have ended", brief(*left))
        }
        ChangeStep::Begin(next) => match &next.next {
            Some(list) => {
                format!("phase {}: the nodes vote for [{}] and [{list}]", next.phase, next.list)
            }
            None => format!("phase {}: the nodes vote for [{}] only", next.phase, next.list),
        },
        ChangeStep::Unconfirmed(labels) => {
            let mut reasons = Vec::new();
            for label in labels {
                let node = cluster.nodes.iter().find(|node| node.label == *label);
                let status = node.and_then(|node| node.status.as_ref().ok()).map(discriminant);
                let note = node.and_then(|node| node.note.as_ref()).map(discriminant);
                waits_for.push((label.to_string(), status, note));
                reasons.push(reason(label, cluster));
            }
            format!("phase {phase}: waits for {}", reasons.join("; "))
        }
    };
    (State { phase, step: discriminant(step), waits_for }, text)
}

fn reason(label: &str, cluster: &Cluster<'_>) -> String {
    let node = cluster.nodes.iter().find(|node| *node.label == *label);
    let remark = node.and_then(|node| cluster.obstacle(node));
    match remark {
        // It votes by an earlier phase.
        None => format!("{label}: does not show this phase yet"),
        Some(remark) => match remark.cure {
            Cure::Itself(within) => {
                format!("{label}: {}, votes within {}", remark.what, brief(within))
            }
            Cure::Operator(action) => format!("{label}: {} ({action})", remark.what),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorumlock::NodeProblem;
    use quorumlock::admission::NodeStatusReport;

    use super::*;

    fn refused() -> NodeProblem {
        NodeProblem::NotConnected("refused".into())
    }

    fn waits_for_c(status: Option<NodeStatus>, note: Option<NoteStep>) -> (State, String) {
        let mut nodes = ["a", "b", "c"].map(|label| {
            let mut node = NodeStatusReport::silent(format!("redis://{label}"), label, refused());
            node.status = Ok(NodeStatus::Admitted(Default::default()));
            node
        });
        (nodes[2].status, nodes[2].note) = (status.ok_or_else(refused), note);
        let cluster = Cluster::new(&nodes, Duration::from_secs(70));
        state(2, &ChangeStep::Unconfirmed(vec!["c".into()]), &cluster)
    }

    #[test]
    fn a_state_is_the_same_while_only_times_go_on() {
        let wait = |secs| {
            let note = NoteStep::Wait(Duration::from_secs(secs));
            waits_for_c(Some(NodeStatus::New), Some(note))
        };
        let (state, text) = wait(12);
        assert!(text.contains("c: is new") && text.contains("votes within 12s"), "{text}");
        assert_eq!(wait(11).0, state);
        assert_ne!(waits_for_c(Some(NodeStatus::New), Some(NoteStep::Mature)).0, state);
        assert_ne!(waits_for_c(Some(NodeStatus::Unproven), Some(NoteStep::Write)).0, state);
    }

    #[test]
    fn a_node_that_does_not_come_is_told_with_what_to_do() {
        let (_, silent) = waits_for_c(None, None);
        assert!(
            silent.contains("c: does not answer: not connected: refused (start it"),
            "{silent}"
        );
        let (_, clock) = waits_for_c(Some(NodeStatus::ClockDiffers(-9_000_000)), None);
        assert!(clock.contains("9s behind") && clock.contains("set the clock"), "{clock}");
        let (_, told) = waits_for_c(Some(NodeStatus::Admitted(Default::default())), None);
        assert!(told.ends_with("waits for c: does not show this phase yet"), "{told}");
    }
}
