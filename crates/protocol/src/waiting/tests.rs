use proptest::prelude::*;

use super::*;
use crate::test_clock::Clock;
use crate::{FencingToken, WaitEvent};

const LEASE: Duration = Duration::from_secs(30);
const NODES: usize = 5;
const HOME: usize = 1;

const LOCK: WaitOptions = WaitOptions {
    strict_order: false,
    deadline: None,
    once: false,
    fail_fast: false,
    lease: LEASE,
    nodes: NODES,
    queues: true,
    polls: true,
    set: false,
};
const TRY_LOCK: WaitOptions = WaitOptions { once: true, fail_fast: true, ..LOCK };

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn granted(now: Instant) -> Event {
    let grant = Grant { until: now + LEASE, token: FencingToken::NONE, counted: false };
    Event::Granted(Granted { asked: now, nonce: Nonce::from_u128(1), grant })
}

fn refused(seconds: u64) -> Event {
    Event::Refused {
        remaining: Some(Duration::from_secs(seconds)),
        by: RefusedBy::HomeNode,
        place: None,
    }
}

fn split() -> Event {
    Event::Refused { remaining: None, by: RefusedBy::SplitVotes, place: None }
}

/// Refused by the home node, though nobody holds the lock: the waiter has yielded.
fn left_free() -> Event {
    Event::Refused { remaining: None, by: RefusedBy::HomeNode, place: None }
}

fn no_majority(since: Instant) -> Event {
    Event::NoMajority { since, may_heal: true }
}

fn message(node: usize, message: WaitEvent) -> Event {
    let mut messages = Messages::default();
    messages.add(node, &message);
    Event::Messages(messages, Some(HOME))
}

fn head() -> Event {
    message(HOME, WaitEvent::Head(None))
}

fn missed() -> Event {
    message(HOME, WaitEvent::Retry)
}

/// A message of a majority of the other nodes.
fn others() -> Event {
    let mut messages = Messages::default();
    for node in (0..NODES).filter(|node| *node != HOME) {
        messages.add(node, &WaitEvent::Head(None));
    }
    Event::Messages(messages, Some(HOME))
}

/// A call and its clock.
struct Caller {
    waiting: Waiting,
    clock: Clock,
    share: f64,
}

impl Caller {
    fn new(options: WaitOptions) -> Self {
        Self { waiting: Waiting::new(options), clock: Clock::manual(), share: 1.0 }
    }

    /// A call that has sent its first request.
    fn asking(options: WaitOptions) -> Self {
        let mut caller = Self::new(options);
        caller.on(Event::Permit(Notified::Nobody));
        caller
    }

    /// A call whose first request another client's lease of 20 s refused.
    fn queued() -> Self {
        let mut caller = Self::asking(LOCK);
        caller.on(refused(20));
        caller
    }

    fn on(&mut self, event: Event) -> Step {
        let share = self.share;
        self.waiting.on(event, self.clock.now(), || share)
    }

    fn asks(&mut self, event: Event) -> Approach {
        match self.on(event) {
            Step::Ask(approach) => approach,
            step => panic!("{event:?}: {step:?}"),
        }
    }

    fn listens(&mut self, event: Event) -> Duration {
        match self.on(event) {
            Step::Listen(longest) => longest,
            step => panic!("{event:?}: {step:?}"),
        }
    }

    fn listens_after(&mut self, asks: Event, event: Event) -> Duration {
        self.asks(asks);
        self.listens(event)
    }

    /// Sleeps to the end without a message.
    fn polls(&mut self, slept: Duration) -> Approach {
        self.clock.advance(slept);
        self.asks(Event::Timer)
    }
}

/// A state, and what a call in it does on each event, in the order of [`events`].
type Row = (&'static str, Caller, [&'static str; 8]);

fn events(now: Instant) -> [Event; 8] {
    [
        Event::Permit(Notified::Nobody),
        granted(now),
        Event::Retry,
        refused(20),
        no_majority(now),
        Event::Inspected { held: false },
        head(),
        Event::Timer,
    ]
}

/// What a step does, without its figures.
fn kind(step: &Step) -> &'static str {
    match step {
        Step::Ask(_) => "ask",
        Step::Inspect => "inspect",
        Step::Sleep(_) => "sleep",
        Step::Listen(_) => "listen",
        Step::Leave(_) => "leave",
        Step::Fail => "fail",
        Step::Hold(_) => "hold",
        Step::GiveUp(GiveUp::Busy(_)) => "busy",
        Step::GiveUp(GiveUp::NoMajority) => "-",
    }
}

