//! Judges what the facts mean for locks. Does no I/O.

use std::fmt;
use std::time::Duration;

use quorumlock::Name;
use quorumlock_redis::permissions::{PERMISSIONS, Without};
use serde::Serialize;

use super::facts::{Answer, Facts, Info, NodeFacts};
use crate::servers::{Topology, majority};
use crate::trial::Trial;

/// One result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) check: &'static str,
    /// The nodes concerned; empty if the finding concerns all.
    pub(super) nodes: Vec<String>,
    pub(super) what: String,
    /// What to do about it.
    #[serde(rename = "do")]
    pub(super) remedy: Option<&'static str>,
    /// Whether nobody must act, while programs that lock run.
    #[serde(rename = "heals_by_itself")]
    pub(super) heals: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Ok,
    Warn,
    Problem,
}

/// The checks for servers that stand so to each other.
fn checks(topology: Topology) -> Vec<&'static Check> {
    let of_a_quorum = matches!(topology, Topology::Quorum { .. });
    let applies = |check: &&Check| match check.name {
        "number" | "distinct" | "role" => of_a_quorum,
        // Under strict admission the record is judged with all that it says.
        "members" => !topology.is_strict(),
        "memory" => topology.is_strict(),
        _ => true,
    };
    let own = match topology {
        Topology::Quorum { .. } => &[][..],
        Topology::Replicated { strict: true } => &[&ONE_MASTER, &REPLICATION],
        Topology::Replicated { strict: false } => &[&ONE_MASTER],
        Topology::Cluster => &[&SLOTS],
    };
    CHECKS.iter().filter(applies).chain(own.iter().copied()).collect()
}

/// Judges all nodes. A check that finds nothing wrong gives one `Ok`.
pub(super) fn judge(nodes: &[NodeFacts], topology: Topology) -> Vec<Finding> {
    let told = |node: &NodeFacts| node.facts().is_some_and(|facts| facts.info.run_id.is_some());
    let all_told = nodes.iter().all(told);
    let mut findings = permissions(nodes, topology);
    if findings.is_empty() && all_told {
        findings.push(Finding::fleet(
            Severity::Ok,
            "the user may do all that locks need".into(),
            None,
        ));
    }
    findings.iter_mut().for_each(|finding| finding.check = "permissions");
    for check in checks(topology) {
        let mut found = (check.look)(nodes);
        if topology.is_strict() && check.name == "persistence" {
            found.iter_mut().for_each(covered_by_admission);
        }
        // A check that could not see every node has not passed: the checks "reach" and "info" say
        // why.
        if found.is_empty() && all_told {
            found.push(Finding::fleet(Severity::Ok, check.passed.into(), None));
        }
        findings.extend(found.into_iter().map(|found| Finding { check: check.name, ..found }));
    }
    findings
}

/// NTP keeps clocks of one site within a few milliseconds of each other, and of the whole world
/// within some tens.
const CLOCKS_WITHIN: Duration = Duration::from_millis(100);

struct Check {
    name: &'static str,
    passed: &'static str,
    look: fn(&[NodeFacts]) -> Vec<Finding>,
}

const CHECKS: &[Check] = &[
    Check { name: "reach", passed: "every node answers", look: reach },
    Check { name: "info", passed: "every node tells about itself", look: info },
    Check { name: "number", passed: "one node, or an odd number of them", look: number },
    Check { name: "distinct", passed: "every address is a server of its own", look: distinct },
    Check { name: "role", passed: "masters without replicas", look: role },
    Check { name: "members", passed: "no node belongs to a strict cluster", look: members },
    Check { name: "memory", passed: "no command has replaced a memory", look: memory },
    Check { name: "loading", passed: "no node is loading its data", look: loading },
    Check { name: "eviction", passed: "no lock is evicted for want of memory", look: eviction },
    Check { name: "persistence", passed: "no grant is forgotten in a restart", look: persistence },
    Check { name: "clocks", passed: "the nodes' clocks agree", look: clocks },
    Check { name: "lock", passed: "every node takes and gives back a lock", look: lock },
];

/// Of a master and its replicas, instead of the check of the same name.
const ONE_MASTER: Check = Check { name: "role", passed: "one of them is the master", look: master };

/// Of a master that must prove its memory.
const REPLICATION: Check = Check {
    name: "replication",
    passed: "the master keeps its replication id while it is the master",
    look: replication,
};

/// Of a Redis Cluster.
const SLOTS: Check = Check { name: "slots", passed: "every slot has a master", look: slots };

