//! A hold that moves to another process (docs/PROTOCOL.md, Tickets).

use quorumlock::{ConfigError, Error, Layout, LossReason, Owner, Ticket};

use super::{LONG_LEASE, NAME, SHORT_LEASE};
use crate::{Testbed, eventually, within};

/// As a ticket travels.
fn sent(ticket: &Ticket) -> Ticket {
    ticket.to_string().parse().expect("a ticket")
}

/// Another locker takes the hold up, renews it and releases it; nobody gets the lock in between (TIC1).
pub async fn a_hold_moves_to_another_process(bed: &Testbed) {
    let (ours, theirs, other) = (bed.locker(), bed.locker(), bed.locker());
    let guard = within("free", ours.lock(NAME).lease(SHORT_LEASE)).await.expect("granted");
    let (view, before) = (guard.view(), guard.token());
    guard.renew().await.expect("renewed");
    let ticket = sent(&guard.into_ticket().expect("still held"));
    let ended = within("the end of our hold", view.lost()).await;
    assert_eq!(ended.why, LossReason::Released);
    assert!(other.try_lock(NAME).await.expect("an answer").is_none(), "it is still held");

    let resumed = within("its nodes", theirs.resume(&ticket)).await.expect("taken up");
    assert!(resumed.token() > before, "a resource refuses what the first process still writes");
    assert_eq!(resumed.names().collect::<Vec<_>>(), [NAME]);
    let loss = tokio::time::timeout(SHORT_LEASE * 2, resumed.lost()).await;
    assert!(loss.is_err(), "the other process renews it: {loss:?}");
    assert!(other.try_lock(NAME).await.expect("an answer").is_none(), "it is still held");
    let token = resumed.token();
    resumed.unlock().await.expect("still held");
    let next = within("free", other.lock(NAME)).await.expect("granted");
    assert!(next.token() > token);
}