fn rows() -> Vec<Row> {
    let once = || Caller::asking(TRY_LOCK);
    let after = |mut caller: Caller, events: &[Event]| {
        for event in events {
            caller.on(*event);
        }
        caller
    };
    let since = Clock::manual().now();
    let late = || {
        let caller = Caller::asking(WaitOptions { deadline: Some(since + ms(5)), ..LOCK });
        caller.clock.advance(ms(5));
        caller
    };
    let inspecting = || after(once(), &[split()]);
    let outage = || after(Caller::asking(LOCK), &[no_majority(since)]);
    //                     permit  granted retry  refused  no maj.  free     head   timer
    vec![
        ("Local", Caller::new(LOCK), ["ask", "-", "-", "-", "-", "-", "-", "-"]),
        ("Asking", Caller::asking(LOCK), ["-", "hold", "ask", "listen", "leave", "-", "-", "-"]),
        ("Asking, once", once(), ["-", "hold", "ask", "busy", "-", "-", "-", "-"]),
        ("Asking, late", late(), ["-", "hold", "ask", "busy", "-", "-", "-", "-"]),
        (
            "Asking, without results",
            after(Caller::asking(LOCK), &[Event::Retry; TUNING.max_retries as usize]),
            ["-", "hold", "fail", "listen", "leave", "-", "-", "-"],
        ),
        ("Inspecting", inspecting(), ["-", "-", "-", "-", "-", "sleep", "-", "-"]),
        (
            "Backoff",
            after(inspecting(), &[Event::Inspected { held: false }]),
            ["-", "hold", "-", "-", "-", "-", "-", "ask"],
        ),
        ("Queued", Caller::queued(), ["-", "hold", "-", "-", "-", "-", "ask", "ask"]),
        ("Outage", outage(), ["-", "-", "-", "-", "-", "-", "-", "listen"]),
        (
            "Recovering",
            after(outage(), &[Event::Timer]),
            ["-", "-", "-", "-", "-", "-", "ask", "ask"],
        ),
        ("Ended", after(once(), &[refused(20)]), ["-"; 8]),
    ]
}

/// PROTOCOL.md, Waiting: every state and every event. A call never hangs: an event that answers no
/// step ends it.
#[test]
fn each_state_takes_each_event() {
    let count = rows().len();
    for row in 0..count {
        for at in 0..8 {
            let (state, mut caller, wanted) = rows().swap_remove(row);
            let event = events(caller.clock.now())[at];
            assert_eq!(kind(&caller.on(event)), wanted[at], "{state}: {event:?}");
        }
    }
}

#[test]
fn a_first_attempt_asks_all_nodes_and_does_not_subscribe() {
    let first = Caller::new(LOCK).asks(Event::Permit(Notified::Nobody));
    assert!(!first.home_first && !first.yields && !first.subscribe && !first.by_script);
}

#[test]
fn a_call_after_a_release_of_this_process_lets_the_notified_waiters_go_first() {
    let queued = Caller::new(LOCK).asks(Event::Permit(Notified::Waiter));
    assert!(queued.home_first && queued.yields && queued.subscribe);
    let mut caller = Caller::new(LOCK);
    let step = caller.on(Event::Permit(Notified::Channel));
    assert_eq!(step, Step::Sleep(TUNING.head_start), "for programs that know of no queue");
    assert!(!caller.polls(TUNING.head_start).yields);
}

#[test]
fn a_waiter_that_was_notified_asks_the_home_node_first() {
    let approach = Caller::queued().asks(missed());
    assert!(approach.home_first && !approach.yields);
    let approach = Caller::queued().asks(others());
    assert!(approach.home_first && approach.yields, "another waiter may be on its way");
}

#[test]
fn the_head_of_the_queue_asks_all_nodes_at_once() {
    let approach = Caller::queued().asks(head());
    assert!(!approach.home_first && !approach.yields && approach.subscribe);
}

