use super::{Draw, Expects, Fault, Overtaking, Plan, Scenario, Span, When};
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "F1",
    title: "Who comes first, by default",
    story: "Processes want the same lock again and again, and hold it for a few milliseconds. Some have \
            several tasks, and hand the lock off from task to task for a while. Nothing breaks. The lab \
            counts the grants that overtake a call of another process. Theory sets no bound, for no \
            safety rests on the order. On one server overtakings must be seen: F1 is the control of F1S.",
    expects: Expects::ALL_OK,
    plan,
};

pub(super) const STRICT: Scenario = Scenario {
    id: "F1S",
    title: "Who comes first, in strict order",
    story: "As F1, and all clients have the option of a strict order: a free lock with waiters goes to \
            the first of them only. No grant overtakes a call of another process. A quorum refuses the \
            option.",
    expects: Expects {
        s: Some(Ok),
        s1: Some(Ok),
        r: Some(Ok),
        w: Some(Ok),
        rr: Some(Ok),
        ww: Some(Ok),
        ..Expects::NONE
    },
    plan: strict,
};

/// Each has one task, which pauses after a hold: then it may find a lock free that a release has just
/// left to another process.
const NEWCOMERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Each has several tasks, which always want the lock: their calls wait for as long as others let them.
const BUSY: [&str; 2] = ["g", "h"];

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    for id in NEWCOMERS.into_iter().chain(BUSY) {
        let mut client = draw.client(id);
        client.work.connected = true;
        if BUSY.contains(&id) {
            client.work.contenders = 2;
            // Many fit into the time for which a process hands the lock off to its own tasks.
            client.work.hold = Span { low_ms: 1, high_ms: 5 };
        } else {
            // All others together: longer than the margin of an overtaking.
            client.work.hold = Span { low_ms: 15, high_ms: 25 };
            // Often longer than a process yields to the waiter that its own release has notified.
            client.work.think = Span { low_ms: 0, high_ms: 60 };
        }
        plan.schedule.push(When::granted(id).then(Fault::None));
        plan.clients.push(client);
    }
    plan.tail_ms = if draw.quick { 1_500 } else { 5_000 };
    plan.tokens_in_order = true;
    if draw.mode.voters() == 1 {
        plan.overtaking = Overtaking::Seen;
    }
    plan
}

fn strict(draw: &mut Draw) -> Plan {
    let mut plan = plan(draw);
    plan.locking.strict_order = true;
    plan.overtaking = Overtaking::Never;
    plan
}
