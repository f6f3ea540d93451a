use super::{Draw, Expects, Fault, Plan, Scenario, Span, WayState, When};
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L30",
    title: "A client dies with the home node before it has the others",
    story: "Waiters ask one node first, the home node, so that they do not split the votes. A \
            holder is killed, and nobody tells the waiters when its lease ends. Then a client is \
            granted the lock by one node alone and is killed too. This is repeated with each node, \
            so once with the home node. The next waiter finds the home node taken for a whole \
            lease, asks the others soon, and gets the lock.",
    expects: Expects { q: Some(Ok), qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    // Short, because the run awaits the end of a lease once for each node.
    let lease = 5_000;
    (plan.locking.lease_ms, plan.locking.max_lease_ms) = (lease, lease);
    // The vacancy lasts until the end of the dead holder's lease. If waiters could not go around
    // the home node, it would last another lease.
    plan.vacant_at_most_ms = Some(lease * 3 / 2);
    let mut next = draw.client("b");
    next.work.hold = Span::always(50);
    plan.clients = vec![next];
    for node in 0..draw.mode.voters() {
        let (holder, id) = (format!("c{node}"), format!("d{node}"));
        let mut dying = draw.rival(&id);
        // Connected to all nodes, so that it waits for the answers of the others and keeps its one
        // grant.
        (dying.ways, dying.work.connected) = (true, true);
        plan.clients.extend([draw.holder(&holder), dying]);
        plan.schedule.extend([
            When::NOW.then(Fault::start(&holder)),
            When::granted(&holder).then(Fault::None),
            // By then "b" waits in the queue and has been refused. No event reports this.
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
