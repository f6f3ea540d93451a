use super::{Draw, Expects, Fault, Plan, Scenario, Span, WayState, When};
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L30",
    title: "Whoever has the gate dies before it has the others",
    story: "Waiters ask one node first, the gate, so that they do not split the votes. A holder is \
            killed, and nobody is told when its lease ends. Then a client is granted the lock by one \
            node alone and is killed, too; so with each node in turn, of which one is the gate. The \
            next in line finds the gate taken for a whole lease, asks the others all the same, soon, \
            and gets in.",
    expects: Expects { q: Some(Ok), qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.locking.lease_ms = plan.locking.max_lease_ms;
    let lease = plan.locking.lease_ms;
    // From the holder's death to the end of its lease nobody can. Without the way round the gate it would be
    // another lease.
    plan.vacant_at_most_ms = Some(lease * 3 / 2);
    let mut next = draw.client("b");
    next.work.hold = Span::always(50);
    plan.clients = vec![next];
    for node in 0..draw.mode.voters() {
        let (holder, id) = (format!("c{node}"), format!("d{node}"));
        let mut dying = draw.rival(&id);
        // It is connected to all, so that it waits for the others' answers and keeps what it has.
        (dying.ways, dying.work.connected) = (true, true);
        plan.clients.extend([draw.holder(&holder), dying]);
        plan.schedule.extend([
            When::NOW.then(Fault::start(&holder)),
            When::granted(&holder).then(Fault::None),
            // The next one waits for that by then, and has been refused: nobody tells of that.
            When::AfterMs(300).then(Fault::stop("b")),
            When::NOW.then(Fault::ClientKill(holder)),
            When::AfterMs(lease).then(Fault::None),
        ]);
        let others = (0..draw.mode.voters()).filter(|other| *other != node);
        plan.schedule.extend(others.map(|node| {
            let (client, state) = (id.clone(), WayState::Cut);
            When::NOW.then(Fault::Way { client, node, state })
        }));
        plan.schedule.extend([
            When::NOW.then(Fault::start(&id)),
            When::Has(node).then(Fault::ClientKill(id)),
            When::NOW.then(Fault::cont("b")),
            When::granted("b").then(Fault::None),
        ]);
    }
    plan
}
