use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Load;

/// One run: one scenario in one mode, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// The name of the run and of its directory: `L16-R-process-s42-0`.
    pub run: String,
    /// The scenario's id: `L16`.
    pub scenario: String,
    /// The title of the scenario.
    pub title: String,
    /// What happens in the scenario, for people.
    pub story: String,
    /// The mode: `S`, `R`, `W`, `Q5`, `QQ`, `QF`, ... With another library it is `MODE:LIBRARY`.
    pub mode: String,
    /// The library whose locks were taken, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<LibraryFacts>,
    /// The driver of servers and lockers: `process`, `container` or `sim`.
    pub driver: String,
    /// Determines every random number of the run.
    pub seed: u64,
    /// The repetition of this scenario, mode and seed, from zero.
    pub repetition: u64,
    /// The version of quorumlock.
    #[serde(default)]
    pub quorumlock: String,
    /// The commit that was built, if known.
    #[serde(default)]
    pub commit: Option<String>,
    /// If the tree that was built differed from the commit: the hash of all differences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The lease in milliseconds.
    #[serde(default)]
    pub lease_ms: u64,
    /// The longest lease in milliseconds.
    #[serde(default)]
    pub max_lease_ms: u64,
    /// The load of a comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// The takeover delay in milliseconds.
    #[serde(default)]
    pub takeover_delay_ms: u64,
    /// What theory predicts.
    pub expected: Expected,
    /// What was observed.
    pub observed: Observed,
    /// Whether the observation agrees with theory.
    pub as_expected: bool,
    /// Why it does not agree, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The step of the schedule at which the run got stuck, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// When the run began, in nanoseconds since 1970.
    pub began_wall_ns: u64,
    /// How long the run lasted, including the start and stop of its servers.
    pub lasted_ms: f64,
    /// The servers, by number.
    pub nodes: Vec<NodeFacts>,
    /// A signal ended the run early: what was observed is true, but not complete.
    pub interrupted: bool,
}

/// What theory predicts for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    /// No violation and no stale effect.
    Ok,
    /// A violation or a stale effect. It must be observed, as proof that the lab detects it.
    Violation,
    /// No stale effect, because the resource refuses stale tokens. A refusal must be observed.
    Fenced,
    /// No violation and no stale effect, and a token that is not larger than that of every hold
    /// before. It must be observed.
    Disordered,
    /// The library refuses, with a clear error.
    Refused,
    /// Theory predicts nothing.
    Any,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Violation => "violation",
            Self::Fenced => "fenced",
            Self::Disordered => "disordered",
            Self::Refused => "refused",
            Self::Any => "any",
        })
    }
}

/// What was observed in a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Pairs of holds that were believed in at the same time.
    #[serde(rename = "V")]
    pub violations: u64,
    /// Holds that were still believed in when another hold was granted.
    #[serde(rename = "V_holders", default)]
    pub stale_holders: u64,
    /// How long at least two holders believed at the same time.
    #[serde(rename = "V_total_ms")]
    pub violated_ms: f64,
    /// The most tasks that believed at the same time to hold one name, or permits of it.
    #[serde(default)]
    pub holders: u64,
    /// Stale effects that the resource accepted.
    #[serde(rename = "E")]
    pub stale_effects: u64,
    /// Stale effects that the resource refused.
    #[serde(rename = "St")]
    pub refused_effects: u64,
    /// The longest time in which a task waited and no task believed to hold the lock.
    #[serde(rename = "U_ms")]
    pub vacancy_ms: f64,
    /// The total time in which a task waited and no task believed to hold the lock.
    #[serde(rename = "U_total_ms")]
    pub vacancy_total_ms: f64,
    /// The longest series of failed attempts of a client: from the first of them to its next
    /// attempt that was granted or found the lock held.
    #[serde(rename = "F_ms", default)]
    pub failing_ms: f64,
    /// The duration of all such series, over all clients.
    #[serde(rename = "F_total_ms", default)]
    pub failing_total_ms: f64,
    /// From the end of one belief to the next grant, if the next holder was already waiting:
    /// median.
    #[serde(rename = "H_p50_ms")]
    pub handover_p50_ms: Option<f64>,
    /// The same: 99th percentile.
    #[serde(rename = "H_p99_ms")]
    pub handover_p99_ms: Option<f64>,
    /// The same: maximum.
    #[serde(rename = "H_max_ms")]
    pub handover_max_ms: Option<f64>,
    /// Grants that overtook a call: another process had begun to wait for the name before, and waited
    /// on.
    #[serde(default)]
    pub overtakings: u64,
    /// The same, of 1,000 grants; `None` without a grant.
    #[serde(default)]
    pub overtakings_per_1000: Option<f64>,
    /// For each client, the longest time from a request to its grant, or until the client gave up.
    #[serde(default)]
    pub waited_ms: BTreeMap<String, f64>,
    /// The number of grants.
    pub grants: u64,
    /// The number of attempts that definitely failed. Attempts that were given up are not counted.
    pub attempts_failed: u64,
    /// Requests that the servers counted per grant, if the servers report their counts.
    pub requests_per_success: Option<f64>,
    /// The longest time from the first fault within a hold to the notice of the loss to its holder.
    #[serde(rename = "D_ms")]
    pub told_after_ms: Option<f64>,
    /// Holds whose token another hold of the same name also had.
    pub tokens_repeated: u64,
    /// Holds whose token was not larger than that of every hold before them.
    pub tokens_out_of_order: u64,
    /// Holders that were notified of a loss.
    pub lost: u64,
}

/// Another library whose locks a run took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryFacts {
    /// The name that the command line gave.
    pub name: String,
    /// The command of its worker.
    pub command: String,
    /// The library, as the worker says.
    pub library: String,
    /// Its version.
    pub version: String,
    /// Its options that are not the defaults.
    #[serde(default)]
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Whether exclusion holds in this scenario by the library's own pages; `None` if they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusion_promised: Option<bool>,
}

/// A server of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// The product and version that the server reports.
    pub version: String,
    /// The run id at the start of the run.
    pub run_id: String,
    /// `master`, `replica`, `voter` or `spare`.
    pub role: String,
}
