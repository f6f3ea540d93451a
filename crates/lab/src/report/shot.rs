//! Draws the lanes of a whole run from its timeline.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::figures::{Lane, Lanes, Mark, Span, Style};
use super::timeline::Timeline;
use super::words::{count, time};
use crate::judge::Overlap;

/// The largest number of lanes that is readable.
const LANES: usize = 16;
/// The number of times that the figure can distinguish: its width in half pixels.
const COLUMNS: u32 = 1_700;

/// The lanes of a run, from its beginning to its end.
pub(super) fn whole(timeline: &Timeline, overlaps: &[Overlap<'_>]) -> Lanes {
    let column = timeline.length / COLUMNS;
    let mut left_out = timeline.left_out.clone();
    let shown = shown(timeline, overlaps);
    let all = timeline.holds.iter().map(|hold| hold.who.locker);
    let all: HashSet<_> = all.chain(timeline.marks.iter().map(|mark| mark.client)).collect();
    if all.len() > shown.len() {
        let more = count((all.len() - shown.len()) as u64);
        left_out.push(format!(
            "Not drawn: {more} more clients. These {LANES} are the ones that took part in a \
             violation, then those that appeared first."
        ));
    }
    let mut merged = false;
    let lanes = shown.iter().map(|&client| Lane {
        name: timeline.clients[client].clone(),
        spans: spans(timeline, client, column, &mut merged),
        marks: marks(timeline, client, column),
    });
    let lanes: Vec<_> = lanes.collect();
    if merged {
        left_out
            .push(format!("Holds of a client less than {} apart are drawn as one.", time(column)));
    }
    let mut clashes: Vec<_> =
        overlaps.iter().map(|o| (timeline.offset(o.from), timeline.offset(o.until))).collect();
    clashes.sort_unstable();
    merge(&mut clashes, column);
    let (from, until) = (Duration::ZERO, timeline.length);
    Lanes { from, until, lanes, faults: timeline.faults.clone(), clashes, left_out }
}

/// The clients that get a lane, sorted by name.
fn shown(timeline: &Timeline, overlaps: &[Overlap<'_>]) -> Vec<usize> {
    let clashing = overlaps.iter().flat_map(|o| [o.first.who.locker, o.second.who.locker]);
    let holding = timeline.holds.iter().map(|hold| hold.who.locker).collect::<BTreeSet<_>>();
    let marked = timeline.marks.iter().map(|mark| mark.client).collect::<BTreeSet<_>>();
    let mut shown = Vec::new();
    for client in clashing.chain(holding).chain(marked) {
        if shown.len() < LANES && !shown.contains(&client) {
            shown.push(client);
        }
    }
    // Shorter names first, so that z comes before aa.
    shown.sort_by_key(|&client| (timeline.clients[client].len(), &timeline.clients[client]));
    shown
}

fn spans(timeline: &Timeline, client: usize, column: Duration, merged: &mut bool) -> Vec<Span> {
    let holds = timeline.holds.iter().filter(|hold| hold.who.locker == client);
    let mut times: Vec<_> = holds
        .map(|hold| (timeline.offset(hold.granted), timeline.offset(hold.believed_until())))
        .collect();
    times.sort_unstable();
    *merged |= merge(&mut times, column);
    let span = |(from, until)| Span { from, until, style: Style::Held, label: None };
    times.into_iter().map(span).collect()
}

/// Merges sorted intervals that lie closer together than the figure can show. Whether any were
/// merged.
fn merge(times: &mut Vec<(Duration, Duration)>, column: Duration) -> bool {
    let before = times.len();
    times.dedup_by(|next, kept| {
        let close = next.0 < kept.1 + column;
        if close {
            kept.1 = kept.1.max(next.1);
        }
        close
    });
    times.len() < before
}

/// One mark of each kind for each visible position.
fn marks(timeline: &Timeline, client: usize, column: Duration) -> Vec<Mark> {
    let column = column.as_nanos().max(1);
    let mut places = HashMap::new();
    for seen in timeline.marks.iter().filter(|seen| seen.client == client) {
        let at = timeline.offset(seen.at);
        let first: &mut Duration = places.entry((seen.kind, at.as_nanos() / column)).or_insert(at);
        *first = at.min(*first);
    }
    let mut marks: Vec<_> = places.into_iter().map(|((kind, _), at)| Mark { at, kind }).collect();
    marks.sort_by_key(|mark| (mark.at, mark.kind));
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_is_close_becomes_one() {
        let mut times = vec![(ms(0), ms(10)), (ms(11), ms(20)), (ms(12), ms(13)), (ms(40), ms(50))];
        assert!(merge(&mut times, ms(5)));
        assert_eq!(times, [(ms(0), ms(20)), (ms(40), ms(50))]);
        assert!(!merge(&mut times, ms(5)));
    }
}