fn reach(nodes: &[NodeFacts]) -> Vec<Finding> {
    let silent = |node: &NodeFacts| match &node.answer {
        Answer::Silent { error } => Some(Finding::node(
            node,
            Severity::Problem,
            format!("no answer: {error}"),
            "start it, or mend its address, password or network",
        )),
        Answer::Given(_) => None,
    };
    nodes.iter().filter_map(silent).collect()
}

fn info(nodes: &[NodeFacts]) -> Vec<Finding> {
    each(nodes, |info| {
        let hidden = info.run_id.is_none();
        hidden.then(|| {
            (
                Severity::Warn,
                "INFO is refused: what it is and how it is set up cannot be examined".into(),
                "allow the command: ACL SETUSER <user> +info +config|get +time",
            )
        })
    })
}

const ALLOW: &str = "allow it: ACL SETUSER <user>, followed by what is lacking";

/// What the user may not do, and what locks lack without it.
fn permissions(nodes: &[NodeFacts], topology: Topology) -> Vec<Finding> {
    let quorum = matches!(topology, Topology::Quorum { .. }) && nodes.len() > 1;
    let mut findings = Vec::<Finding>::new();
    for node in nodes {
        for right in node.facts().iter().flat_map(|facts| &facts.missing_rights) {
            let row = PERMISSIONS.iter().find(|row| right.strip_prefix('+') == Some(row.command));
            let without = row.map(|row| if quorum { row.quorum } else { row.single });
            let (severity, lost) = match without {
                Some(Without::Unused) => continue,
                // Plain Redlock needs less.
                Some(Without::Refused) if quorum && !topology.is_strict() => {
                    (Severity::Warn, "under strict admission no lock is granted")
                }
                None | Some(Without::Refused) => (Severity::Problem, "no lock is granted"),
                Some(Without::Fails(_)) => (Severity::Warn, "some calls fail"),
                Some(Without::Works(lost)) => (Severity::Warn, lost),
            };
            let what = format!("the user lacks {right}: {lost}");
            match findings.iter_mut().find(|finding| finding.what == what) {
                Some(finding) => finding.nodes.push(node.node.clone()),
                None => findings.push(Finding::node(node, severity, what, ALLOW)),
            }
        }
    }
    findings
}

fn number(nodes: &[NodeFacts]) -> Vec<Finding> {
    if nodes.len() % 2 == 1 {
        return Vec::new();
    }
    let count = nodes.len();
    let failures = count - majority(count);
    vec![Finding::fleet(
        Severity::Warn,
        format!("{count} nodes survive as many failures ({failures}) as {} would", count - 1),
        Some("use an odd number of nodes"),
    )]
}

fn distinct(nodes: &[NodeFacts]) -> Vec<Finding> {
    let run_id = |node: &NodeFacts| node.facts()?.info.run_id.clone();
    let mut found = Vec::new();
    for (index, one) in nodes.iter().enumerate() {
        let same = |other: &&NodeFacts| run_id(one).is_some() && run_id(one) == run_id(other);
        if let Some(other) = nodes[index + 1..].iter().find(same) {
            found.push(Finding {
                nodes: vec![one.node.clone(), other.node.clone()],
                ..Finding::fleet(
                    Severity::Problem,
                    "one and the same server: its failure would count twice".into(),
                    Some("list every server once, and no two databases of one server"),
                )
            });
        }
    }
    found
}

fn role(nodes: &[NodeFacts]) -> Vec<Finding> {
    each(nodes, |info| match (info.mode.as_deref(), info.role.as_deref(), info.replicas) {
        (Some(mode @ ("sentinel" | "cluster")), _, _) => Some((
            Severity::Problem,
            format!("runs as {mode}, and locks need independent servers"),
            "list standalone masters, or say cluster: before the URLs for a Redis Cluster",
        )),
        (_, Some("slave"), _) => Some((
            Severity::Problem,
            "a replica: it takes no locks, and knows its master's too late".into(),
            "list its master instead",
        )),
        (_, _, Some(replicas @ 1..)) => Some((
            Severity::Warn,
            format!("has replicas ({replicas}): one that is promoted lacks the latest locks"),
            "do not fail over to a replica while locks are held, or use a quorum without replicas",
        )),
        _ => None,
    })
}

