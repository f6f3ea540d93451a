//! What `quorumlock members` prints. Does no I/O.

use std::fmt;
use std::time::Duration;

use comfy_table::{Table, presets};
use quorumlock::admission::{NodeStatus, NodeStatusReport, NoteStep, Terms};
use quorumlock_command::exit;
use serde::Serialize;

use super::programs::Programs;
use crate::cluster::{Cluster, Cure, Remark};
use crate::nodes::millis;
use crate::text::{brief, labels};
use crate::trial::Trial;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    votes: usize,
    /// How many must vote for a lock.
    needed: usize,
    answers: usize,
    /// The newest that a node shows.
    phase: Option<u64>,
    /// The lists whose programs the nodes of that phase vote for: two during a change.
    lists: Vec<Vec<String>>,
    nodes: Vec<Node>,
    /// What heals by itself, while programs that lock run.
    heals: Vec<Advice>,
    /// What an operator must do.
    operator: Vec<Advice>,
}

#[derive(Debug, Serialize)]
struct Node {
    label: String,
    node: String,
    votes: bool,
    state: &'static str,
    /// Why it does not say whether it votes.
    reason: Option<String>,
    phase: Option<u64>,
    lists: Vec<Vec<String>>,
    note: Option<Note>,
    /// How far its clock is ahead, if it differs too much to be admitted.
    clock_ahead_ms: Option<i64>,
    outdated: Option<Outdated>,
}

#[derive(Debug, Serialize)]
struct Note {
    step: &'static str,
    age_ms: Option<u64>,
    mature_in_ms: Option<u64>,
}

/// A program came with a list that is not the newest.
#[derive(Debug, Serialize)]
struct Outdated {
    list: Vec<String>,
    ago_ms: u64,
}

#[derive(Debug, Serialize)]
struct Advice {
    nodes: Vec<String>,
    what: String,
    /// How long it takes at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    within_ms: Option<u64>,
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    action: Option<&'static str>,
}

impl Report {
    /// `trials`: what each node did with the lock of a reserved name, if it was tried.
    /// `programs`: those that are connected with a list that is not the newest.
    pub(super) fn new(
        cluster: &Cluster<'_>,
        trials: &[Option<Trial>],
        programs: &Programs,
    ) -> Self {
        let obstacles = cluster.nodes.iter().filter_map(|node| cluster.obstacle(node));
        let advice = obstacles.chain(cluster.remarks()).chain(cluster.given_old_list());
        let refused = cluster.nodes.iter().zip(trials).filter_map(|(node, trial)| match trial {
            Some(Trial::Refused { why, remedy }) if node.is_admitted() => Some(Remark {
                nodes: vec![node.label.to_string()],
                what: format!("takes no lock: {why}"),
                cure: Cure::Operator(remedy),
            }),
            _ => None,
        });
        let connected = programs.lines().into_iter().map(|what| Remark {
            nodes: Vec::new(),
            what,
            cure: Cure::Operator("give that program the newest list"),
        });
        let advice = advice.chain(refused).chain(connected).map(Advice::from);
        let (heals, operator) = grouped(advice).into_iter().partition(|it| it.action.is_none());
        let newest = cluster.newest();
        let all = cluster.nodes.iter().enumerate();
        let nodes = all.map(|(at, node)| {
            let refuses = trials.get(at).and_then(Option::as_ref).is_some_and(Trial::refuses);
            Node::new(node, refuses, cluster)
        });
        let nodes: Vec<_> = nodes.collect();
        Self {
            votes: nodes.iter().filter(|node| node.votes).count(),
            needed: cluster.needed(),
            answers: cluster.answers(),
            phase: newest.map(|terms| terms.phase),
            lists: newest.map(lists).unwrap_or_default(),
            nodes,
            heals,
            operator,
        }
    }

    /// Whether one of the nodes may be restarted.
    pub(super) fn all_vote(&self) -> bool {
        self.votes == self.nodes.len()
    }

    pub(super) fn votes_of_all(&self) -> String {
        let (votes, all) = (self.votes, self.nodes.len());
        format!("{votes} of {all} nodes vote; a lock needs {}", self.needed)
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            _ if self.votes >= self.needed => 0,
            _ if self.answers < self.needed => exit::UNREACHABLE,
            _ => exit::CONFIG,
        }
    }
}