/// PROTOCOL.md W2.
#[test]
fn one_message_of_another_node_is_enough_after_a_grace() {
    let mut caller = Caller::queued();
    assert_eq!(caller.listens(message(0, WaitEvent::Head(None))), TUNING.message_grace);
    caller.clock.advance(TUNING.message_grace / 2);
    let rest = caller.listens(message(2, WaitEvent::Head(None)));
    assert_eq!(rest, TUNING.message_grace / 2, "it counts from the first message");
    caller.clock.advance(rest);
    assert!(caller.asks(Event::Timer).yields, "a message, and no poll");
}

/// PROTOCOL.md W7.
#[test]
fn a_waiter_queues_at_all_nodes_once_the_home_node_gives_no_answer() {
    let others = || Event::Refused {
        remaining: Some(Duration::from_secs(20)),
        by: RefusedBy::Others,
        place: None,
    };
    let mut caller = Caller::asking(LOCK);
    let first = caller.listens(others());
    assert!(first > 10 * TUNING.min_split_backoff, "it did not enqueue yet");
    assert!(!caller.asks(head()).enqueue_on_all);
    let unqueued = caller.listens(others());
    assert!(unqueued <= TUNING.min_split_backoff, "it is in no queue");
    for _ in 0..5 {
        assert!(caller.asks(Event::Timer).enqueue_on_all);
        let queued = caller.listens(others());
        assert!(queued > 10 * TUNING.min_split_backoff, "a holder's refusal is no split vote");
    }
    caller.asks(Event::Timer);
    assert!(caller.listens(split()) <= 2 * TUNING.min_split_backoff + ms(1));
}

/// Two waiters that yield to each other at different nodes leave the lock free.
#[test]
fn a_free_lock_that_others_refused_is_asked_for_soon() {
    let mut caller = Caller::asking(LOCK);
    caller.listens(refused(20));
    caller.asks(others());
    let left_free = Event::Refused { remaining: None, by: RefusedBy::Others, place: None };
    assert!(caller.listens(left_free) <= 2 * TUNING.min_split_backoff + ms(1));
    caller.asks(Event::Timer);
    let longest = caller.listens(left_free);
    assert_eq!(longest, 4 * TUNING.min_split_backoff + ms(1), "as after split votes");
    assert!(!caller.polls(longest).yields);
}

/// PROTOCOL.md W7, W9.
#[test]
fn split_votes_are_repeated_soon_and_then_everywhere() {
    let mut caller = Caller::asking(LOCK);
    let first = caller.listens(split());
    assert!(first > 10 * TUNING.min_split_backoff, "it was not queued, so nobody lost to it");
    caller.asks(head());
    for times in 1..=3 {
        let longest = caller.listens(split());
        assert_eq!(longest, TUNING.min_split_backoff * (1 << times) + ms(1));
        let approach = if times == 2 { caller.asks(others()) } else { caller.polls(longest) };
        assert_eq!(approach.enqueue_on_all, times > 1, "others may hold without the home node");
        assert!(!approach.yields, "it is the head of the queue itself");
        assert_eq!(approach.home_first, times != 2, "nobody else was notified at the others");
    }
    assert!(caller.listens(refused(40)) > 10 * TUNING.min_split_backoff, "others have it");
}

#[test]
fn a_poll_yields_while_the_lease_moves_on_and_asks_all_nodes_once_it_stands_still() {
    let mut caller = Caller::asking(LOCK);
    for _ in 0..3 {
        let slept = caller.listens(refused(20));
        let approach = caller.polls(slept + Duration::from_secs(1));
        assert!(approach.home_first && approach.yields);
    }
    // The same lease as before: the client that has the home node may be dead (PROTOCOL.md W7).
    caller.clock.advance(Duration::from_secs(1));
    caller.asks(Event::Retry);
    caller.listens(refused(20));
    let slept = caller.asks(Event::Timer);
    assert!(slept.home_first, "renewed");
    let longest = caller.listens(Event::Refused {
        remaining: Some(Duration::from_secs(20) + TUNING.lease_precision),
        by: RefusedBy::HomeNode,
        place: None,
    });
    let approach = caller.polls(longest);
    assert!(!approach.home_first && !approach.yields);
}

#[test]
fn a_waiter_that_yielded_takes_a_lock_that_is_still_free() {
    let mut caller = Caller::new(LOCK);
    assert!(caller.asks(Event::Permit(Notified::Waiter)).yields);
    let slept = caller.listens(left_free());
    let approach = caller.polls(slept);
    assert!(approach.home_first && !approach.yields, "they did not come");
}