/// A task of the first process that waits for the lock gets it after the second one, and no sooner.
pub async fn a_waiter_of_the_first_process_waits_on(bed: &Testbed) {
    let (ours, theirs) = (bed.locker(), bed.locker());
    let guard = within("free", ours.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    let waiter = {
        let ours = ours.clone();
        tokio::spawn(async move { ours.lock(NAME).lease(LONG_LEASE).await })
    };
    tokio::task::yield_now().await;
    let ticket = guard.into_ticket().expect("still held");
    bed.awaits_waiters(NAME).await;
    let resumed = within("its nodes", theirs.resume(&ticket)).await.expect("taken up");
    assert!(!waiter.is_finished(), "two hold it");
    let token = resumed.token();
    resumed.unlock().await.expect("still held");
    let next = within("its turn", waiter).await.expect("no panic").expect("granted");
    assert!(next.token() > token);
}

/// A ticket that nobody takes up ends with its lease, and resuming it later is a loss.
pub async fn a_ticket_ends_with_its_lease(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let guard = within("free", ours.lock(NAME).lease(SHORT_LEASE)).await.expect("granted");
    let ticket = guard.into_ticket().expect("still held");
    let next = within("its end", other.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    let late = ours.resume(&ticket).await;
    assert!(matches!(&late, Err(Error::Lost(lost)) if lost.why == LossReason::Gone), "{late:?}");
    next.unlock().await.expect("a late resume took nothing from its holder");
    let free = other.try_lock(NAME).await.expect("an answer");
    assert!(free.is_some(), "a late resume left nothing behind");
}

/// `close` ends a call that takes a ticket up: nothing is granted once it has returned, and the ticket is
/// as good as before (G7).
pub async fn no_ticket_is_taken_up_once_a_locker_is_closed(bed: &Testbed) {
    let (ours, closed, theirs) = (bed.locker(), bed.locker(), bed.locker());
    let guard = within("free", ours.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    let ticket = guard.into_ticket().expect("still held");
    closed.ping().await.expect("its nodes answer");
    bed.pause_all();
    let taking = tokio::spawn({
        let (closed, ticket) = (closed.clone(), ticket.clone());
        async move { closed.resume(&ticket).await }
    });
    tokio::task::yield_now().await;
    within("its end", closed.close()).await;
    let taken = within("its end", taking).await.expect("no panic");
    assert!(matches!(taken, Err(Error::Closed)), "{taken:?}");
    bed.resume_all();
    let resumed = within("its nodes", theirs.resume(&ticket)).await.expect("taken up");
    resumed.unlock().await.expect("still held");
}

/// All names of a set move with one ticket.
pub async fn a_set_moves_as_a_whole(bed: &Testbed) {
    const SET: [&str; 2] = ["{account}/7", "{account}/8"];
    let (ours, theirs, other) = (bed.locker(), bed.locker(), bed.locker());
    let guard = within("free", ours.lock(SET).lease(LONG_LEASE)).await.expect("granted");
    let ticket = sent(&guard.into_ticket().expect("still held"));
    let resumed = within("its nodes", theirs.resume(&ticket)).await.expect("taken up");
    assert_eq!(resumed.names().collect::<Vec<_>>(), SET);
    for name in SET {
        assert!(other.try_lock(name).await.expect("an answer").is_none(), "{name}");
    }
    resumed.unlock().await.expect("still held");
    within("free", other.lock(SET)).await.expect("granted").unlock().await.expect("held");
}

/// A locker of the other layout is told so, and the ticket is as good as before (TIC3).
pub async fn a_ticket_names_its_layout(bed: &Testbed) {
    let (ours, theirs) = (bed.locker(), bed.locker());
    let layout = match bed.layout() {
        Layout::Redlock => Layout::Redisson,
        Layout::Redisson => Layout::Redlock,
    };
    let other = bed.build(bed.builder().layout(layout));
    let guard = within("free", ours.lock(NAME).lease(LONG_LEASE)).await.expect("granted");
    let ticket = sent(&guard.into_ticket().expect("still held"));
    let refused = within("an answer", other.resume(&ticket)).await;
    let expected = ConfigError::OtherLayout { ticket: bed.layout(), locker: layout };
    assert!(matches!(&refused, Err(Error::Config(why)) if *why == expected), "{refused:?}");
    let resumed = within("its nodes", theirs.resume(&ticket)).await.expect("taken up");
    resumed.unlock().await.expect("still held");
}

/// The limit of a hold moves with it, and a hold that an owner shares does not move.
pub async fn a_limit_moves_and_a_shared_hold_does_not(bed: &Testbed) {
    let (ours, theirs) = (bed.locker(), bed.locker());
    let limited = ours.lock(NAME).lease(SHORT_LEASE).hold_at_most(SHORT_LEASE * 2);
    let guard = within("free", limited).await.expect("granted");
    let ticket = sent(&guard.into_ticket().expect("still held"));
    let resumed = within("its nodes", theirs.resume(&ticket)).await.expect("taken up");
    let ended = within("its limit", resumed.lost()).await;
    assert_eq!(ended.why, LossReason::HoldLimit);
    // The lease ends a little before the limit, and on some nodes before the others.
    bed.awaits_no_key(NAME).await;
    let late = theirs.resume(&ticket).await.expect_err("its limit is over");
    assert!(matches!(late, Error::Lost(_)), "{late:?}");

    let owner = Owner::new();
    let outer = within("free", ours.lock("invoice/8").owner(&owner)).await.expect("granted");
    let inner = ours.lock("invoice/8").owner(&owner).await.expect("re-entered");
    let refused = match inner.into_ticket() {
        Err(Error::Config(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused, ConfigError::SharedHold { holds: 2, .. }), "{refused}");
    assert!(outer.check().is_ok(), "the outer hold stays");
    eventually("one hold less", async || (outer.hold_count() == 1).then_some(())).await;
}