/// Of programs without strict admission, which such a node grants no lock (ADM9).
fn members(nodes: &[NodeFacts]) -> Vec<Finding> {
    each(nodes, |info| {
        let list = info.members.as_ref()?.replace(' ', ", ");
        Some((
            Severity::Problem,
            format!(
                "belongs to the cluster [{list}], and grants no lock to programs without strict \
                 admission"
            ),
            "give all nodes of the cluster, and --admission strict; if the cluster is no more, delete \
             its record in the database of the URL of each server: DEL quorumlock:node",
        ))
    })
}

/// What can bring an earlier memory back while the server runs on, of which admission may see nothing (A3).
fn memory(nodes: &[NodeFacts]) -> Vec<Finding> {
    each(nodes, |info| {
        let told = |(command, calls): &(String, u64)| format!("{command} ({calls})");
        let commands: Vec<_> = info.replaced_by.iter().map(told).collect();
        (!commands.is_empty()).then(|| {
            (
                Severity::Warn,
                format!(
                    "has run commands that can bring an earlier memory back: {}",
                    commands.join(", ")
                ),
                "if one of them brought an admission record back, stop all programs for the longest lease \
                 and run quorumlock init --force; then CONFIG RESETSTAT",
            )
        })
    })
}

fn master(nodes: &[NodeFacts]) -> Vec<Finding> {
    let is_master = |node: &&NodeFacts| {
        node.facts().is_some_and(|facts| facts.info.role.as_deref() == Some("master"))
    };
    let masters: Vec<_> = nodes.iter().filter(is_master).map(|node| node.node.clone()).collect();
    let (what, remedy) = match masters.len() {
        1 => return Vec::new(),
        0 => ("none of them is known to be a master: no locks are taken", "promote one of them"),
        _ => ("all of these are masters: two clients may hold one lock", "demote the old master"),
    };
    let finding = Finding::fleet(Severity::Problem, what.into(), Some(remedy));
    vec![Finding { nodes: masters, ..finding }]
}

/// A master whose replication id changes must prove its memory again (ADM7).
fn replication(nodes: &[NodeFacts]) -> Vec<Finding> {
    let forgets = each(nodes, |info| match info.repl_backlog_ttl? {
        0 => None,
        seconds => Some((
            Severity::Warn,
            format!(
                "repl-backlog-ttl is {seconds} s: a master that has no replica for so long must prove its \
                 memory again when one comes back"
            ),
            "CONFIG SET repl-backlog-ttl 0, and the same in its configuration file",
        )),
    });
    let alone = each(nodes, |info| match (info.role.as_deref(), info.replicas) {
        (Some("master"), Some(0)) => Some((
            Severity::Warn,
            "the master has no replica: it must prove its memory again when its first one comes"
                .into(),
            "attach its replicas before programs take locks",
        )),
        _ => None,
    });
    [forgets, alone].concat()
}

fn slots(nodes: &[NodeFacts]) -> Vec<Finding> {
    each(nodes, |info| match (info.cluster_state.as_deref()?, info.slots_assigned?) {
        (state, assigned) if state != "ok" || assigned < Name::SLOTS => Some((
            Severity::Problem,
            format!(
                "the cluster's state is {state}, {assigned} of {} slots have a master: names of the others \
                 have no lock",
                Name::SLOTS
            ),
            "redis-cli --cluster check shows what is missing; --cluster fix assigns slots",
        )),
        _ => None,
    })
}

fn loading(nodes: &[NodeFacts]) -> Vec<Finding> {
    let mut found = each(nodes, |info| {
        (info.loading == Some(true)).then(|| {
            (
                Severity::Problem,
                "still loading its data, takes no locks".into(),
                "wait until it has loaded them: a large file takes minutes",
            )
        })
    });
    found.iter_mut().for_each(|finding| finding.heals = true);
    found
}

fn eviction(nodes: &[NodeFacts]) -> Vec<Finding> {
    each(nodes, |info| match (info.maxmemory, info.maxmemory_policy.as_deref()) {
        (_, Some("noeviction") | None) => None,
        (Some(0) | None, Some(policy)) => Some((
            Severity::Warn,
            format!("maxmemory-policy is {policy}: with a memory limit it would delete locks"),
            "CONFIG SET maxmemory-policy noeviction",
        )),
        (Some(_), Some(policy)) => Some((
            Severity::Problem,
            format!("maxmemory-policy is {policy}: held locks are deleted when memory is full"),
            "CONFIG SET maxmemory-policy noeviction, or keep locks on servers of their own",
        )),
    })
}