/// The simulation's seed 712352383: the waiter's own releases woke it, and it left the free lock
/// again each time.
#[test]
fn messages_of_others_make_a_waiter_yield_once_only() {
    let mut caller = Caller::queued();
    assert!(caller.asks(others()).yields);
    caller.listens(left_free());
    assert!(!caller.asks(others()).yields, "they did not come");
}

#[test]
fn a_waiter_polls_within_its_own_lease_and_not_in_step_with_others() {
    let slept = |share| {
        let mut caller = Caller::queued();
        caller.clock.advance(Duration::from_secs(600));
        caller.share = share;
        caller.asks(head());
        caller.listens(refused(3_600))
    };
    let (soon, late) = (slept(0.0), slept(1.0));
    assert!(soon < late && late <= LEASE, "{soon:?} {late:?}");
    let mut caller = Caller::asking(LOCK);
    assert_eq!(caller.listens(refused(0)), ms(1), "the holder's lease has ended");
}

/// PROTOCOL.md W8. The home node's answer may come after the refusals of clients that fail, too.
#[test]
fn a_try_lock_that_the_home_node_did_not_refuse_asks_again_a_bounded_number_of_times() {
    let others = Event::Refused { remaining: None, by: RefusedBy::Others, place: None };
    for refusal in [split(), others] {
        let mut caller = Caller::asking(TRY_LOCK);
        for times in 0..TUNING.max_try_splits {
            assert_eq!(caller.on(refusal), Step::Inspect);
            let step = caller.on(Event::Inspected { held: false });
            assert_eq!(step, Step::Sleep(TUNING.min_split_backoff * (1 << times)));
            assert!(caller.asks(Event::Timer).home_first, "which lets one client pass");
        }
        assert_eq!(caller.on(refusal), Step::GiveUp(GiveUp::Busy(None)));
        let mut caller = Caller::asking(TRY_LOCK);
        caller.on(refusal);
        let held = caller.on(Event::Inspected { held: true });
        assert_eq!(held, Step::GiveUp(GiveUp::Busy(None)));
    }
}

/// SAFETY.md G6.
#[test]
fn a_call_without_a_deadline_outlasts_an_outage_of_half_a_minute() {
    let mut caller = Caller::asking(LOCK);
    let since = caller.clock.now();
    let mut asked = 0;
    while let Step::Leave(half) = caller.on(no_majority(since)) {
        caller.clock.advance(half);
        let rest = caller.listens(Event::Timer);
        assert!(half + rest <= TUNING.max_outage_backoff);
        assert!(!caller.polls(rest).by_script, "it begins anew");
        asked += 1;
    }
    let lasted = caller.clock.now().since(since);
    assert!(lasted >= TUNING.max_outage && lasted < TUNING.max_outage + ms(1_500), "{lasted:?}");
    assert!((30..40).contains(&asked), "{asked}");
    let mut caller = Caller::asking(LOCK);
    let wrong = caller.on(Event::NoMajority { since, may_heal: false });
    assert_eq!(wrong, Step::GiveUp(GiveUp::NoMajority), "waiting cannot help");
}

/// Events that may follow a step, drawn by `draw`.
fn answer(step: Step, draw: u32, now: Instant) -> Option<Event> {
    let pick = |events: &[Event]| Some(events[draw as usize % events.len()]);
    match step {
        Step::Ask(_) => pick(&[
            refused(20),
            refused(3_600),
            split(),
            left_free(),
            Event::Retry,
            no_majority(now),
        ]),
        Step::Inspect => pick(&[Event::Inspected { held: draw.is_multiple_of(5) }]),
        Step::Listen(_) => pick(&[head(), missed(), others(), message(0, WaitEvent::Retry)]),
        Step::Sleep(_) | Step::Leave(_) => Some(Event::Timer),
        Step::Fail => pick(&[no_majority(now)]),
        Step::Hold(_) | Step::GiveUp(_) => None,
    }
}

