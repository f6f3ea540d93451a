use super::text::wrapped;
use crate::mode::Mode;
use crate::record::Expected;
use crate::runner::Driver;
use crate::scenario::{Scenario, all};

const HEAD: &str = "\
<!--
Generated from crates/lab/src/scenario; do not edit. To write it:
cargo run -p quorumlock-lab --bin quorumlock-lab -- list --markdown > docs/lab/SCENARIOS.md
-->
# The lab's scenarios

Each scenario says beforehand what theory expects of each mode. [LAB.md](../LAB.md) explains modes
and verdicts; [RESULTS.md](RESULTS.md) has what one full run observed. Q stands for Q3, Q5 and Q7.

A driver is listed if it can carry out the scenario in at least one mode. Each is a value of
`--driver`: `process` (the default), `container` (in a build with the feature `containers`), and
`sim` for the simulation.

This page is the output of `quorumlock-lab list --markdown`.
";

/// The page `docs/lab/SCENARIOS.md`: each scenario with its story, what theory expects of each mode,
/// and the drivers that can carry it out, whatever features this program was built with.
#[must_use]
pub fn scenarios_page() -> String {
    HEAD.to_owned() + &all().iter().map(section).collect::<String>()
}

fn section(scenario: &Scenario) -> String {
    let Scenario { id, title, story, .. } = scenario;
    let (story, expected, drivers) =
        (wrapped("", story), expectations(scenario), drivers(scenario).join(", "));
    let facts = wrapped("", &format!("Expected: {expected}. Drivers: {drivers}."));
    format!("\n## {id}: {title}\n\n{story}\n\n{facts}\n")
}

/// `violation in S, Q; ok in QQ, QF`, in the order of the modes.
fn expectations(scenario: &Scenario) -> String {
    let mut groups = Vec::<(Expected, Vec<String>)>::new();
    for mode in Mode::ALL.into_iter().filter(|mode| !matches!(mode, Mode::Q3 | Mode::Q7)) {
        let Some(expected) = scenario.expected(mode) else { continue };
        let name = if mode == Mode::Q5 { "Q".to_owned() } else { mode.to_string() };
        match groups.iter_mut().find(|(known, _)| *known == expected) {
            Some((_, modes)) => modes.push(name),
            None => groups.push((expected, vec![name])),
        }
    }
    let groups =
        groups.iter().map(|(expected, modes)| format!("{expected} in {}", modes.join(", ")));
    groups.collect::<Vec<_>>().join("; ")
}

fn drivers(scenario: &Scenario) -> Vec<&'static str> {
    let can = |driver: Driver, mode: &Mode| {
        scenario.expected(*mode).is_some()
            && driver.cannot(*mode, &scenario.plan(*mode, 0, 0, true)).is_none()
    };
    let able = |driver: &Driver| Mode::ALL.iter().any(|mode| can(*driver, mode));
    let name = |driver| match driver {
        Driver::Process => "process",
        Driver::Container => "container",
        Driver::Sim => "simulation",
    };
    Driver::ALL.into_iter().filter(able).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::find;

    #[test]
    fn the_page_in_the_repository_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab/SCENARIOS.md");
        let found = std::fs::read_to_string(path).unwrap_or_default();
        let page = scenarios_page();
        let mut lines = page.lines().zip(found.lines());
        let differs = lines.find(|(made, found)| made != found);
        assert!(
            found == page,
            "docs/lab/SCENARIOS.md is not what the scenarios say (first difference: {differs:?}). \
             Write it:\ncargo run -p quorumlock-lab --bin quorumlock-lab -- list --markdown \
             > docs/lab/SCENARIOS.md"
        );
    }

    #[test]
    fn modes_are_grouped_by_what_is_expected() {
        let said = |id| expectations(find(id).unwrap());
        assert_eq!(said("L01"), "ok in S, S1, R, W, RR, WW, Q, QQ, QF, E");
        assert_eq!(said("L33"), "violation in S, R, W, Q; refused in S1, RR, WW, QQ, QF");
        assert_eq!(said("L38"), "violation in Q; refused in QQ, QF");
    }

    #[test]
    fn drivers_do_not_depend_on_the_features_of_this_build() {
        let able = |id| drivers(find(id).unwrap());
        assert_eq!(able("L01"), ["process", "container", "simulation"]);
        assert_eq!(able("L07"), ["simulation"]);
        assert_eq!(able("L12"), ["process"]);
    }

    #[test]
    fn no_line_is_too_long() {
        let page = scenarios_page();
        let long = page.lines().filter(|line| line.chars().count() > 100).collect::<Vec<_>>();
        assert_eq!(long, Vec::<&str>::new());
    }
}
