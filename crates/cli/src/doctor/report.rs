use std::fmt;

use comfy_table::{Table, presets};
use quorumlock_command::exit;
use serde::Serialize;

use super::admission;
use super::facts::{Answer, Info, NodeFacts};
use super::judge::{Finding, Severity, judge};
use crate::servers::Topology;

/// What `quorumlock doctor` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    nodes: Vec<NodeFacts>,
    reachable: usize,
    /// How many nodes must grant a lock.
    needed: usize,
    findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(
        mut nodes: Vec<NodeFacts>,
        topology: Topology,
        admission: Vec<Finding>,
    ) -> Self {
        let mut findings = judge(&nodes, topology);
        findings.extend(admission);
        count_clocks_from_the_slowest(&mut nodes);
        let reachable = nodes.iter().filter(|node| node.facts().is_some()).count();
        Self { reachable, needed: topology.needed(nodes.len()), nodes, findings }
    }

    pub(super) fn exit_code(&self) -> u8 {
        if self.reachable < self.needed {
            exit::UNREACHABLE
        } else if self.findings.iter().any(|finding| finding.severity == Severity::Problem) {
            exit::CONFIG
        } else if self.findings.iter().any(forbids_a_restart) {
            exit::NOT_ALL
        } else {
            0
        }
    }
}

fn forbids_a_restart(finding: &Finding) -> bool {
    finding.check == admission::RESTART && finding.severity == Severity::Warn
}

/// Shows each clock relative to the slowest one: the common reference means nothing to readers.
fn count_clocks_from_the_slowest(nodes: &mut [NodeFacts]) {
    let slowest = nodes.iter().filter_map(|node| node.facts()?.clock).min().unwrap_or(0);
    for node in nodes {
        if let Answer::Given(facts) = &mut node.answer {
            facts.clock = facts.clock.map(|clock| clock - slowest);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "node",
            "answers in",
            "clock",
            "server",
            "role",
            "eviction",
            "persistence",
            "lacks (optional)",
        ]);
        for node in &self.nodes {
            table.add_row(row(node));
        }
        writeln!(f, "{table}\n")?;
        for Finding { severity, check, nodes, what, remedy, heals } in &self.findings {
            let who = if nodes.is_empty() { String::new() } else { nodes.join(", ") + ": " };
            writeln!(f, "{severity:8} {check:12} {who}{what}")?;
            if let Some(remedy) = remedy {
                let who = if *heals { "heals by itself" } else { "an operator must act" };
                writeln!(f, "{:21} -> {who}: {remedy}", "")?;
            }
        }
        write!(
            f,
            "\n{} of {} nodes answer; a lock needs {}",
            self.reachable,
            self.nodes.len(),
            self.needed,
        )
    }
}

fn row(node: &NodeFacts) -> Vec<String> {
    let Some(facts) = node.facts() else { return vec![node.node.clone(), "no answer".into()] };
    let info = &facts.info;
    let clock = facts.clock.map(|micros| format!("+{:.1} ms", micros as f64 / 1000.0));
    let server = info.server.as_ref().zip(info.version.as_ref());
    vec![
        node.node.clone(),
        format!("{:.1?}, at worst {:.1?}", facts.round_trips.median, facts.round_trips.worst),
        clock.unwrap_or_else(unknown),
        server.map_or_else(unknown, |(server, version)| format!("{server} {version}")),
        info.role.clone().unwrap_or_else(unknown),
        info.maxmemory_policy.clone().unwrap_or_else(unknown),
        persistence(info),
        facts.capabilities.lacks(),
    ]
}

fn persistence(info: &Info) -> String {
    let aof = match (info.aof, info.appendfsync.as_deref()) {
        (None, _) => return unknown(),
        (Some(false), _) => None,
        (Some(true), None) => Some("aof".to_owned()),
        (Some(true), Some(fsync)) => Some(format!("aof {fsync}")),
    };
    let snapshots = info.save.as_ref().filter(|save| !save.is_empty()).map(|_| "rdb".to_owned());
    let kinds = aof.into_iter().chain(snapshots).collect::<Vec<_>>();
    if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
}

fn unknown() -> String {
    "?".to_owned()
}
