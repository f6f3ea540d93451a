//! Computes from the history on disk what was observed, and whether theory agrees.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use quorumlock_protocol::Instant;

use crate::history::{BadHistory, Reader};
use crate::judge::{
    HistorySummary, Hold, Overlap, Quantiles, Summarizer, most_holders, overlaps, overtakings,
    overtakings_per_1000, time_overlapped, tokens, vacancies,
};
use crate::record::{Expected, Observed};
use crate::scenario::{Overtaking, Plan};

/// Reads and judges a history. `requests`: the number of requests that the servers counted, if
/// known.
pub(super) fn judge(
    history: &Path,
    requests: Option<u64>,
) -> Result<(Observed, HistorySummary), BadHistory> {
    let mut summarizer = Summarizer::default();
    for event in Reader::open(history)? {
        summarizer.observe(&event?);
    }
    let summary = summarizer.close();
    Ok((observe(&summary, requests), summary))
}

fn observe(summary: &HistorySummary, requests: Option<u64>) -> Observed {
    let overlaps = overlaps(&summary.holds);
    let vacancies = vacancies(&summary.holds, &summary.waits);
    let handovers = Quantiles::of(handovers(&summary.holds));
    let tokens = tokens(&summary.holds);
    let grants = summary.holds.len() as u64;
    let overtakings = overtakings(&summary.holds, &summary.waits) as u64;
    Observed {
        violations: overlaps.len() as u64,
        stale_holders: stale_holders(&overlaps),
        violated_ms: ms(time_overlapped(&overlaps)),
        holders: most_holders(&summary.holds) as u64,
        stale_effects: summary.effects.stale,
        refused_effects: summary.effects.refused,
        vacancy_ms: ms(vacancies.iter().copied().max().unwrap_or_default()),
        vacancy_total_ms: ms(vacancies.into_iter().sum()),
        failing_ms: ms(summary.failing.iter().max().copied().unwrap_or_default()),
        failing_total_ms: ms(summary.failing.iter().sum()),
        handover_p50_ms: handovers.percent(50).map(ms),
        handover_p99_ms: handovers.percent(99).map(ms),
        handover_max_ms: handovers.max().map(ms),
        overtakings,
        overtakings_per_1000: overtakings_per_1000(overtakings, grants),
        waited_ms: longest_waits(summary),
        grants,
        attempts_failed: summary.failed,
        requests_per_success: requests
            .filter(|_| grants > 0)
            // Rounded to 1/1000, so that the value is the same after a round trip through JSON.
            .map(|requests| (requests as f64 / grants as f64 * 1e3).round() / 1e3),
        told_after_ms: notice_delay(&summary.losses, &summary.faults).map(ms),
        tokens_repeated: tokens.repeated as u64,
        tokens_out_of_order: tokens.out_of_order as u64,
        lost: summary.losses.len() as u64,
    }
}

/// What theory does not expect, in words: of exclusion, of the bounds of the plan, of its refusals, of
/// its waiters, of its order.
pub(super) fn surprise(
    expected: Expected,
    plan: &Plan,
    observed: &Observed,
    summary: &HistorySummary,
    interrupted: bool,
) -> Option<String> {
    disagrees(expected, observed, summary, interrupted)
        .or_else(|| exceeds(plan, observed))
        .or_else(|| not_refused(plan, summary, interrupted))
        .or_else(|| not_starved(plan, summary, interrupted))
        .or_else(|| overtaken(plan, observed, interrupted))
}

