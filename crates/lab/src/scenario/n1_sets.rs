use super::{Draw, Expects, Fault, Plan, Ring, Scenario, Span, When};

/// The number of names, and of the tasks of each client.
const NAMES: usize = 5;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "N1",
    title: "Rings of sets, and a holder is killed",
    story: "Five tasks in each of three clients want two names each: their own and the next one, in \
            a ring. Each takes both in one step or none, so no task holds a name while it waits, and \
            nothing is stuck. Each name has one holder at a time. One client is killed: its names \
            are free when its leases end.",
    expects: Expects::ALL_OK,
    plan,
};

pub(super) const ONE_BY_ONE: Scenario = Scenario {
    id: "N1C",
    title: "Rings of names that are taken one by one",
    story: "A negative control: five tasks take two plain locks one after the other, in the order of \
            the ring. Each holds its own name and waits for the next one. All locks are renewed, so \
            they wait for ever: no task ever has both. A client that wants one other name gets it.",
    expects: Expects { e: None, ..Expects::ALL_OK },
    plan: one_by_one,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    for id in ["a", "b", "c"] {
        let mut client = draw.client(id);
        (client.work.contenders, client.work.names) = (NAMES, NAMES);
        client.work.ring = Some(Ring::AllOrNothing);
        client.work.hold = Span { low_ms: 0, high_ms: 20 };
        plan.clients.push(client);
    }
    let (alive_ms, grants) = if draw.quick { (500, 3) } else { (3_000, 30) };
    plan.schedule = ["a", "b", "c"].map(|id| When::granted(id).then(Fault::None)).to_vec();
    plan.schedule.push(When::AfterMs(alive_ms).then(Fault::ClientKill("a".to_owned())));
    // Each grant counts since the one before it: the others go on, also with names that it held.
    let others = (0..grants).flat_map(|_| ["b", "c"]);
    plan.schedule.extend(others.map(|id| When::granted(id).then(Fault::None)));
    plan.tail_ms = if draw.quick { plan.locking.lease_ms } else { 2 * plan.locking.lease_ms };
    plan.tokens_in_order = true;
    plan
}

fn one_by_one(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let mut client = draw.client("a");
    (client.work.contenders, client.work.names) = (NAMES, NAMES);
    client.work.ring = Some(Ring::OneByOne);
    plan.clients = vec![client, draw.client("b")];
    // Killed: a client that ends in order releases names, and a task would get both.
    let end = Fault::ClientKill("a".to_owned());
    plan.schedule = vec![When::AfterMs(2 * plan.locking.lease_ms).then(end)];
    plan.starved = vec!["a".to_owned()];
    plan
}
