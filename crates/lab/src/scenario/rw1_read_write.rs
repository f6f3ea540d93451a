use super::p1_permits::all_hold;
use super::{ClientPlan, Draw, Expects, Fault, Plan, ReadWrite, Scenario, Span, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "RW1",
    title: "Readers and writers, no fault",
    story: "Two clients hold a read-write lock for reading at the same time. Two writers and two more \
            readers want it. When the first readers end, the others take it all the time. Nothing \
            breaks. Readers hold together; a writer holds alone.",
    expects: Expects { e: None, ..Expects::ALL_OK },
    plan,
};

/// The client takes a read-write lock for reading. Where it would write, it reads.
pub(super) fn reads(mut client: ClientPlan) -> ClientPlan {
    client.work.read_write = Some(ReadWrite::Read);
    client
}

/// The client takes a read-write lock for writing.
pub(super) fn writes(mut client: ClientPlan) -> ClientPlan {
    client.work.read_write = Some(ReadWrite::Write);
    client
}

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.clients = vec![reads(draw.holder("a")), reads(draw.holder("b"))];
    let others = [("c", writes as fn(ClientPlan) -> _), ("d", writes), ("e", reads), ("f", reads)];
    for (id, how) in others {
        let mut client = how(draw.client(id));
        client.starts = false;
        client.work.contenders = if draw.quick { 2 } else { 4 };
        client.work.hold = Span { low_ms: 0, high_ms: 20 };
        plan.clients.push(client);
    }
    // Both read at once: otherwise a lock would do, too.
    plan.schedule = all_hold(&plan.clients[..2]);
    plan.schedule.extend(others.map(|(id, _)| When::NOW.then(Fault::start(id))));
    let read_ms = draw.ms(200, 400);
    plan.schedule.extend([
        When::AfterMs(read_ms).then(Fault::ClientEnd("a".to_owned())),
        When::NOW.then(Fault::ClientEnd("b".to_owned())),
    ]);
    plan.schedule.extend(others.map(|(id, _)| When::granted(id).then(Fault::None)));
    plan.tail_ms = if draw.quick { 1_500 } else { 10_000 };
    plan.tokens_in_order = true;
    // A hold that nobody knows of would keep the others out until its lease ends.
    plan.vacant_at_most_ms = Some(plan.locking.lease_ms / 2);
    plan
}