/// Why the observation disagrees with theory, in words; `None` if it agrees. An interrupted run
/// disagrees only if it showed something forbidden: what is missing may still have come.
fn disagrees(
    expected: Expected,
    observed: &Observed,
    summary: &HistorySummary,
    interrupted: bool,
) -> Option<String> {
    let (v, e) = (observed.violations, observed.stale_effects);
    let why = |yes: bool, text: String| yes.then_some(text);
    let nothing = why(
        observed.grants == 0,
        format!("nothing was granted ({})", summary.first_failure.as_deref().unwrap_or("no error")),
    );
    let missing = match expected {
        Expected::Ok => nothing,
        Expected::Violation => {
            why(v + e == 0, "neither a violation nor a stale effect was observed".to_owned())
        }
        Expected::Fenced => nothing.or_else(|| {
            why(observed.refused_effects == 0, "no stale effect was refused".to_owned())
        }),
        Expected::Disordered => nothing.or_else(|| {
            why(observed.tokens_out_of_order == 0, "the tokens are in order".to_owned())
        }),
        Expected::Refused => why(
            observed.grants > 0 || observed.attempts_failed == 0,
            format!("the library granted {} locks", observed.grants),
        ),
        Expected::Any => None,
    };
    let forbidden = match expected {
        Expected::Ok | Expected::Disordered if v > 0 => why(true, format!("{v} violations")),
        Expected::Ok | Expected::Fenced | Expected::Disordered => {
            why(e > 0, format!("{e} stale effects were accepted"))
        }
        _ => None,
    };
    forbidden.or_else(|| missing.filter(|_| !interrupted))
}

/// Which bound of the plan the observation exceeds, in words.
fn exceeds(plan: &Plan, observed: &Observed) -> Option<String> {
    let bounds = [
        (plan.vacant_at_most_ms, observed.vacancy_ms, "nobody held"),
        (plan.failing_at_most_ms, observed.failing_ms, "the attempts of a client failed"),
        (plan.failing_total_at_most_ms, observed.failing_total_ms, "attempts failed in all"),
    ];
    let too_long = bounds.into_iter().find_map(|(most_ms, seen_ms, what)| {
        let most_ms = most_ms.filter(|most_ms| seen_ms > *most_ms as f64)?;
        Some(format!("{what} for {seen_ms} ms, where {most_ms} ms are the most"))
    });
    let disorder = observed.tokens_repeated + observed.tokens_out_of_order;
    let disordered = plan.tokens_in_order && disorder > 0;
    too_long.or_else(|| disordered.then(|| format!("{disorder} tokens are not in order")))
}

/// Which client was not refused as the plan says, in words. An interrupted run may have ended before
/// the refusal.
fn not_refused(plan: &Plan, summary: &HistorySummary, interrupted: bool) -> Option<String> {
    plan.refused.iter().find_map(|(client, refusal)| {
        match summary.refusals.get(&(client.clone(), *refusal)) {
            Some(false) => None,
            Some(true) => Some(format!("{client} was refused ({refusal}), and granted later")),
            None if interrupted => None,
            None => Some(format!("{client} was not refused: {refusal}")),
        }
    })
}

/// Which client did not wait in vain, as the plan says it must, in words.
fn not_starved(plan: &Plan, summary: &HistorySummary, interrupted: bool) -> Option<String> {
    plan.starved.iter().find_map(|client| match summary.asked.get(client) {
        Some(asked) => asked.granted.then(|| format!("{client} was granted the lock")),
        None if interrupted => None,
        None => Some(format!("{client} did not ask for the lock")),
    })
}

/// What the plan says of overtakings and was not observed, in words. An interrupted run may have ended
/// before the first one.
fn overtaken(plan: &Plan, observed: &Observed, interrupted: bool) -> Option<String> {
    match (plan.overtaking, observed.overtakings) {
        (Overtaking::Never, more @ 1..) => Some(format!("{more} grants overtook earlier calls")),
        (Overtaking::Seen, 0) if !interrupted => {
            Some("no grant overtook an earlier call".to_owned())
        }
        _ => None,
    }
}

fn longest_waits(summary: &HistorySummary) -> BTreeMap<String, f64> {
    let waits = summary.asked.iter();
    waits.map(|(client, asked)| (client.clone(), ms(asked.longest_wait))).collect()
}

