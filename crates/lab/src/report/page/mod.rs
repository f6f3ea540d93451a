//! The page: verdict first, then all results, then each scenario, then what is needed to repeat it.

mod about;
mod answer;
mod figure;
mod libraries;
mod matrix;
mod measured;
mod opening;
mod result_table;
mod scenario;
mod section;

pub(super) use self::about::closing;
pub(super) use self::opening::opening;
pub(super) use self::scenario::scenario;

use super::load::Source;
use super::results::Scenario;
use super::verdict::Verdict;

/// The contents of the page.
#[derive(Debug)]
pub(super) struct Overview<'a> {
    /// The directories of the lab.
    pub(super) sources: &'a [Source],
    /// The scenarios that were run.
    pub(super) scenarios: &'a [Scenario<'a>],
    /// The overall verdict.
    pub(super) verdict: &'a Verdict,
}

/// The anchor of a scenario in the page.
fn anchor(scenario: &Scenario<'_>) -> String {
    format!("scenario-{}", crate::svg::plain(scenario.id))
}
