//! Runs for the tests of this room.

use crate::record::{Expected, Observed, Run, SCHEMA};

/// A run that saw nothing and is as expected.
pub(super) fn run(scenario: &str, mode: &str, expected: Expected) -> Run {
    Run {
        schema: SCHEMA,
        run: format!("{scenario}-{mode}-process-s42-0"),
        scenario: scenario.to_owned(),
        title: "a title".to_owned(),
        story: "a story".to_owned(),
        mode: mode.to_owned(),
        driver: "process".to_owned(),
        seed: 42,
        repetition: 0,
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
