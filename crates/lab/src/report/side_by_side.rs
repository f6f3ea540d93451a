//! Which client believed in which lock when: one run as a panel of a figure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::figures::{Bar, LockLane, Panel};
use super::timeline::Timeline;
use crate::judge::Hold;

/// The largest number of lanes that a panel has room for.
const LANES: usize = 8;
/// The number of times that a panel can distinguish: its width in half pixels.
const COLUMNS: u32 = 830;

/// The panel of a run. If there are more locks than lanes, those with a violation come first.
pub(super) fn panel(heading: String, timeline: &Timeline) -> Panel {
    let mut locks = BTreeMap::<&str, Vec<&Hold>>::new();
    for hold in &timeline.holds {
        locks.entry(hold.asked_name()).or_default().push(hold);
    }
    let lane = |(name, holds): (&str, Vec<&Hold>)| LockLane {
        name: name.to_owned(),
        bars: bars(timeline, &holds),
    };
    let mut lanes = locks.into_iter().map(lane).collect::<Vec<_>>();
    if lanes.len() > LANES {
        lanes.sort_by_key(|lane| !lane.bars.iter().any(|bar| bar.beside));
        lanes.truncate(LANES);
        lanes.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let lasting = timeline.faults.iter().filter(|fault| fault.until > fault.from);
    Panel {
        heading,
        length: timeline.length,
        faults: lasting.map(|fault| (fault.from, fault.until, fault.words.clone())).collect(),
        lanes,
    }
}

/// The holds are in the order of their grants. Beliefs of one client that are closer together than
/// the figure can show become one.
fn bars(timeline: &Timeline, holds: &[&Hold]) -> Vec<Bar> {
    let column = timeline.length / COLUMNS;
    let mut bars = Vec::<Bar>::new();
    let mut until = Duration::ZERO;
    for hold in holds {
        let from = timeline.offset(hold.granted);
        let ends = timeline.offset(hold.believed_until());
        let beside = from < until && from < ends;
        until = until.max(ends);
        let who = &timeline.clients[hold.who.locker];
        match bars.last_mut() {
            Some(last)
                if last.who == *who && last.beside == beside && from < last.until + column =>
            {
                last.until = last.until.max(ends);
            }
            _ => bars.push(Bar { who: who.clone(), from, until: ends, beside }),
        }
    }
    bars
}