/// A hold that outlives its lock overlaps with each later hold. It counts as one stale holder.
fn stale_holders(overlaps: &[Overlap<'_>]) -> u64 {
    let hold = |overlap: &Overlap<'_>| (overlap.first.who, overlap.first.granted);
    let stale = overlaps.iter().map(hold).collect::<HashSet<_>>();
    stale.len() as u64
}

/// From the end of a belief to the next grant, if the next holder was already waiting. A reader that
/// joins another one takes nothing over.
fn handovers(holds: &[Hold]) -> Vec<Duration> {
    let mut sorted = holds.iter().collect::<Vec<_>>();
    sorted.sort_by(|a, b| (&a.name, a.granted).cmp(&(&b.name, b.granted)));
    let pairs = sorted.iter().zip(sorted.iter().skip(1));
    let waited = pairs.filter(|(one, next)| {
        let one_lock = one.name == next.name && !one.shares_with(next);
        one_lock && next.asked <= one.believed_until()
    });
    waited.map(|(one, next)| next.granted.since(one.believed_until())).collect()
}

/// The longest time from the first fault within a hold to the notice of the loss to its holder.
fn notice_delay(told: &[(Instant, Instant)], faults: &[Instant]) -> Option<Duration> {
    let first = |granted: Instant, told: Instant| {
        let mut within = faults.iter().filter(|fault| (granted..told).contains(*fault));
        within.next().map(|fault| told.since(*fault))
    };
    told.iter().filter_map(|(granted, told)| first(*granted, *told)).max()
}

fn ms(time: Duration) -> f64 {
    // Rounded to microseconds.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Refusal;
    use crate::judge::Asked;
    use crate::judge::history::{at, held, ms as millis};
    use crate::mode::Mode;
    use crate::scenario::find;

    #[test]
    fn only_who_was_waiting_already_counts_for_handovers() {
        let waiting = Hold { asked: at(5), ..held(2, 12, 20) };
        let found = handovers(&[held(3, 40, 50), waiting, held(1, 0, 10)]);
        assert_eq!(found, [millis(2)]);
    }

    #[test]
    fn one_that_outlives_its_lock_is_one_stale_holder_however_many_follow() {
        let holds = [held(1, 0, 100), held(2, 10, 20), held(3, 30, 40), held(4, 35, 50)];
        let found = overlaps(&holds);
        assert_eq!((found.len(), stale_holders(&found)), (4, 2));
    }

    #[test]
    fn being_told_is_measured_from_the_first_fault_within_the_hold() {
        let told = [(at(10), at(100)), (at(200), at(210))];
        assert_eq!(notice_delay(&told, &[at(5), at(30), at(40)]), Some(millis(70)));
        assert_eq!(notice_delay(&told, &[at(5), at(300)]), None);
    }

    /// The plan of a scenario that sets no bounds.
    fn plan() -> Plan {
        find("L01").unwrap().plan(Mode::S, 1, 0, true)
    }

    #[test]
    fn what_was_observed_is_held_against_the_bounds_of_the_plan() {
        let observed = Observed {
            vacancy_ms: 20.0,
            failing_ms: 20.0,
            failing_total_ms: 20.0,
            tokens_out_of_order: 1,
            ..Observed::default()
        };
        assert_eq!(exceeds(&plan(), &observed), None);
        let bounds: [fn(&mut Plan) -> &mut Option<u64>; 3] = [
            |plan| &mut plan.vacant_at_most_ms,
            |plan| &mut plan.failing_at_most_ms,
            |plan| &mut plan.failing_total_at_most_ms,
        ];
        for bound in bounds {
            for (most_ms, exceeded) in [(20, false), (19, true)] {
                let mut plan = plan();
                *bound(&mut plan) = Some(most_ms);
                assert_eq!(exceeds(&plan, &observed).is_some(), exceeded);
            }
        }
        assert!(exceeds(&Plan { tokens_in_order: true, ..plan() }, &observed).is_some());
    }

    #[test]
    fn a_client_must_be_refused_for_good_and_for_the_reason_that_theory_says() {
        let refused = vec![("b".to_owned(), Refusal::OtherMembers)];
        let plan = Plan { refused, ..plan() };
        let found = |refusal, granted, interrupted| {
            let refusals = [(("b".to_owned(), refusal), granted)].into();
            let summary = HistorySummary { refusals, ..HistorySummary::default() };
            not_refused(&plan, &summary, interrupted).is_some()
        };
        assert!(!found(Refusal::OtherMembers, false, false));
        assert!(found(Refusal::OtherMembers, true, true), "granted later");
        assert!(found(Refusal::NotAdmitted, false, false), "for another reason");
        assert!(!found(Refusal::NotAdmitted, false, true));
    }

    #[test]
    fn a_client_must_wait_in_vain_where_theory_says_so() {
        let plan = Plan { starved: vec!["w".to_owned()], ..plan() };
        let found = |asked: &[(&str, bool)], interrupted| {
            let of = |granted| Asked { granted, ..Asked::default() };
            let asked = asked.iter().map(|(client, granted)| ((*client).to_owned(), of(*granted)));
            let summary = HistorySummary { asked: asked.collect(), ..HistorySummary::default() };
            not_starved(&plan, &summary, interrupted).is_some()
        };
        assert!(!found(&[("a", true), ("w", false)], false));
        assert!(found(&[("w", true)], true), "it was granted");
        assert!(found(&[("a", true)], false), "it did not ask");
        assert!(!found(&[], true));
    }

    #[test]
    fn overtakings_must_be_seen_or_must_not_be_there() {
        let found = |overtaking, overtakings, interrupted| {
            let observed = Observed { overtakings, ..Observed::default() };
            overtaken(&Plan { overtaking, ..plan() }, &observed, interrupted).is_some()
        };
        assert!(!found(Overtaking::Any, 0, false) && !found(Overtaking::Any, 9, false));
        assert!(!found(Overtaking::Never, 0, false));
        assert!(found(Overtaking::Never, 1, false) && found(Overtaking::Never, 1, true));
        assert!(found(Overtaking::Seen, 0, false) && !found(Overtaking::Seen, 1, false));
        assert!(!found(Overtaking::Seen, 0, true));
    }

    #[test]
    fn theory_is_held_against_what_was_seen() {
        let of = |v, e, st, grants| Observed {
            violations: v,
            stale_effects: e,
            refused_effects: st,
            grants,
            ..Observed::default()
        };
        let agrees = |expected, observed: Observed, interrupted| {
            disagrees(expected, &observed, &HistorySummary::default(), interrupted).is_none()
        };
        assert!(agrees(Expected::Ok, of(0, 0, 3, 9), false));
        for bad in [of(1, 0, 0, 9), of(0, 1, 0, 9)] {
            assert!(!agrees(Expected::Ok, bad.clone(), false));
            assert!(!agrees(Expected::Ok, bad.clone(), true));
            assert!(agrees(Expected::Violation, bad, false));
        }
        assert!(!agrees(Expected::Ok, of(0, 0, 0, 0), false), "nothing was granted");
        assert!(agrees(Expected::Ok, of(0, 0, 0, 0), true));
        assert!(!agrees(Expected::Violation, of(0, 0, 0, 9), false));
        assert!(agrees(Expected::Fenced, of(1, 0, 2, 9), false));
        assert!(!agrees(Expected::Fenced, of(1, 0, 0, 9), false));
        assert!(!agrees(Expected::Fenced, of(1, 1, 2, 9), false));
        assert!(!agrees(Expected::Refused, of(0, 0, 0, 1), false));
        let fell = |v, e| Observed { tokens_out_of_order: 1, ..of(v, e, 0, 9) };
        assert!(agrees(Expected::Disordered, fell(0, 0), false));
        assert!(!agrees(Expected::Disordered, of(0, 0, 0, 9), false), "in order");
        assert!(!agrees(Expected::Disordered, fell(1, 0), false));
        assert!(!agrees(Expected::Disordered, fell(0, 1), true));
    }
}
