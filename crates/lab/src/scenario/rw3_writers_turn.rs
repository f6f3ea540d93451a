use super::p1_permits::all_hold;
use super::rw1_read_write::{reads, writes};
use super::{
    BrokenLockKind, Draw, Expects, Fault, FirstAccess, Plan, Scenario, Span, Waiting, When,
};
use crate::record::Expected;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "RW3",
    title: "A writer among readers that never pause",
    story: "Readers take a read-write lock again as soon as they have given it back, so that at least \
            one of them always holds it. One writer wants it, and gets it: while it waits, new \
            readers wait behind it.",
    expects: Expects { e: None, ..Expects::ALL_OK },
    plan,
};

pub(super) const READERS_FIRST: Scenario = Scenario {
    id: "RW3C",
    title: "As RW3, and readers go first",
    story: "A negative control: not this library's read-write lock, but a set that readers enter \
            whenever no writer is in it. A writer enters when the set is empty. It never is, so the \
            writer waits in vain until the run ends.",
    expects: Expects { s: Some(Expected::Ok), ..Expects::NONE },
    plan: readers_first,
};

/// Readers without a pause, and a writer that starts when they hold.
fn stream(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    for id in ["a", "b"] {
        let mut client = reads(draw.client(id));
        client.starts = false;
        // Long and different holds: that all tasks are between two holds at once is unlikely.
        client.work.contenders = 4;
        client.work.hold = Span { low_ms: 50, high_ms: 150 };
        client.work.think = Span::always(0);
        plan.clients.push(client);
    }
    plan.schedule = all_hold(&plan.clients);
    let mut writer = writes(draw.client("c"));
    writer.starts = false;
    plan.clients.push(writer);
    let alone_ms = draw.ms(200, 400);
    plan.schedule.push(When::AfterMs(alone_ms).then(Fault::start("c")));
    plan
}

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = stream(draw);
    let grants = if draw.quick { 3 } else { 30 };
    // Each grant counts since the one before it: the writer gets in again and again.
    plan.schedule.extend((0..grants).map(|_| When::granted("c").then(Fault::None)));
    plan.tokens_in_order = true;
    plan
}

fn readers_first(draw: &mut Draw) -> Plan {
    let mut plan = stream(draw);
    for client in &mut plan.clients {
        client.work.broken_lock = Some(BrokenLockKind::ReadersFirst);
        client.work.first_access = FirstAccess::Never;
    }
    if let Some(writer) = plan.clients.last_mut() {
        writer.work.waiting = Waiting::PollMs(5);
    }
    // The writer gives up first: it must not be granted what ending readers leave.
    let tried_ms = if draw.quick { 3_000 } else { 20_000 };
    plan.schedule.extend([
        When::AfterMs(tried_ms).then(Fault::ClientEnd("c".to_owned())),
        When::done("c").then(Fault::None),
    ]);
    plan.starved = vec!["c".to_owned()];
    plan
}
