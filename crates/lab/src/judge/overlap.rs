use std::time::Duration;

use quorumlock_protocol::Instant;

use super::Hold;
use super::hold::by_name;

/// Two tasks believed at the same time that they held the same lock: a violation of mutual
/// exclusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap<'a> {
    /// The hold granted first.
    pub first: &'a Hold,
    /// The hold granted before the first one ended.
    pub second: &'a Hold,
    /// The start of the time in which both believed.
    pub from: Instant,
    /// The end of the time in which both believed.
    pub until: Instant,
}

impl Overlap<'_> {
    /// How long both believed.
    #[must_use]
    pub fn lasted(&self) -> Duration {
        self.until.since(self.from)
    }
}

/// All pairs of overlapping holds of one name by different tasks. Intervals that only touch do not
/// overlap: the first holder had stopped when the second began.
#[must_use]
pub fn overlaps(holds: &[Hold]) -> Vec<Overlap<'_>> {
    let mut found = Vec::new();
    for holds in by_name(holds) {
        let mut open = Vec::<&Hold>::new();
        for second in holds {
            open.retain(|first| first.believed_until() > second.granted);
            for &first in open.iter().filter(|first| first.who != second.who) {
                let until = first.believed_until().min(second.believed_until());
                if until > second.granted {
                    found.push(Overlap { first, second, from: second.granted, until });
                }
            }
            open.push(second);
        }
    }
    found
}

/// The time in which at least two tasks believed that they held one name, summed over all names.
#[must_use]
pub fn time_overlapped(overlaps: &[Overlap<'_>]) -> Duration {
    let mut sorted = overlaps.to_vec();
    sorted.sort_by(|a, b| (&a.first.name, a.from).cmp(&(&b.first.name, b.from)));
    let mut counted: Option<(&str, Instant)> = None;
    let mut sum = Duration::ZERO;
    for overlap in &sorted {
        let from = match counted {
            Some((name, until)) if *name == *overlap.first.name => overlap.from.max(until),
            _ => overlap.from,
        };
        sum += overlap.until.since(from);
        counted = Some((&overlap.first.name, overlap.until.max(from)));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::history::{at, held, ms, of_y};
    use super::*;

    #[test]
    fn a_planted_overlap_is_found() {
        let holds = [held(3, 30, 40), held(1, 0, 10), held(2, 8, 20)];
        let found = overlaps(&holds);
        let [overlap] = found[..] else { panic!("{found:?}") };
        assert_eq!((overlap.first, overlap.second), (&holds[1], &holds[2]));
        assert_eq!((overlap.from, overlap.until), (at(8), at(10)));
        assert_eq!(overlap.lasted(), ms(2));
    }

    #[test]
    fn intervals_that_touch_do_not_overlap() {
        assert_eq!(overlaps(&[held(1, 0, 10), held(2, 10, 20), held(1, 20, 30)]), []);
        assert_eq!(overlaps(&[held(1, 0, 10), held(2, 5, 5)]), [], "never believed at all");
    }

    #[test]
    fn belief_ends_when_the_window_shuts() {
        let mut late = held(1, 0, 100);
        late.valid_until = at(10);
        assert_eq!(overlaps(&[late.clone(), held(2, 10, 20)]), []);
        assert_eq!(overlaps(&[late, held(2, 9, 20)])[0].lasted(), ms(1));
    }

    #[test]
    fn other_names_and_the_task_itself_do_not_count() {
        assert_eq!(overlaps(&[held(1, 0, 10), of_y(held(2, 0, 10))]), []);
        assert_eq!(overlaps(&[held(1, 0, 10), held(1, 5, 10)]), [], "re-entered");
    }

    #[test]
    fn a_long_hold_overlaps_with_each_of_several() {
        let holds = [held(1, 0, 100), held(2, 10, 20), held(3, 15, 30), of_y(held(4, 0, 50))];
        let found = overlaps(&holds);
        assert_eq!(found.len(), 3);
        assert_eq!(time_overlapped(&found), ms(20), "10 to 30");
    }

    #[test]
    fn names_are_counted_each_for_itself() {
        let x = [held(1, 0, 10), held(2, 0, 10)];
        let holds = [x.clone(), x.map(of_y)].concat();
        assert_eq!(time_overlapped(&overlaps(&holds)), ms(20));
        assert_eq!(time_overlapped(&[]), ms(0));
    }
}
