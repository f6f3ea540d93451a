use super::{Expected, Run};

/// Whether the repetitions of one scenario in one mode agree with theory; `None` if every run was
/// interrupted. Nothing forbidden may occur in any run. For [`Expected::Violation`],
/// [`Expected::Fenced`] and [`Expected::Disordered`] one run that is as expected suffices; otherwise
/// every finished run must be as expected.
#[must_use]
pub fn agrees(runs: &[&Run]) -> Option<bool> {
    let finished = || runs.iter().filter(|run| !run.interrupted);
    // An interrupted run proves only what was observed in it.
    let expected = runs.first()?.expected;
    if expected == Expected::Violation {
        return match runs.iter().any(|run| run.as_expected) {
            true => Some(true),
            false => finished().next().map(|_| false),
        };
    }
    if runs.iter().any(|run| breaks_a_promise(run)) {
        return Some(false);
    }
    let good = match expected {
        Expected::Fenced | Expected::Disordered => finished().any(|run| run.as_expected),
        _ => finished().all(|run| run.as_expected),
    };
    finished().next().map(|_| good)
}

/// Whether the run, however short, showed something that theory forbids.
fn breaks_a_promise(run: &Run) -> bool {
    let seen = &run.observed;
    match run.expected {
        Expected::Ok | Expected::Disordered => seen.violations > 0 || seen.stale_effects > 0,
        Expected::Fenced => seen.stale_effects > 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample::seen;

    fn agree(runs: &[Run]) -> Option<bool> {
        agrees(&runs.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_violation_must_be_seen_once_and_a_promise_must_hold_always() {
        let runs = [seen(Expected::Violation, 0, false), seen(Expected::Violation, 2, true)];
        assert_eq!(agree(&runs), Some(true));
        assert_eq!(agree(&runs[..1]), Some(false), "a lab that cannot show it");
        let runs = [seen(Expected::Ok, 0, true), seen(Expected::Ok, 1, false)];
        assert_eq!(agree(&runs), Some(false));
        assert_eq!(agree(&runs[..1]), Some(true));
    }

    #[test]
    fn fencing_must_refuse_once_and_let_nothing_through() {
        let mut runs = [seen(Expected::Fenced, 3, true), seen(Expected::Fenced, 0, false)];
        assert_eq!(agree(&runs), Some(true));
        runs[1].observed.stale_effects = 1;
        assert_eq!(agree(&runs), Some(false));
    }

    #[test]
    fn tokens_must_fall_once_and_nothing_else_may() {
        let mut runs = [seen(Expected::Disordered, 0, true), seen(Expected::Disordered, 0, false)];
        assert_eq!(agree(&runs), Some(true));
        assert_eq!(agree(&runs[1..]), Some(false));
        runs[1].observed.violations = 1;
        assert_eq!(agree(&runs), Some(false));
    }

    #[test]
    fn a_run_that_was_cut_short_proves_only_what_it_has_seen() {
        let cut = |run: Run| Run { interrupted: true, ..run };
        assert_eq!(agree(&[cut(seen(Expected::Ok, 0, true))]), None);
        assert_eq!(agree(&[cut(seen(Expected::Ok, 1, false))]), Some(false));
        assert_eq!(agree(&[cut(seen(Expected::Violation, 1, true))]), Some(true));
        assert_eq!(agree(&[cut(seen(Expected::Violation, 0, false))]), None);
    }
}