fn persistence(nodes: &[NodeFacts]) -> Vec<Finding> {
    each(nodes, |info| match (info.aof?, info.appendfsync.as_deref()) {
        (true, Some("always")) => None,
        (true, fsync) => Some((
            Severity::Warn,
            format!(
                "appendfsync is {}: a crash forgets the last grants",
                fsync.unwrap_or("hidden")
            ),
            "CONFIG SET appendfsync always, or keep it down for a whole lease after a crash",
        )),
        (false, _) => Some((
            Severity::Warn,
            "no append-only file: a restart forgets locks that are held".into(),
            "appendonly yes with appendfsync always, or keep it down for a whole lease",
        )),
    })
}

/// Under strict admission a restarted node counts for nothing for the longest lease and twice the
/// clock bound, whatever it has kept (SAFETY.md H10): persistence adds nothing to exclusion there.
fn covered_by_admission(finding: &mut Finding) {
    finding.severity = Severity::Ok;
    finding.remedy = None;
    finding.what += ". Strict admission covers that: a restarted node votes again only after the \
                     longest lease and twice the clock bound. appendfsync always would still keep \
                     the fencing marks when a majority restarts at once";
}

/// What the nodes did with the lock of a reserved name. That a replica takes none is found by the role.
fn lock(nodes: &[NodeFacts]) -> Vec<Finding> {
    each_fact(nodes, |facts| match &facts.lock {
        _ if facts.info.role.as_deref() == Some("slave") => None,
        Trial::Refused { why, remedy } => {
            Some((Severity::Problem, format!("takes no lock: {why}"), *remedy))
        }
        Trial::NotAllowed => Some((
            Severity::Warn,
            "whether it takes a lock was not tried: the user may not write".into(),
            "give doctor the user of the programs that lock",
        )),
        Trial::Taken { took, within } if *took > *within => Some((
            Severity::Warn,
            format!("is slow: lock and release took {took:.0?}, and a lock waits {within:.0?}"),
            Trial::SLOW,
        )),
        Trial::Taken { .. } | Trial::Elsewhere => None,
    })
}

fn clocks(nodes: &[NodeFacts]) -> Vec<Finding> {
    let clock = |node| Some((node, NodeFacts::facts(node)?.clock?));
    let known = nodes.iter().filter_map(clock).collect::<Vec<_>>();
    let first = known.iter().min_by_key(|(_, clock)| *clock);
    let last = known.iter().max_by_key(|(_, clock)| *clock);
    let (Some((slow, behind)), Some((fast, ahead))) = (first, last) else { return Vec::new() };
    let half_trip =
        |node: &NodeFacts| node.facts().map_or(Duration::ZERO, |f| f.round_trips.best / 2);
    let spread = Duration::from_micros(ahead.abs_diff(*behind));
    if spread.saturating_sub(half_trip(slow) + half_trip(fast)) <= CLOCKS_WITHIN {
        return Vec::new();
    }
    vec![Finding {
        nodes: vec![fast.node.clone(), slow.node.clone()],
        ..Finding::fleet(
            Severity::Warn,
            format!(
                "clocks differ by {spread:.1?}: when one is set, leases there end early or late"
            ),
            Some("run NTP or chrony on every server"),
        )
    }]
}

impl Finding {
    fn node(node: &NodeFacts, severity: Severity, what: String, remedy: &'static str) -> Self {
        Self { nodes: vec![node.node.clone()], ..Self::fleet(severity, what, Some(remedy)) }
    }

    /// Leaves the check's name to `judge`.
    fn fleet(severity: Severity, what: String, remedy: Option<&'static str>) -> Self {
        Self { severity, check: "", nodes: Vec::new(), what, remedy, heals: false }
    }
}

/// Checks what each node tells about itself.
fn each(
    nodes: &[NodeFacts],
    look: impl Fn(&Info) -> Option<(Severity, String, &'static str)>,
) -> Vec<Finding> {
    each_fact(nodes, |facts| look(&facts.info))
}

/// Checks each node that answered; nodes with the same finding share one entry.
fn each_fact(
    nodes: &[NodeFacts],
    look: impl Fn(&Facts) -> Option<(Severity, String, &'static str)>,
) -> Vec<Finding> {
    let mut findings = Vec::<Finding>::new();
    for node in nodes {
        let Some((severity, what, remedy)) = node.facts().and_then(&look) else { continue };
        match findings.iter_mut().find(|finding| finding.what == what) {
            Some(finding) => finding.nodes.push(node.node.clone()),
            None => findings.push(Finding::node(node, severity, what, remedy)),
        }
    }
    findings
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Problem => "problem",
        })
    }
}

#[cfg(test)]
mod tests;
