use std::collections::BTreeMap;
use std::time::Duration;

use super::hold::by_name;
use super::{Hold, Who};

/// How a contended lock passed from task to task.
///
/// Grants per second favour a lock that returns to the task that just released it. What counts is
/// how fast **another** task gets it, in the same process or in another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handovers {
    /// From the end of one task's work to the start of another's in the same process.
    pub to_another_task: Vec<Duration>,
    /// From the end of one task's work to the start of a task's work in another process.
    pub to_another_locker: Vec<Duration>,
    /// How often the task that had released the lock was the next to get it.
    pub same_task_again: usize,
    /// How many grants each task got.
    pub grants: BTreeMap<Who, usize>,
}

/// Judges each name's holds in the order of their grants. An overlap counts as a handover of zero
/// duration.
#[must_use]
pub fn handovers(holds: &[Hold]) -> Handovers {
    let mut found = Handovers::default();
    for holds in by_name(holds) {
        for hold in &holds {
            *found.grants.entry(hold.who).or_default() += 1;
        }
        for (one, next) in holds.iter().zip(holds.iter().skip(1)) {
            let took = next.granted.since(one.believed_until());
            if one.who == next.who {
                found.same_task_again += 1;
            } else if one.who.locker == next.who.locker {
                found.to_another_task.push(took);
            } else {
                found.to_another_locker.push(took);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::history::{held, ms, of_y};
    use super::*;

    #[test]
    fn handovers_are_told_apart_by_who_is_next() {
        // Tasks 1 and 2 belong to one locker, task 10 to another.
        let holds = [held(1, 0, 10), held(1, 11, 20), held(2, 22, 30), held(10, 33, 40)];
        let found = handovers(&[&holds[..], &[of_y(held(2, 21, 23))]].concat());
        assert_eq!(found.same_task_again, 1);
        assert_eq!(found.to_another_task, [ms(2)]);
        assert_eq!(found.to_another_locker, [ms(3)]);
        assert_eq!(found.grants.into_values().collect::<Vec<_>>(), [2, 2, 1]);
    }

    #[test]
    fn an_overlap_is_a_handover_in_no_time() {
        assert_eq!(handovers(&[held(1, 0, 10), held(2, 5, 20)]).to_another_task, [ms(0)]);
        assert_eq!(handovers(&[]), Handovers::default());
    }
}
