//! Judges which nodes of a quorum vote, why the others do not, and who must act. Does no I/O.

use std::time::Duration;

use quorumlock::admission::{MemberList, NodeStatus, NodeStatusReport, NoteStep, Terms};

use crate::text::brief;

/// What the nodes of one list show.
#[derive(Debug)]
pub(crate) struct Cluster<'a> {
    pub(crate) nodes: &'a [NodeStatusReport],
    /// How old a note must be before its node is admitted.
    age: Duration,
    list: MemberList,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remark {
    /// The labels of the nodes concerned; empty if all are.
    pub(crate) nodes: Vec<String>,
    pub(crate) what: String,
    pub(crate) cure: Cure,
}

/// Who must act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cure {
    /// Nobody: the node votes within this time, if programs that lock run then.
    Itself(Duration),
    /// An operator.
    Operator(&'static str),
}

/// A program with an old list that came longer ago may have ended.
pub(crate) const LATELY: Duration = Duration::from_secs(600);

impl<'a> Cluster<'a> {
    /// `nodes` are all nodes of the list.
    pub(crate) fn new(nodes: &'a [NodeStatusReport], age: Duration) -> Self {
        let list = MemberList::new(nodes.iter().map(|node| node.label.clone()));
        Self { nodes, age, list }
    }

    /// How old a note must be.
    pub(crate) fn age(&self) -> Duration {
        self.age
    }