impl Node {
    fn new(node: &NodeStatusReport, refuses: bool, cluster: &Cluster<'_>) -> Self {
        let state = match &node.status {
            Err(problem) if problem.answered() => "refuses",
            status => state(status.as_ref().ok()),
        };
        Self {
            label: node.label.to_string(),
            node: node.node.clone(),
            votes: node.is_admitted() && !refuses,
            state: if node.is_admitted() && refuses { "refuses" } else { state },
            reason: node.status.as_ref().err().map(ToString::to_string),
            phase: node.terms.as_ref().map(|terms| terms.phase),
            lists: node.terms.as_ref().map(lists).unwrap_or_default(),
            note: node.note.map(|step| Note::new(step, cluster.age())),
            clock_ahead_ms: match node.status {
                Ok(NodeStatus::ClockDiffers(micros)) => Some(micros / 1_000),
                _ => None,
            },
            outdated: node
                .outdated
                .as_ref()
                .map(|(list, ago)| Outdated { list: labels(list), ago_ms: millis(*ago) }),
        }
    }
}

impl Note {
    fn new(step: NoteStep, age: Duration) -> Self {
        let left = match step {
            NoteStep::Wait(left) => Some(left),
            _ => None,
        };
        Self {
            step: match step {
                NoteStep::Write => "none",
                NoteStep::Wait(_) => "wait",
                NoteStep::Mature => "mature",
                NoteStep::TakeOver | NoteStep::OtherList => "other_list",
                NoteStep::ClocksDiffer(_) => "clocks_differ",
            },
            age_ms: left.map(|left| millis(age.saturating_sub(left))),
            mature_in_ms: left.map(millis),
        }
    }
}

impl From<Remark> for Advice {
    fn from(Remark { nodes, what, cure }: Remark) -> Self {
        let (within_ms, action) = match cure {
            Cure::Itself(within) => (Some(millis(within)), None),
            Cure::Operator(action) => (None, Some(action)),
        };
        Self { nodes, what, within_ms, action }
    }
}

/// Nodes about which the same is said share one entry.
fn grouped(all: impl Iterator<Item = Advice>) -> Vec<Advice> {
    let mut groups = Vec::<Advice>::new();
    for advice in all {
        let same = |group: &&mut Advice| group.what == advice.what && group.action == advice.action;
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.nodes.extend(advice.nodes);
                group.within_ms = group.within_ms.max(advice.within_ms);
            }
            None => groups.push(advice),
        }
    }
    groups
}

fn state(status: Option<&NodeStatus>) -> &'static str {
    match status {
        None => "silent",
        Some(NodeStatus::Admitted(_)) => "admitted",
        Some(NodeStatus::Unproven) => "unproven",
        Some(NodeStatus::New) => "new",
        Some(NodeStatus::ClockDiffers(_)) => "clock_differs",
        Some(NodeStatus::OtherMembers { .. }) => "other_members",
        Some(NodeStatus::Unfit(_)) => "unfit",
        Some(NodeStatus::ConfigMismatch(_)) => "config_mismatch",
        Some(NodeStatus::NewerProtocol(_)) => "newer_protocol",
        Some(_) => "unknown",
    }
}

fn lists(terms: &Terms) -> Vec<Vec<String>> {
    [Some(&terms.list), terms.next.as_ref()].into_iter().flatten().map(labels).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["label", "address", "votes", "phase", "note"]);
        for node in &self.nodes {
            table.add_row(row(node));
        }
        writeln!(f, "{table}\n")?;
        let mut shown = Vec::new();
        for Node { phase, lists, .. } in &self.nodes {
            let Some(phase) = phase else { continue };
            if !shown.contains(&(phase, lists)) {
                shown.push((phase, lists));
                let lists: Vec<_> =
                    lists.iter().map(|list| format!("[{}]", list.join(", "))).collect();
                writeln!(f, "phase {phase}: votes for {}", lists.join(" and "))?;
            }
        }
        for advice in &self.heals {
            let within = Duration::from_millis(advice.within_ms.unwrap_or(0));
            let (who, what) = (advice.nodes.join(", "), &advice.what);
            writeln!(f, "heals by itself within {}: {who}: {what}", brief(within))?;
        }
        for Advice { nodes, what, action, .. } in &self.operator {
            let who = if nodes.is_empty() { String::new() } else { nodes.join(", ") + ": " };
            writeln!(f, "operator: {who}{what}\n       -> {}", action.unwrap_or_default())?;
        }
        if !self.heals.is_empty() {
            writeln!(f, "nodes are admitted by programs that lock: one must run")?;
        }
        f.write_str(&self.votes_of_all())
    }
}

