use std::fmt;

use comfy_table::{Table, presets};
use quorumlock_command::{Outcome, print};
use quorumlock_lab::mode::Mode;
use quorumlock_lab::record::Expected;
use quorumlock_lab::report::{plans_page, scenarios_page};
use quorumlock_lab::runner::Driver;
use quorumlock_lab::scenario::{Scenario, all};
use serde::Serialize;

/// List the scenarios and what theory predicts for each in each mode.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Print the documentation's page of scenarios, docs/lab/SCENARIOS.md.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// Print the documentation's page of what a plan of one's own may contain, docs/lab/PLANS.md.
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    plans: bool,
}

pub(crate) fn list(args: &Args) -> Outcome {
    if args.markdown {
        print(false, &scenarios_page().trim_end())?;
        return Ok(0);
    }
    if args.plans {
        print(false, &plans_page().trim_end())?;
        return Ok(0);
    }
    print(args.json, &Listed { scenarios: all().iter().map(Entry::of).collect() })?;
    Ok(0)
}

#[derive(Serialize)]
struct Listed {
    scenarios: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    id: &'static str,
    title: &'static str,
    story: &'static str,
    expected: Vec<InMode>,
    /// The drivers that can carry it out in at least one mode.
    drivers: Vec<String>,
}

#[derive(Serialize)]
struct InMode {
    mode: Mode,
    expected: Expected,
}

impl Entry {
    fn of(scenario: &Scenario) -> Self {
        let Scenario { id, title, story, .. } = *scenario;
        let expected = Mode::ALL
            .into_iter()
            .filter_map(|mode| Some(InMode { mode, expected: scenario.expected(mode)? }));
        let runs = |driver: &Driver| Mode::ALL.into_iter().any(|mode| driver.runs(scenario, mode));
        let drivers = Driver::ALL.into_iter().filter(runs).map(|driver| driver.to_string());
        Self { id, title, story, expected: expected.collect(), drivers: drivers.collect() }
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let modes = Mode::KINDS.iter().map(ToString::to_string);
        let words = ["", "scenario"].map(str::to_owned).into_iter();
        table.set_header(words.chain(modes).chain(["drivers".to_owned()]));
        for scenario in &self.scenarios {
            let mut row = vec![scenario.id.to_owned(), scenario.title.to_owned()];
            row.extend(Mode::KINDS.iter().map(|mode| {
                let of_mode = scenario.expected.iter().find(|found| found.mode == *mode);
                of_mode.map_or_else(|| "-".to_owned(), |found| found.expected.to_string())
            }));
            row.push(scenario.drivers.join(" "));
            table.add_row(row);
        }
        write!(f, "{table}")
    }
}