proptest! {
    /// Whatever the nodes answer and however they are told: a waiter never sleeps past its lease,
    /// nor past its deadline, asks again after each sleep, leaves a free lock to others at most
    /// every other time, and ends soon after its deadline.
    #[test]
    fn a_waiter_is_neither_lost_nor_left_out(
        draws in prop::collection::vec((any::<u32>(), 0.0..=1.0_f64), 1..200),
        once: bool,
        wait in prop::option::of(0..60_000_u64),
    ) {
        let mut caller = Caller::new(if once { TRY_LOCK } else { LOCK });
        let deadline = wait.map(|wait| caller.clock.now() + ms(wait));
        caller.waiting.options.deadline = deadline;
        let mut step = caller.on(Event::Permit(Notified::Nobody));
        let (mut idle, mut yielded, mut late) = (0, false, 0);
        for (draw, share) in draws {
            caller.share = share;
            idle += 1;
            match step {
                Step::Ask(approach) => {
                    prop_assert!(!(approach.yields && yielded), "twice in a row");
                    idle = 0;
                    late += u32::from(deadline.is_some_and(|at| at <= caller.clock.now()));
                }
                Step::Sleep(time) | Step::Listen(time) | Step::Leave(time) => {
                    prop_assert!(time <= LEASE / 3 + ms(1));
                    if let Some(at) = deadline.filter(|_| !once) {
                        prop_assert!(time <= at.since(caller.clock.now()));
                    }
                    let half = (time / 2).max(TUNING.message_grace / 10);
                    caller.clock.advance(if draw.is_multiple_of(3) { half } else { time });
                }
                _ => {}
            }
            prop_assert!(idle <= 16, "asks again: {step:?}");
            prop_assert!(late <= 1 + TUNING.max_retries, "asks on after its deadline");
            let slept = matches!(step, Step::Listen(_)) && !draw.is_multiple_of(3);
            let event = if slept { Some(Event::Timer) } else { answer(step, draw, caller.clock.now()) };
            let Some(event) = event else { return Ok(()) };
            let asked = matches!(step, Step::Ask(Approach { yields: true, .. }));
            if let Event::Refused { remaining, .. } = event {
                yielded = asked && remaining.is_none();
            }
            step = caller.on(event);
        }
    }
}

/// The first and the second ask again within a second, however long they have waited; the others by their
/// place, and none of them at the end of the holder's lease.
#[test]
fn a_waiter_polls_by_its_place_in_the_queue() {
    let refused = |place| Event::Refused {
        remaining: Some(Duration::from_secs(20)),
        by: RefusedBy::HomeNode,
        place: Some(place),
    };
    for (place, longest) in
        [(1, 1_001), (2, 1_001), (3, 1_500), (10, 5_000), (40, 20_000), (999, 30_000)]
    {
        for share in [0.0, 1.0] {
            let mut caller = Caller { share, ..Caller::asking(WaitOptions { nodes: 1, ..LOCK }) };
            caller.listens(refused(1));
            caller.clock.advance(Duration::from_secs(600));
            let slept = caller.listens_after(Event::Timer, refused(place));
            let longest = ms(longest);
            assert!((longest / 2..=longest).contains(&slept), "{place}, {share}: {slept:?}");
        }
    }
    let mut caller = Caller::asking(WaitOptions { polls: false, ..LOCK });
    assert_eq!(caller.listens(refused(7)), Duration::from_secs(20) + ms(1), "the end of the lease");
    assert!(caller.listens_after(Event::Timer, split()) < ms(100), "after split votes");
}

/// PROTOCOL.md SET5: a notified call for several names has a turn, and asks at its end. The next turn is
/// twice as long, and comes after as long a time without one.
#[test]
fn a_call_for_several_names_has_turns_with_pauses() {
    let refused = Event::Refused {
        remaining: Some(Duration::from_secs(20)),
        by: RefusedBy::HomeNode,
        place: Some(1),
    };
    let mut caller = Caller::asking(WaitOptions { set: true, nodes: 1, ..LOCK });
    caller.listens(refused);
    assert!(!caller.asks(missed()).turn, "not notified");
    caller.listens(refused);
    let mut length = TUNING.min_turn;
    for _ in 0..6 {
        assert_eq!(caller.asks(head()).precedence(), Precedence::Turn);
        assert!(caller.listens(refused) <= length);
        caller.clock.advance(length / 2);
        assert!(caller.asks(missed()).turn, "it goes on");
        assert!(caller.listens(refused) <= length / 2);
        caller.clock.advance(length / 2);
        assert!(!caller.asks(Event::Timer).turn, "it is over");
        caller.listens(refused);
        assert!(!caller.asks(head()).turn, "others have a time");
        caller.listens(refused);
        caller.clock.advance(length);
        length *= 2;
    }
    let mut one = Caller::queued();
    assert!(!one.asks(head()).turn, "one name");
}
