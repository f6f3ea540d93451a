//! The page: verdict first, then all results, then each scenario, then what is needed to repeat it.

mod about;
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

/// What the page is of.
#[derive(Debug)]
pub(super) struct Overview<'a> {
    /// The directories.
    pub(super) sources: &'a [Source],
    /// What was run.
    pub(super) scenarios: &'a [Scenario<'a>],
    /// What it says.
    pub(super) verdict: &'a Verdict,
}

/// The place of a scenario in the page.
fn anchor(scenario: &Scenario<'_>) -> String {
    format!("scenario-{}", super::clean::plain(scenario.id))
}
