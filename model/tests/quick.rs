//! The quick plan comes out as it must: right rules hold, planted bugs are caught.

use quorumlock_model::plan::{Expected, Size, plan};

/// Steps to the planted bugs: what is found earlier or later is another bug, or another model.
const STEPS: [(&str, usize); 15] = [
    ("M2", 14),
    ("M2b", 12),
    ("M3", 12),
    ("M13", 13),
    ("M4", 9),
    ("M5", 12),
    ("M8", 12),
    ("L", 5),
    ("M9", 11),
    ("M11", 10),
    ("M14", 6),
    ("M14", 8),
    ("M14", 8),
    ("M14", 6),
    ("M14", 7),
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
