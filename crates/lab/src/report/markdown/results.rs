use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::super::command_line::command_line;
use super::super::results::{ModeResult, Placed, Scenario, modes, scenarios};
use super::super::verdict::Verdict;
use super::super::words::{count, counted, three};
use super::text::{escaped, plain_spaces, table, wrapped};
use crate::record::{Lab, Run};
use crate::svg::clean;

const HEAD: &str = "\
<!--
Generated from the lab.json of the run; do not edit. To write it:
quorumlock-lab report --markdown DIR > docs/lab/RESULTS.md
-->
# Results of the lab
";

const MEANING: &str = "
[SCENARIOS.md](SCENARIOS.md) says what each scenario does, [LAB.md](../LAB.md) what verdicts and
figures mean. This page is the output of `quorumlock-lab report --markdown DIR`.

## Verdicts

Each cell is the expected verdict. It was observed, unless the cell says in how many of the runs:
\"(k of n)\". A violation counts as observed if one run shows it.

";

const FIGURES: &str = "
## Figures

Each cell: V/E/St, summed over the runs of a scenario in a mode, then the longest U in milliseconds.

";

/// The page `docs/lab/RESULTS.md`: where the runs were carried out, verdicts and figures per scenario
/// and mode, and the runs that are not as expected.
#[must_use]
pub fn results_page(labs: &[Lab]) -> String {
    let placed = labs
        .iter()
        .enumerate()
        .flat_map(|(source, lab)| lab.runs.iter().map(move |run| Placed { source, run }));
    let scenarios = scenarios(placed);
    let mut page = HEAD.to_owned();
    for lab in labs {
        page += &invocation(lab);
    }
    let sentence = plain_spaces(&Verdict::of(&scenarios).sentence());
    page += &format!("\n{}\n", wrapped("", &format!("In short: {sentence}")));
    page + MEANING
        + &matrix(&scenarios, verdict)
        + FIGURES
        + &matrix(&scenarios, figures)
        + &unexpected(labs)
}

/// One invocation of the lab: its command line, its programs, its machine, its runs.
pub(super) fn invocation(lab: &Lab) -> String {
    let environment = &lab.environment;
    let known = |name: &str, value: &Option<String>| {
        value.as_ref().map_or_else(String::new, |value| format!(", {name}{value}"))
    };
    let server = Some(environment.server.as_str()).filter(|server| !server.is_empty());
    let program = format!(
        "{}{}; {}",
        environment.program(),
        known("", &environment.rustc),
        server.unwrap_or("the server is not known"),
    );
    let machine = format!(
        "Machine: {}, {}, {} MiB of memory, {}{}; load before {}",
        environment.cpu,
        counted(environment.cpus as u64, "processor"),
        count(environment.memory_bytes >> 20),
        environment.kernel,
        known("clock source ", &environment.clocksource),
        environment.load_before.map(three).join(", "),
    );
    let items = [program, machine, summary(lab)].into_iter().chain(other_servers(lab));
    let items = items.map(|text| item(&text)).collect::<String>();
    format!("\n```sh\n{}\n```\n\n{items}", shell(lab))
}

/// The command line, without the place of the program on this machine.
fn shell(lab: &Lab) -> String {
    let mut words = lab.command_line.clone();
    if let Some(program) = words.first_mut()
        && let Some(name) = Path::new(program.as_str()).file_name()
    {
        *program = name.to_string_lossy().into_owned();
    }
    clean(&command_line(&words, lab.seed)).into_owned()
}

/// `597 runs on 2026-11-23 in 12m 3s, 596 as expected.`
fn summary(lab: &Lab) -> String {
    let ends = |run: &Run| run.began_wall_ns.saturating_add((run.lasted_ms * 1e6) as u64);
    let began = lab.runs.iter().map(|run| run.began_wall_ns).min().unwrap_or_default();
    let ended = lab.runs.iter().map(ends).max().unwrap_or_default();
    let day = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(began));
    let day = day.to_string().split('T').next().unwrap_or_default().to_owned();
    let lasted = Duration::from_nanos(ended.saturating_sub(began)).as_secs();
    let lasted = humantime::format_duration(Duration::from_secs(lasted));
    let good = lab.runs.iter().filter(|run| run.as_expected).count() as u64;
    let runs = counted(lab.runs.len() as u64, "run");
    let cut = if lab.interrupted { " Interrupted: not all runs were carried out." } else { "" };
    format!("{runs} on {day} in {lasted}, {} as expected.{cut}", count(good))
}

/// `Other servers: redis 7.0.15 in L23, L24.` Clocks cannot be set on each server.
fn other_servers(lab: &Lab) -> Option<String> {
    let mut others = BTreeMap::<&str, BTreeSet<&str>>::new();
    for run in &lab.runs {
        let versions = run.nodes.iter().map(|node| node.version.as_str());
        for version in versions.filter(|version| *version != lab.environment.server) {
            others.entry(version).or_default().insert(&run.scenario);
        }
    }
    let others = others.into_iter().map(|(version, scenarios)| {
        format!("{version} in {}", scenarios.into_iter().collect::<Vec<_>>().join(", "))
    });
    let others = others.collect::<Vec<_>>();
    (!others.is_empty()).then(|| format!("Other servers: {}.", others.join("; ")))
}

pub(super) fn item(text: &str) -> String {
    wrapped("- ", &escaped(&plain_spaces(text))) + "\n"
}