    /// How many nodes vote.
    pub(crate) fn votes(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_admitted()).count()
    }

    /// How many must vote for a lock.
    pub(crate) fn needed(&self) -> usize {
        self.list.quorum()
    }

    pub(crate) fn majority_votes(&self) -> bool {
        self.votes() >= self.needed()
    }

    /// How many nodes answer.
    pub(crate) fn answers(&self) -> usize {
        let answers = |node: &&NodeStatusReport| match &node.status {
            Ok(_) => true,
            Err(problem) => problem.answered(),
        };
        self.nodes.iter().filter(answers).count()
    }

    /// The newest lists that a node votes for.
    pub(crate) fn newest(&self) -> Option<&'a Terms> {
        let terms = self.nodes.iter().filter_map(|node| node.terms.as_ref());
        terms.max_by_key(|terms| terms.phase)
    }

    /// Why the node does not vote.
    pub(crate) fn obstacle(&self, node: &NodeStatusReport) -> Option<Remark> {
        let remark = |what, cure| Remark { nodes: vec![node.label.to_string()], what, cure };
        let operator = |what, action| Some(remark(what, Cure::Operator(action)));
        let status = match &node.status {
            Ok(status) => status,
            Err(problem) if problem.answered() => {
                return operator(
                    problem.to_string(),
                    problem.hint().unwrap_or("set it up as expected"),
                );
            }
            Err(problem) => {
                return operator(
                    format!("does not answer: {problem}"),
                    "start it, or mend its address, password or network",
                );
            }
        };
        let what = status.problem()?.to_string();
        match status {
            NodeStatus::New | NodeStatus::Unproven => {
                let what = format!("{what}; {}", note(node.note));
                let waits = || Cure::Itself(self.waits(node));
                Some(remark(what, self.bar(node).map_or_else(waits, Cure::Operator)))
            }
            NodeStatus::ClockDiffers(_) if self.own_clock_is_wrong() => operator(
                what,
                "the clocks of all servers differ in this way: set the clock of this machine",
            ),
            NodeStatus::ClockDiffers(_) => operator(
                what,
                "set the clock that is wrong: the server's, or, if the other servers agree with \
                 it, this machine's",
            ),
            NodeStatus::OtherMembers { .. } => operator(
                what,
                "give all programs the same nodes, and to a server with two addresses one label in \
                 all URLs (?label=NAME); if the other cluster is gone: quorumlock init --force",
            ),
            NodeStatus::ConfigMismatch(_) => {
                operator(what, "give the same --max-lease and --clock-bound everywhere")
            }
            NodeStatus::NewerProtocol(_) => {
                operator(what, "use the version of quorumlock that the programs use")
            }
            _ => operator(what, "set it up as expected"),
        }
    }

    /// What is unfinished about the list of nodes, and who does not know it.
    pub(crate) fn remarks(&self) -> Vec<Remark> {
        let Some(newest) = self.newest() else { return Vec::new() };
        let mut remarks = Vec::new();
        let labels = |nodes: Vec<&NodeStatusReport>| {
            nodes.into_iter().map(|node| node.label.to_string()).collect::<Vec<_>>()
        };
        let is_behind = |node: &&NodeStatusReport| {
            node.terms.as_ref().is_some_and(|terms| terms.phase < newest.phase)
        };
        let behind = labels(self.nodes.iter().filter(is_behind).collect());
        if let Some(next) = &newest.next {
            remarks.push(Remark {
                nodes: Vec::new(),
                what: format!("a change from [{}] to [{next}] is under way", newest.list),
                cure: Cure::Operator(if behind.is_empty() {
                    "give all programs the second list, then run `quorumlock members finish` with \
                     it; or go back: run it with the first list"
                } else {
                    "run `quorumlock members add` or `remove` again, until all nodes vote for both"
                }),
            });
        }
        if !behind.is_empty() {
            remarks.push(Remark {
                nodes: behind,
                what: format!("shows a phase before {}", newest.phase),
                cure: Cure::Operator(match newest.next {
                    Some(_) => "run `quorumlock members add` or `remove` again",
                    None => {
                        "run `quorumlock members finish` again; if that does not help, restart it"
                    }
                }),
            });
        }
        remarks.extend(self.outdated());
        remarks
    }

    /// Programs that lately came with a list that is not the newest.
    pub(crate) fn outdated(&self) -> Vec<Remark> {
        let mut remarks = Vec::<Remark>::new();
        let mut seen = Vec::<(&MemberList, Duration, Vec<String>)>::new();
        for node in self.nodes {
            let Some((list, ago)) = &node.outdated else { continue };
            // This command itself came with its own list.
            if *ago > LATELY || *list == self.list {
                continue;
            }
            match seen.iter_mut().find(|(other, ..)| *other == list) {
                Some((_, last, labels)) => {
                    *last = (*last).min(*ago);
                    labels.push(node.label.to_string());
                }
                None => seen.push((list, *ago, vec![node.label.to_string()])),
            }
        }
        for (list, ago, nodes) in seen {
            remarks.push(Remark {
                nodes,
                what: format!("a program came {} ago with the list [{list}]", brief(ago)),
                cure: Cure::Operator("give that program the newest list"),
            });
        }
        remarks
    }

    /// If the nodes vote for this list, and for a newer one.
    pub(crate) fn given_old_list(&self) -> Option<Remark> {
        let next = self.newest()?.next.as_ref().filter(|next| **next != self.list)?;
        Some(Remark {
            nodes: Vec::new(),
            what: format!("the list in --node is the old one; the new one is [{next}]"),
            cure: Cure::Operator("give the new list, to see its nodes, too"),
        })
    }

    /// Why programs do not admit this node without an operator.
    fn bar(&self, node: &NodeStatusReport) -> Option<&'static str> {
        let any = |is: fn(&NodeStatus) -> bool| {
            self.nodes.iter().any(|n| n.status.as_ref().is_ok_and(is))
        };
        if any(|status| matches!(status, NodeStatus::OtherMembers { .. })) {
            return Some(
                "no node is admitted while one belongs to another cluster: mend that first",
            );
        }
        if any(|status| matches!(status, NodeStatus::ConfigMismatch(_))) {
            return Some("give the same --max-lease and --clock-bound everywhere first");
        }
        if any(|status| matches!(status, NodeStatus::NewerProtocol(_))) {
            return Some("no node is admitted by an older quorumlock: use that of the programs");
        }
        if self.majority_votes() {
            return None;
        }
        if node.note == Some(NoteStep::OtherList) {
            return Some(
                "give all programs the same nodes, stop them for the longest lease, and run \
                 quorumlock init --force",
            );
        }
        let ready = |node: &NodeStatusReport| match &node.status {
            Ok(NodeStatus::Admitted(_)) => {
                node.terms.as_ref().is_some_and(|terms| terms.admit_only(&self.list))
            }
            Ok(NodeStatus::New | NodeStatus::Unproven) => node.note != Some(NoteStep::OtherList),
            _ => false,
        };
        (!self.nodes.iter().all(ready)).then_some(
            "too few nodes vote, and then programs admit nodes only when all are ready: mend the \
             others, or stop all programs for the longest lease, and run quorumlock init --force",
        )
    }

    /// Within which time a node votes that no operator must admit.
    fn waits(&self, node: &NodeStatusReport) -> Duration {
        let matures = |node: &NodeStatusReport| match node.note {
            Some(NoteStep::Wait(left)) => left,
            Some(NoteStep::Mature) => Duration::ZERO,
            _ => self.age,
        };
        if self.majority_votes() {
            return matures(node);
        }
        // All are admitted at once.
        let unproven = self.nodes.iter().filter(|node| !node.is_admitted());
        unproven.map(matures).max().unwrap_or(self.age)
    }

    /// Whether the clocks of all servers differ from ours to the same side.
    fn own_clock_is_wrong(&self) -> bool {
        let ahead = |node: &NodeStatusReport| match node.status {
            Ok(NodeStatus::ClockDiffers(micros)) => Some(micros > 0),
            _ => None,
        };
        let first = ahead(&self.nodes[0]);
        self.nodes.len() > 1 && first.is_some() && self.nodes.iter().all(|n| ahead(n) == first)
    }
}

fn note(step: Option<NoteStep>) -> String {
    match step {
        None => "its record is of an earlier version".into(),
        Some(NoteStep::Write) => "no program has written a note on it yet".into(),
        Some(NoteStep::Wait(left)) => format!("its note is mature in {}", brief(left)),
        Some(NoteStep::Mature) => "its note is mature".into(),
        Some(NoteStep::TakeOver | NoteStep::OtherList) => {
            "its note is of programs with another list of nodes".into()
        }
        Some(NoteStep::ClocksDiffer(_)) => "its clock differs".into(),
    }
}

#[cfg(test)]
mod tests;
