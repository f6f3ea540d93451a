use serde::{Deserialize, Serialize};

/// One scenario in one mode, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`](super::SCHEMA).
    pub schema: u32,
    /// Its name, which is that of its directory: `L16-R-process-s42-0`.
    pub run: String,
    /// The scenario's id: `L16`.
    pub scenario: String,
    /// The scenario in a few words.
    pub title: String,
    /// What happens in it, for people.
    pub story: String,
    /// The mode: `S`, `R`, `W`, `Q5`, `QQ`, `QF`, ...
    pub mode: String,
    /// What lockers and servers were: `process`, `container` or `sim`.
    pub driver: String,
    /// Decides every number that the run drew.
    pub seed: u64,
    /// Which run of this scenario, mode and seed, counted from zero.
    pub repetition: u64,
    /// What theory says.
    pub expected: Expected,
    /// What was seen.
    pub observed: Observed,
    /// Whether this is what theory says.
    pub as_expected: bool,
    /// Why not, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The step of the schedule at which it got stuck, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// When it began, since 1970.
    pub began_wall_ns: u64,
    /// How long it lasted, starting and stopping servers included.
    pub lasted_ms: f64,
    /// The servers, by number.
    pub nodes: Vec<NodeFacts>,
    /// Ended by a signal before it was over: what was observed is true, and not all.
    pub interrupted: bool,
}

/// What theory says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expected {
    /// No violation, no stale effect.
    Ok,
    /// A violation, or a stale effect, which must be observed: a lab that cannot show it proves
    /// nothing.
    Violation,
    /// No stale effect, since the resource refuses stale tokens, which must be observed.
    Fenced,
    /// The library refuses, with a clear error.
    Refused,
    /// Theory says nothing.
    Any,
}

/// What was seen in a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Pairs of holds that were believed in at the same time.
    #[serde(rename = "V")]
    pub violations: u64,
    /// Holds that somebody still believed in when another was granted.
    #[serde(rename = "V_holders", default)]
    pub stale_holders: u64,
    /// How long at least two believed.
    #[serde(rename = "V_total_ms")]
    pub violated_ms: f64,
    /// Stale effects that the resource accepted.
    #[serde(rename = "E")]
    pub stale_effects: u64,
    /// Stale effects that the resource refused.
    #[serde(rename = "St")]
    pub refused_effects: u64,
    /// The longest time with somebody waiting and nobody believing.
    #[serde(rename = "U_ms")]
    pub vacancy_ms: f64,
    /// All time with somebody waiting and nobody believing.
    #[serde(rename = "U_total_ms")]
    pub vacancy_total_ms: f64,
    /// From the end of one belief to the start of the next, of those who were waiting already.
    #[serde(rename = "H_p50_ms")]
    pub handover_p50_ms: Option<f64>,
    /// 99 of 100 within.
    #[serde(rename = "H_p99_ms")]
    pub handover_p99_ms: Option<f64>,
    /// The longest.
    #[serde(rename = "H_max_ms")]
    pub handover_max_ms: Option<f64>,
    /// Locks that were granted.
    pub grants: u64,
    /// Attempts that ended without a grant.
    pub attempts_failed: u64,
    /// What the servers were asked for each grant, if the servers could be asked.
    pub requests_per_success: Option<f64>,
    /// The longest time from a fault to the holder's being told of the loss.
    #[serde(rename = "D_ms")]
    pub told_after_ms: Option<f64>,
    /// Holds whose token another hold of the same name had, too.
    pub tokens_repeated: u64,
    /// Holds whose token was not larger than that of a hold before them.
    pub tokens_out_of_order: u64,
    /// Holders that were told of loss.
    pub lost: u64,
}

/// A server of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// What it says it is.
    pub version: String,
    /// The run id that it had at the start.
    pub run_id: String,
    /// `master`, `replica` or `voter`.
    pub role: String,
}