/// A row for each scenario, a column for each mode.
fn matrix(scenarios: &[Scenario<'_>], cell: fn(&ModeResult<'_>) -> String) -> String {
    let modes = modes(scenarios);
    let heading = ["id"].into_iter().chain(modes.iter().copied()).map(escaped).collect();
    let mut rows = vec![heading];
    for scenario in scenarios {
        let mut row = vec![escaped(scenario.id)];
        row.extend(modes.iter().map(|mode| {
            let results = scenario.results.iter().filter(|result| result.mode == *mode);
            let cells = results.map(|result| match result.delay() {
                Some(delay) => format!("{} (+{})", cell(result), plain_spaces(&delay)),
                None => cell(result),
            });
            let cells = cells.collect::<Vec<_>>();
            if cells.is_empty() { "-".to_owned() } else { cells.join("; ") }
        }));
        rows.push(row);
    }
    table(&rows)
}

fn verdict(result: &ModeResult<'_>) -> String {
    let expected = result.expected;
    match result.as_expected() {
        Some(true) => expected.to_string(),
        Some(false) => {
            let good = result.sum(|run| u64::from(run.as_expected));
            format!("{expected} ({good} of {})", result.runs.len())
        }
        None => format!("{expected} (interrupted)"),
    }
}

fn figures(result: &ModeResult<'_>) -> String {
    let v = result.sum(|run| run.observed.violations);
    let e = result.sum(|run| run.observed.stale_effects);
    let st = result.sum(|run| run.observed.refused_effects);
    let u = result.worst(|run| Some(run.observed.vacancy_ms)).unwrap_or_default();
    format!("{v}/{e}/{st} {u:.0}")
}

fn unexpected(labs: &[Lab]) -> String {
    let runs = labs.iter().flat_map(|lab| &lab.runs).filter(|run| !run.as_expected);
    let runs = runs.map(|run| {
        let why = run.why.as_deref().unwrap_or("the record does not say why");
        let stuck = run.stuck.as_ref().map(|step| format!(" (stuck: {step})"));
        item(&format!("{}: {why}{}.", run.run, stuck.unwrap_or_default()))
    });
    let runs = runs.collect::<String>();
    let runs = if runs.is_empty() { "None.\n".to_owned() } else { runs };
    format!("\n## Runs that are not as expected\n\n{runs}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample::run;
    use crate::record::{Environment, Expected, NodeFacts, SCHEMA};

    fn lab(runs: Vec<Run>) -> Lab {
        let words = ["target/release/quorumlock-lab", "run", "--all", "--seed", "42"];
        let environment = Environment {
            quorumlock: "0.1.0".to_owned(),
            commit: Some("0123abcd".to_owned()),
            build: "release".to_owned(),
            server: "Valkey 9.1.2".to_owned(),
            cpu: "A <fast> processor".to_owned(),
            cpus: 2,
            ..Environment::default()
        };
        Lab {
            schema: SCHEMA,
            command_line: words.map(str::to_owned).to_vec(),
            resumed: Vec::new(),
            seed: 42,
            interrupted: false,
            environment,
            runs,
            skipped: Vec::new(),
        }
    }

    #[track_caller]
    fn assert_has(page: &str, parts: &[&str]) {
        for part in parts {
            assert!(page.contains(part), "{part:?} in\n{page}");
        }
    }

    #[test]
    fn the_head_says_how_and_where() {
        let first = run("L01", "S", Expected::Ok);
        let second = Run { began_wall_ns: 89_000_000_000, ..first.clone() };
        let page = results_page(&[lab(vec![first, second])]);
        assert_has(
            &page,
            &[
                "quorumlock-lab report --markdown DIR > docs/lab/RESULTS.md\n",
                "\n```sh\nquorumlock-lab run --all --seed 42\n```\n",
                "- quorumlock 0.1.0, commit 0123abcd, release build; Valkey 9.1.2\n",
                "- Machine: A \\<fast\\> processor, 2 processors, 0 MiB",
                "- 2 runs on 1970-01-01 in 1m 30s, 2 as expected.\n",
                "\nIn short: 1 of 1 result as expected",
                "None.\n",
            ],
        );
    }

    #[test]
    fn another_server_of_some_runs_is_told() {
        let node = |version: &str| NodeFacts {
            version: version.to_owned(),
            run_id: String::new(),
            role: "voter".to_owned(),
        };
        let mut runs = ["L01", "L23", "L24"].map(|id| run(id, "S", Expected::Ok));
        let versions = ["Valkey 9.1.2", "redis 7.0.15", "redis 7.0.15"];
        for (run, version) in runs.iter_mut().zip(versions) {
            run.nodes = vec![node(version)];
        }
        let page = results_page(&[lab(runs.to_vec())]);
        assert_has(&page, &["- Other servers: redis 7.0.15 in L23, L24.\n"]);
    }

    #[test]
    fn cells_say_what_is_not_as_expected_and_sum_over_runs() {
        let mut runs = vec![
            run("L30", "QQ", Expected::Ok),
            run("L30", "QQ", Expected::Ok),
            run("L30", "S", Expected::Violation),
            run("L30", "S", Expected::Violation),
            run("L31", "S", Expected::Ok),
        ];
        (runs[1].as_expected, runs[2].as_expected) = (false, false);
        runs[1].why = Some("nobody held the lock for 2.72 s".to_owned());
        runs[1].observed.vacancy_ms = 2717.4;
        (runs[2].observed.violations, runs[3].observed.violations) = (0, 40);
        let page = results_page(&[lab(runs)]);
        assert_has(
            &page,
            &[
                "| id  | S         | QQ          |\n| --- | --------- | ----------- |\n",
                "| L30 | violation | ok (1 of 2) |\n| L31 | ok        | -           |\n",
                "| L30 | 40/0/0 0 | 0/0/0 2717 |\n",
                "- L30-QQ-process-s42-0: nobody held the lock for 2.72 s.\n",
                "- L30-S-process-s42-0: the record does not say why.\n",
            ],
        );
    }
}
