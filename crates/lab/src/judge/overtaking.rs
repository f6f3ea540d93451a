use std::collections::BTreeMap;
use std::time::Duration;

use quorumlock_protocol::Instant;

use super::{Hold, Wait};

/// How long a call must have waited before calls that begin later count as later. A server queues a call
/// at its second request, and a loaded machine delays each of them. Two calls that begin within this time
/// have no order.
pub const OVERTAKING_MARGIN: Duration = Duration::from_millis(100);

/// How many grants overtook a call: another locker's call for the same name was the first of its
/// locker's queue for [`OVERTAKING_MARGIN`] when the granted call began, and still waited at the grant. It was
/// granted later, or gave up at least [`OVERTAKING_MARGIN`] later.
///
/// A locker sends one call for a name to the servers at a time, in the order in which its calls began.
/// A call is the first of its locker's queue once all calls before it have ended, with their holds: no
/// server knows of it earlier. Calls of one locker do not overtake each other.
///
/// Only names that one client at a time holds count: no permits, and no name that was held for reading.
/// A call that polls is overtaken as well, though it is in no server's queue, and so is a call of a
/// stopped process: the count says who had waited for longer, not why.
#[must_use]
pub fn overtakings(holds: &[Hold], waits: &[Wait]) -> usize {
    let mut names = BTreeMap::<&str, Vec<Call>>::new();
    for hold in holds {
        names.entry(hold.asked_name()).or_default().push(Call::granted(hold));
    }
    for wait in waits {
        names.entry(&wait.name).or_default().push(Call::in_vain(wait));
    }
    for hold in holds.iter().filter(|hold| hold.reads || hold.has_slot()) {
        names.remove(hold.asked_name());
    }
    names.into_values().map(of_one_name).sum()
}

/// How many grants of 1,000 overtook a call; `None` without a grant. Rounded to 1/1000, so that the value
/// is the same after a round trip through JSON.
#[must_use]
pub fn overtakings_per_1000(overtakings: u64, grants: u64) -> Option<f64> {
    let share = || overtakings as f64 / grants as f64;
    (grants > 0).then(|| (share() * 1e6).round() / 1e3)
}

/// A call for a name, and the hold that it became.
struct Call {
    locker: usize,
    asked: Instant,
    /// Since when it was the first of its locker's queue.
    first: Instant,
    granted: Option<Instant>,
    /// It is not overtaken by a grant from here on.
    waits_until: Instant,
    /// When the next call of its locker is the first.
    ended: Instant,
}

impl Call {
    fn granted(hold: &Hold) -> Self {
        Self {
            locker: hold.who.locker,
            asked: hold.asked,
            first: hold.asked,
            granted: Some(hold.granted),
            waits_until: hold.granted,
            ended: hold.released,
        }
    }

    fn in_vain(wait: &Wait) -> Self {
        Self {
            locker: wait.locker,
            asked: wait.asked,
            first: wait.asked,
            granted: None,
            waits_until: wait.ended - OVERTAKING_MARGIN,
            ended: wait.ended,
        }
    }
}

fn of_one_name(mut calls: Vec<Call>) -> usize {
    calls.sort_by_key(|call| call.asked);
    let mut ended = BTreeMap::<usize, Instant>::new();
    for call in &mut calls {
        let before = ended.entry(call.locker).or_insert(Instant::NEVER);
        call.first = call.asked.max(*before);
        *before = call.ended.max(*before);
    }
    let mut by_first = calls.iter().collect::<Vec<_>>();
    by_first.sort_by_key(|call| call.first);
    let mut earlier = by_first.into_iter().peekable();
    // Until when the calls of each locker wait that are earlier than the one at hand.
    let mut waits_until = BTreeMap::<usize, Instant>::new();
    let overtakes = |call: &&Call| {
        while let Some(one) = earlier.next_if(|one| one.first + OVERTAKING_MARGIN <= call.asked) {
            let until = waits_until.entry(one.locker).or_insert(Instant::NEVER);
            *until = one.waits_until.max(*until);
        }
        let Some(granted) = call.granted else { return false };
        waits_until.iter().any(|(locker, until)| *locker != call.locker && *until > granted)
    };
    calls.iter().filter(overtakes).count()
}

