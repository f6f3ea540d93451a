use std::time::Duration;

use quorumlock_protocol::Instant;

use super::Hold;
use super::hold::by_asked_name;

/// Two tasks believed at the same time that they held the same lock, or the same slot of permits, or
/// more permits than there are: a violation of mutual exclusion. Readers of one lock may hold together.
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

/// All pairs of holds by different tasks that overlap and should not: of one lock, of one slot of
/// permits, or of more permits than there are. A hold that makes the holders `n` too many overlaps
/// with `n` others: with those of its slot first, then with those that end first. Intervals that only
/// touch do not overlap: the first holder had stopped when the second began. Two readers are no pair.
#[must_use]
pub fn overlaps(holds: &[Hold]) -> Vec<Overlap<'_>> {
    let mut found = Vec::new();
    for holds in by_asked_name(holds) {
        let mut open = Vec::<&Hold>::new();
        for second in holds {
            open.retain(|first| first.believed_until() > second.granted);
            let mut others = open.clone();
            others.retain(|first| first.who != second.who && !first.shares_with(second));
            for first in forbidden(&others, second) {
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

/// Which of the `others`, who hold at the grant of `second`, should have ended before it.
fn forbidden<'a>(others: &[&'a Hold], second: &Hold) -> Vec<&'a Hold> {
    let too_many = (others.len() + 1).saturating_sub(second.permits as usize);
    let in_slot = |first: &Hold| second.has_slot() && first.name == second.name;
    let mut places = (0..others.len()).collect::<Vec<_>>();
    places.sort_by_key(|place| (!in_slot(others[*place]), others[*place].believed_until()));
    let of_slot = others.iter().filter(|first| in_slot(first)).count();
    places.truncate(too_many.max(of_slot));
    // In the order of the grants.
    places.sort_unstable();
    places.into_iter().map(|place| others[place]).collect()
}

/// The largest number of tasks that believed at the same time to hold one name, or permits of it.
#[must_use]
pub fn most_holders(holds: &[Hold]) -> usize {
    let most = |holds: Vec<&Hold>| {
        let mut open = Vec::<&Hold>::new();
        let counts = holds.into_iter().filter(|hold| hold.believed_until() > hold.granted);
        let counts = counts.map(|hold| {
            open.retain(|held| held.believed_until() > hold.granted && held.who != hold.who);
            open.push(hold);
            open.len()
        });
        counts.max().unwrap_or_default()
    };
    by_asked_name(holds).map(most).max().unwrap_or_default()
}

/// The time in which more tasks believed than may, summed over all names.
#[must_use]
pub fn time_overlapped(overlaps: &[Overlap<'_>]) -> Duration {
    let mut sorted = overlaps.to_vec();
    sorted.sort_by(|a, b| (a.first.asked_name(), a.from).cmp(&(b.first.asked_name(), b.from)));
    let mut counted: Option<(&str, Instant)> = None;
    let mut sum = Duration::ZERO;
    for overlap in &sorted {
        let from = match counted {
            Some((name, until)) if name == overlap.first.asked_name() => overlap.from.max(until),
            _ => overlap.from,
        };
        sum += overlap.until.since(from);
        counted = Some((overlap.first.asked_name(), overlap.until.max(from)));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::history::{at, held, ms, of_slot, of_y, read};
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

    #[test]
    fn a_hold_of_several_names_overlaps_with_a_hold_of_any_of_them() {
        let of = |name: &str, hold| Hold { name: name.into(), ..hold };
        let set = of("x+y", held(1, 0, 10));
        assert_eq!(overlaps(&[set.clone(), of("z+w", held(2, 0, 10))]), []);
        for other in ["x", "y", "y+z", "z+x"] {
            let holds = [set.clone(), of(other, held(2, 5, 10))];
            assert_eq!(overlaps(&holds).len(), 1, "{other}");
        }
        assert_eq!(most_holders(&[set, of("y+z", held(2, 5, 10))]), 2);
    }

    #[test]
    fn a_slot_has_one_holder_and_the_slots_have_as_many_as_there_are() {
        let [a, b] = [of_slot(0, held(1, 0, 100)), of_slot(1, held(2, 10, 60))];
        let next = of_slot(1, held(3, 60, 90));
        assert_eq!(overlaps(&[a.clone(), b.clone(), next]), []);
        let same = of_slot(0, held(3, 70, 90));
        let found = [a.clone(), b.clone(), same];
        let [overlap] = overlaps(&found)[..] else { panic!("{found:?}") };
        assert_eq!((overlap.first, overlap.lasted()), (&found[0], ms(20)));
        let both = [a.clone(), b.clone(), of_slot(0, held(3, 20, 90))];
        let [overlap] = overlaps(&both)[..] else { panic!("{both:?}") };
        assert_eq!((overlap.first, overlap.lasted()), (&both[0], ms(70)), "one pair for both");
        // Each has a slot to itself, and they are too many.
        let beyond = [a, b, of_slot(2, held(3, 20, 90))];
        let [overlap] = overlaps(&beyond)[..] else { panic!("{beyond:?}") };
        assert_eq!((overlap.first, overlap.lasted()), (&beyond[1], ms(40)), "the next to end");
        assert_eq!(most_holders(&beyond), 3);
    }

    #[test]
    fn readers_hold_together_and_a_writer_alone() {
        let readers = [read(held(1, 0, 50)), read(held(2, 10, 60))];
        assert_eq!((overlaps(&readers), most_holders(&readers)), (vec![], 2));
        let after = [&readers[..], &[held(3, 60, 70), read(held(1, 70, 80))]].concat();
        assert_eq!(overlaps(&after), []);
        let beside = [&readers[..], &[held(3, 40, 70), read(held(4, 65, 80))]].concat();
        let found = overlaps(&beside);
        let pairs = found.iter().map(|o| (o.first.who.task, o.second.who.task));
        assert_eq!(pairs.collect::<Vec<_>>(), [(1, 3), (2, 3), (3, 4)]);
        assert_eq!(time_overlapped(&found), ms(25), "40 to 60, and 65 to 70");
    }

    #[test]
    fn permits_without_slots_are_counted() {
        let counted = |task, from, until| Hold { permits: 2, ..held(task, from, until) };
        let holds = [counted(1, 0, 100), counted(2, 10, 50), counted(3, 50, 90)];
        assert_eq!((overlaps(&holds), most_holders(&holds)), (vec![], 2));
        let more = [&holds[..], &[counted(4, 40, 60), counted(5, 45, 46)]].concat();
        let found = overlaps(&more);
        let pairs = found.iter().map(|o| (o.first.who.task, o.second.who.task));
        assert_eq!(pairs.collect::<Vec<_>>(), [(2, 4), (2, 5), (4, 5), (4, 3)]);
        assert_eq!(time_overlapped(&found), ms(20), "40 to 60");
        assert_eq!(most_holders(&more), 4);
        assert_eq!(most_holders(&[held(1, 0, 10), of_y(held(2, 0, 10))]), 1);
    }
}