fn row(node: &Node) -> Vec<String> {
    let time = |ms| brief(Duration::from_millis(ms));
    let note = match &node.note {
        None => String::new(),
        Some(Note { age_ms: Some(age), mature_in_ms: Some(left), .. }) => {
            format!("{} old, mature in {}", time(*age), time(*left))
        }
        Some(note) => note.step.replace('_', " "),
    };
    vec![
        node.label.clone(),
        node.node.clone(),
        if node.votes { "yes".into() } else { format!("no: {}", node.state.replace('_', " ")) },
        node.phase.map(|phase| phase.to_string()).unwrap_or_default(),
        note,
    ]
}

#[cfg(test)]
mod tests {
    use quorumlock::NodeProblem;
    use quorumlock::admission::MemberList;

    use super::*;

    fn refused() -> NodeProblem {
        NodeProblem::NotConnected("refused".into())
    }

    fn nodes(third: NodeStatus, note: Option<NoteStep>) -> Vec<NodeStatusReport> {
        let list = MemberList::new(["a", "b", "c"]);
        let node = |label: &'static str| {
            let mut node = NodeStatusReport::silent(format!("redis://{label}"), label, refused());
            node.status = Ok(NodeStatus::Admitted(Default::default()));
            node.terms = Some(Terms { phase: 3, list: list.clone(), next: None });
            node
        };
        let mut nodes = ["a", "b", "c"].map(node).to_vec();
        (nodes[2].status, nodes[2].note, nodes[2].terms) = (Ok(third), note, None);
        nodes
    }

    fn report(nodes: &[NodeStatusReport]) -> Report {
        Report::new(&Cluster::new(nodes, Duration::from_secs(72)), &[], &Programs::default())
    }

    #[test]
    fn people_read_what_heals_and_when() {
        let wait = NoteStep::Wait(Duration::from_secs(12));
        let text = report(&nodes(NodeStatus::Unproven, Some(wait))).to_string();
        for part in [
            "no: unproven",
            "1m old, mature in 12s",
            "phase 3: votes for [a, b, c]",
            "heals by itself within 12s: c: has restarted",
            "2 of 3 nodes vote; a lock needs 2",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        assert!(!text.contains("operator"), "{text}");
    }

    #[test]
    fn people_read_what_an_operator_must_do() {
        let text = report(&nodes(NodeStatus::ClockDiffers(7_000_000), None)).to_string();
        assert!(text.contains("operator: c: is not admitted: its clock is 7s ahead"), "{text}");
        assert!(text.contains("-> set the clock"), "{text}");
    }

    #[test]
    fn nodes_about_which_the_same_is_said_share_one_entry_with_the_longest_wait() {
        let mut nodes =
            nodes(NodeStatus::Unproven, Some(NoteStep::Wait(Duration::from_millis(11_100))));
        // Five of eight vote.
        for (from, label, ms) in
            [(2, "e", 11_900), (2, "f", 11_500), (0, "d", 0), (0, "g", 0), (0, "h", 0)]
        {
            let mut node = nodes[from].clone();
            node.label = label.into();
            node.note = node.note.map(|_| NoteStep::Wait(Duration::from_millis(ms)));
            nodes.push(node);
        }
        let report = report(&nodes);
        assert_eq!(report.heals.len(), 1, "{:?}", report.heals);
        assert_eq!(report.heals[0].nodes, ["c", "e", "f"]);
        assert_eq!(report.heals[0].within_ms, Some(11_900));
    }

    #[test]
    fn the_exit_code_says_whether_a_majority_votes_or_answers() {
        let mut nodes = nodes(NodeStatus::New, Some(NoteStep::Write));
        assert_eq!(report(&nodes).exit_code(), 0);
        nodes[1] = nodes[2].clone();
        assert_eq!(report(&nodes).exit_code(), exit::CONFIG);
        nodes[1].status = Err(refused());
        nodes[2].status = Err(refused());
        assert_eq!(report(&nodes).exit_code(), exit::UNREACHABLE);
    }
}
