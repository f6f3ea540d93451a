//! The attempts of a run as rows for other programs.

use crate::judge::{HistorySummary, Hold, Wait};
use crate::record::{Attempt, Run};
use crate::timestamp::nanos_of;

/// One row for each attempt, those that were granted first.
pub(super) fn attempts<'a>(
    run: &'a Run,
    summary: &'a HistorySummary,
) -> impl Iterator<Item = Attempt> + 'a {
    let held = summary.holds.iter().map(|hold| granted(base(run), summary, hold));
    held.chain(summary.waits.iter().map(|wait| refused(base(run), summary, wait)))
}

fn base(run: &Run) -> Attempt {
    Attempt {
        run: run.run.clone(),
        scenario: run.scenario.clone(),
        mode: run.mode.clone(),
        driver: run.driver.clone(),
        seed: run.seed,
        repetition: run.repetition,
        takeover_delay_ms: run.takeover_delay_ms,
        quorumlock: run.quorumlock.clone(),
        server: run.nodes.first().map(|node| node.version.clone()).unwrap_or_default(),
        permits: 1,
        ..Attempt::default()
    }
}

fn granted(base: Attempt, summary: &HistorySummary, hold: &Hold) -> Attempt {
    Attempt {
        name: hold.name.to_string(),
        permits: hold.permits,
        reads: hold.reads,
        client: summary.client(hold.who.locker),
        task: Some(hold.who.task),
        token: Some(hold.token),
        asked_ns: nanos_of(hold.asked),
        granted_ns: Some(nanos_of(hold.granted)),
        believed_until_ns: Some(nanos_of(hold.believed_until())),
        ended_ns: nanos_of(hold.released),
        ..base
    }
}

fn refused(base: Attempt, summary: &HistorySummary, wait: &Wait) -> Attempt {
    Attempt {
        name: wait.name.to_string(),
        client: summary.client(wait.locker),
        asked_ns: nanos_of(wait.asked),
        ended_ns: nanos_of(wait.ended),
        ..base
    }
}
