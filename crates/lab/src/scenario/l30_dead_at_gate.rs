use super::{Draw, Expects, Fault, Plan, Scenario, Span, WayState, When};
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L30",
    title: "Whoever has the gate dies before it has the others",
    story: "Waiters ask one node first, the gate, so that they do not split the votes. A client is \
            granted the lock by one node alone and is killed; so with each node in turn, of which \
            one is the gate. The next in line finds the gate taken for a whole lease, asks the \
            others all the same, soon, and gets in.",
    expects: Expects { q: Some(Ok), qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    // Without the way round the gate it would be nearly all of the lease: the longer, the clearer.
    plan.locking.lease_ms = plan.locking.max_lease_ms;
    plan.vacant_at_most_ms = Some(plan.locking.lease_ms / 2);
    let (mut next, mut holder) = (draw.client("b"), draw.client("c"));
    next.work.hold = Span::always(50);
    holder.work.hold = Span::always(draw.ms(150, 300));
    // Long enough to be stopped in: it would ask all nodes first, and end the vacancy.
    holder.work.think = Span::always(300);
    plan.clients = vec![next, holder];
    for node in 0..draw.mode.voters() {
        let id = format!("d{node}");
        let mut dying = draw.rival(&id);
        // It is connected to all, so that it waits for the others' answers and keeps what it has.
        (dying.ways, dying.work.connected) = (true, true);
        plan.clients.push(dying);
        let others = (0..draw.mode.voters()).filter(|other| *other != node);
        plan.schedule.extend(others.map(|node| {
            let (client, state) = (id.clone(), WayState::Cut);
            When::NOW.then(Fault::Way { client, node, state })
        }));
        plan.schedule.extend([
            // The next one waits for that.
            When::granted("c").then(Fault::stop("b")),
            When::Released("c".to_owned()).then(Fault::stop("c")),
            When::NOW.then(Fault::start(&id)),
            When::Has(node).then(Fault::ClientKill(id)),
            When::NOW.then(Fault::cont("b")),
            When::granted("b").then(Fault::cont("c")),
            // Until the dead one's lease has ended: with those of a majority nobody could get in.
            When::AfterMs(plan.locking.lease_ms).then(Fault::None),
        ]);
    }
    plan
}