#[cfg(test)]
mod tests {
    use super::super::history::{at, held, of_slot, of_y, read, waited};
    use super::*;

    /// The hold of a task that asked at `asked`. Task 10 to 19 are of locker 1, and so on.
    fn of(task: usize, asked: u64, granted: u64, released: u64) -> Hold {
        Hold { asked: at(asked), ..held(task, granted, released) }
    }

    #[test]
    fn a_grant_overtakes_who_began_to_wait_the_margin_before_and_is_granted_later() {
        let first = held(1, 0, 200);
        let queued = of(10, 40, 220, 230);
        let count = |asked, granted| {
            overtakings(&[first.clone(), queued.clone(), of(20, asked, granted, granted + 5)], &[])
        };
        assert_eq!(count(140, 205), 1);
        assert_eq!(count(139, 205), 0, "within the margin");
        assert_eq!(count(140, 235), 0, "in turn");
    }

    #[test]
    fn a_grant_counts_once_and_each_grant_counts() {
        let holds = [of(10, 0, 400, 410), of(20, 5, 420, 430), of(30, 150, 160, 170)];
        assert_eq!(overtakings(&holds, &[]), 1, "it overtook two");
        let again = of(30, 180, 190, 200);
        assert_eq!(overtakings(&[&holds[..], &[again]].concat(), &[]), 2);
    }

    #[test]
    fn who_gives_up_is_overtaken_unless_that_is_near_the_grant() {
        let holds = [of(20, 110, 200, 210)];
        let wait = |ended| [Wait { locker: 1, ..waited(10, ended) }];
        assert_eq!(overtakings(&holds, &wait(301)), 1);
        assert_eq!(overtakings(&holds, &wait(300)), 0);
    }

    #[test]
    fn a_call_behind_others_of_its_locker_is_not_overtaken_until_it_is_the_first() {
        // Task 11 waits behind task 10, which holds until 100.
        let (ahead, behind) = (held(10, 0, 100), of(11, 5, 300, 310));
        let count = |asked| {
            let granted = asked + 10;
            overtakings(&[ahead.clone(), behind.clone(), of(20, asked, granted, granted)], &[])
        };
        assert_eq!((count(199), count(200)), (0, 1));
        // Nor behind one that gives up.
        let wait = Wait { locker: 1, ..waited(0, 100) };
        assert_eq!(overtakings(&[behind, of(20, 199, 210, 220)], &[wait]), 0);
    }

    #[test]
    fn calls_of_one_locker_do_not_overtake_each_other() {
        assert_eq!(overtakings(&[of(10, 0, 200, 210), of(11, 150, 160, 170)], &[]), 0);
    }

    #[test]
    fn the_rate_is_that_of_the_grants() {
        assert_eq!(overtakings_per_1000(1, 3), Some(333.333));
        assert_eq!((overtakings_per_1000(0, 3), overtakings_per_1000(0, 0)), (Some(0.0), None));
    }

    #[test]
    fn only_names_that_one_client_at_a_time_holds_count() {
        let holds = [of(10, 0, 200, 210), of(20, 150, 160, 170)];
        assert_eq!(overtakings(&holds, &[]), 1);
        assert_eq!(overtakings(&[holds[0].clone(), read(holds[1].clone())], &[]), 0);
        assert_eq!(overtakings(&holds.clone().map(|hold| of_slot(0, hold)), &[]), 0);
        assert_eq!(overtakings(&[holds[0].clone(), of_y(holds[1].clone())], &[]), 0);
        assert_eq!(overtakings(&[], &[waited(0, 200)]), 0);
    }
}
