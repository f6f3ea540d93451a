use std::collections::BTreeMap;
use std::time::Duration;

use quorumlock_protocol::Instant;

use super::{Hold, Wait};
use crate::history::TOGETHER;

/// The longest vacancy of all names: a time in which a task waited for a lock and no task believed
/// to hold it, or fewer than there are permits. Every lock needs a round trip of this between two
/// holders; a fault makes it longer.
#[must_use]
pub fn longest_vacancy(holds: &[Hold], waits: &[Wait]) -> Duration {
    vacancies(holds, waits).into_iter().max().unwrap_or_default()
}

/// All vacancies of all names: times in which a task waited for a lock and no task believed to hold
/// it, or fewer than there are permits. Who waits for several names together waits for one of them
/// while another is free, so such calls and holds do not count.
#[must_use]
pub fn vacancies(holds: &[Hold], waits: &[Wait]) -> Vec<Duration> {
    let (mut names, mut permits) = (BTreeMap::<&str, Vec<Event>>::new(), BTreeMap::new());
    let mut note = |name, from: Instant, until: Instant, change: fn(i64) -> Change| {
        if from < until {
            let events = names.entry(name).or_default();
            events.extend([(from, change(1)), (until, change(-1))]);
        }
    };
    for hold in holds.iter().filter(|hold| !hold.is_set()) {
        permits.insert(hold.asked_name(), i64::from(hold.permits));
        note(hold.asked_name(), hold.asked, hold.granted, |by| Change { waiting: by, holding: 0 });
        let until = hold.believed_until();
        note(hold.asked_name(), hold.granted, until, |by| Change { waiting: 0, holding: by });
    }
    for wait in waits.iter().filter(|wait| !wait.name.contains(TOGETHER)) {
        note(&*wait.name, wait.asked, wait.ended, |by| Change { waiting: by, holding: 0 });
    }
    let of_name = |(name, events)| of_one_name(events, permits.get(name).copied().unwrap_or(1));
    names.into_iter().flat_map(of_name).collect()
}

type Event = (Instant, Change);

/// The change in the number of waiting and of holding tasks.
struct Change {
    waiting: i64,
    holding: i64,
}

fn of_one_name(mut events: Vec<Event>, permits: i64) -> Vec<Duration> {
    events.sort_by_key(|(at, _)| *at);
    let (mut waiting, mut holding) = (0, 0);
    let mut since = None;
    let mut found = Vec::new();
    for together in events.chunk_by(|(one, _), (next, _)| one == next) {
        let at = together[0].0;
        for (_, change) in together {
            waiting += change.waiting;
            holding += change.holding;
        }
        if waiting > 0 && holding < permits {
            since.get_or_insert(at);
        } else if let Some(since) = since.take() {
            found.push(at.since(since));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::history::{at, held, ms, of_slot, of_y, waited};
    use super::*;

    #[test]
    fn only_time_with_waiters_and_without_a_holder_counts() {
        let first = Hold { asked: at(0), ..held(1, 7, 50) };
        assert_eq!(longest_vacancy(std::slice::from_ref(&first), &[]), ms(7));
        // From 50 to 60 the lock is free and no task waits for it.
        let second = Hold { asked: at(60), ..held(2, 64, 70) };
        assert_eq!(longest_vacancy(&[first.clone(), second], &[]), ms(7));
        let second = Hold { asked: at(10), ..held(2, 64, 70) };
        assert_eq!(longest_vacancy(&[first, second], &[]), ms(14));
    }

    #[test]
    fn every_vacancy_counts() {
        let holds = [held(1, 5, 10), held(2, 30, 40)];
        assert_eq!(vacancies(&holds, &[waited(0, 33)]), [ms(5), ms(20)]);
    }

    #[test]
    fn who_gave_up_waited_too() {
        assert_eq!(longest_vacancy(&[held(1, 0, 10)], &[waited(5, 30)]), ms(20));
        assert_eq!(longest_vacancy(&[], &[waited(5, 30), waited(20, 40)]), ms(35));
        assert_eq!(longest_vacancy(&[], &[]), ms(0));
    }

    #[test]
    fn a_permit_is_vacant_until_all_slots_are_held() {
        let holds = [of_slot(0, held(1, 0, 50)), of_slot(1, held(2, 10, 40))];
        assert_eq!(vacancies(&holds, &[waited(5, 45)]), [ms(5), ms(5)]);
    }

    #[test]
    fn a_holder_that_follows_at_the_same_instant_leaves_no_gap_and_names_are_told_apart() {
        let holds = [held(1, 0, 10), held(2, 10, 20)];
        assert_eq!(longest_vacancy(&holds, &[waited(0, 20)]), ms(0));
        let y = of_y(Hold { asked: at(0), ..held(3, 9, 20) });
        assert_eq!(longest_vacancy(&[holds[0].clone(), y], &[waited(0, 20)]), ms(10));
    }
}
