//! The quick plan gives the expected results: right rules hold, planted bugs are caught.

use quorumlock_model::plan::{Expected, Size, plan};

/// The number of steps to each planted bug. A different number means another bug, or another model.
const STEPS: [(&str, usize); 68] = [
    ("M3", 8),
    ("M2", 8),
    ("M15c", 10),
    ("M2b", 12),
    ("M2c", 4),
    ("M2d", 14),
    ("M13", 4),
    ("M4", 5),
    ("M17", 4),
    ("M18", 3),
    ("M23", 8),
    ("M23", 4),
    ("M23", 5),
    ("M23", 4),
    ("M23", 8),
    ("M8", 8),
    ("M8g", 7),
    ("L", 5),
    ("M9", 11),
    ("M11", 10),
    ("M24", 5),
    ("M24", 3),
    ("M24", 4),
    ("M26", 7),
    ("M26", 8),
    ("M26", 9),
    ("M25", 6),
    ("M14", 6),
    ("M14", 8),
    ("M14", 8),
    ("M14", 6),
    ("M14", 7),
    ("M20b", 10),
    ("M19b", 7),
    ("M19b", 10),
    ("M19b", 6),
    ("M19b", 10),
    ("M19b", 20),
    ("M19b", 18),
    ("M19b", 5),
    ("M19b", 5),
    ("M19b", 9),
    ("M20", 9),
    ("M21", 3),
    ("M21", 3),
    ("M21", 4),
    ("M21", 5),
    ("M22", 5),
    ("M22", 5),
    ("M22", 5),
    ("M22b", 6),
    ("M27", 3),
    ("M27", 4),
    ("M27", 5),
    ("M27", 6),
    ("M28", 9),
    ("M28", 7),
    ("M28", 10),
    ("M28", 10),
    ("M28", 6),
    ("M28", 10),
    ("M28", 7),
    ("M28", 13),
    ("M28", 13),
    ("M28", 11),
    ("M29", 11),
    ("M29", 11),
    ("M29", 10),
];

#[test]
fn right_rules_hold_and_planted_bugs_are_caught() {
    let mut caught = Vec::new();
    for case in plan(Size::Quick) {
        let outcome = case.run(1, &mut |_| {});
        eprintln!("{case:?}: {} states in {:?}", outcome.states, outcome.took);
        assert!(case.is_as_expected(&outcome), "{case:?}: {outcome:#?}");
        if let (Expected::Caught, Some(broken)) = (case.expected, outcome.broken) {
            caught.push((case.id, broken.steps.len()));
        }
    }
    assert_eq!(caught, STEPS, "with one thread the way to a bug is a shortest one");
}
