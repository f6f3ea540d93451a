//! Runs for tests.

use super::{Expected, LibraryFacts, Observed, Run, SCHEMA};

/// A run without violations that is as expected.
pub(crate) fn run(scenario: &str, mode: &str, expected: Expected) -> Run {
    Run {
        schema: SCHEMA,
        run: format!("{scenario}-{mode}-process-s42-0"),
        scenario: scenario.to_owned(),
        title: "a title".to_owned(),
        story: "a story".to_owned(),
        mode: mode.to_owned(),
        library: None,
        driver: "process".to_owned(),
        seed: 42,
        repetition: 0,
        quorumlock: "0.1.0".to_owned(),
        commit: None,
        diff: None,
        lease_ms: 8_000,
        max_lease_ms: 10_000,
        load: None,
        takeover_delay_ms: 0,
        expected,
        observed: Observed::default(),
        as_expected: true,
        why: None,
        stuck: None,
        began_wall_ns: 0,
        lasted_ms: 1_000.0,
        nodes: Vec::new(),
        interrupted: false,
    }
}

/// A run of L16 in mode R with so many violations.
pub(crate) fn seen(expected: Expected, violations: u64, as_expected: bool) -> Run {
    let mut run = run("L16", "R", expected);
    run.observed.violations = violations;
    run.as_expected = as_expected;
    run
}

/// A library, and whether it promises exclusion.
pub(crate) fn library(exclusion_promised: Option<bool>) -> LibraryFacts {
    LibraryFacts {
        name: "nx".to_owned(),
        command: "python3 nx.py".to_owned(),
        library: "SET NX PX".to_owned(),
        version: "1".to_owned(),
        options: serde_json::Map::new(),
        exclusion_promised,
    }
}
