use super::{
    BrokenLockKind, ClientPlan, Draw, Expects, Fault, FirstAccess, Plan, Scenario, Span, Step, When,
};
use crate::record::Expected;

/// How many permits the name has.
pub(super) const PERMITS: u32 = 2;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "P1",
    title: "Two permits, no fault",
    story: "Two clients hold the two permits of a name, and three more want one. When the holders \
            end, the others take permits all the time. Nothing breaks. Each permit is a slot with a \
            number, and each slot is a lock of its own: it has one holder at a time, and no more \
            than two clients hold.",
    expects: Expects { e: None, ..Expects::ALL_OK },
    plan,
};

pub(super) const COUNTED: Scenario = Scenario {
    id: "P1C",
    title: "Two permits that each node counts",
    story: "A negative control: not this library's permits, but a set on each node, which lets \
            in two clients. A client holds a permit when a majority of the nodes lets it in. On one \
            server that is right. On a quorum three clients hold two permits, and no node has \
            failed: each client is let in by another majority. Of three nodes, the first client \
            asks 1 and 2, the second 3 and 1, the third 2 and 3. Clients that ask all nodes at once \
            are let in likewise when their requests arrive in such an order; here it is certain.",
    expects: Expects { s: Some(Expected::Ok), q: Some(Expected::Violation), ..Expects::NONE },
    plan: counted,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.locking.permits = Some(PERMITS);
    plan.clients = vec![draw.holder("a"), draw.holder("b")];
    for id in ["c", "d", "e"] {
        let mut client = draw.client(id);
        client.starts = false;
        client.work.contenders = if draw.quick { 2 } else { 4 };
        client.work.hold = Span { low_ms: 0, high_ms: 20 };
        plan.clients.push(client);
    }
    // Both permits are taken: otherwise a lock would do, too.
    plan.schedule = all_hold(&plan.clients[..2]);
    plan.schedule.extend(["c", "d", "e"].map(|id| When::NOW.then(Fault::start(id))));
    let full_ms = draw.ms(200, 400);
    plan.schedule.extend([
        When::AfterMs(full_ms).then(Fault::ClientEnd("a".to_owned())),
        When::NOW.then(Fault::ClientEnd("b".to_owned())),
    ]);
    plan.schedule.extend(["c", "d", "e"].map(|id| When::granted(id).then(Fault::None)));
    plan.tail_ms = if draw.quick { 1_500 } else { 10_000 };
    plan.tokens_in_order = true;
    plan
}

fn counted(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.locking.permits = Some(PERMITS);
    let (voters, majority) = (draw.mode.voters(), draw.mode.majority());
    for (place, id) in ["a", "b", "c"].into_iter().enumerate() {
        let mut client = draw.holder(id);
        let first = place * majority % voters;
        // A counter has no slots, so there is no resource that one holder has to itself.
        client.work.first_access = FirstAccess::Never;
        client.work.broken_lock = Some(BrokenLockKind::CountsPermits { first });
        plan.clients.push(client);
    }
    let let_in = PERMITS as usize * voters / majority;
    plan.schedule = all_hold(&plan.clients[..let_in]);
    // A counter on one node keeps the rest out.
    let rest = plan.clients[let_in..].iter().map(|client| When::NOW.then(Fault::start(&client.id)));
    plan.schedule.extend(rest);
    plan.tail_ms = 500;
    plan
}

/// Each of these clients starts when the one before it holds. In the end all hold.
pub(super) fn all_hold(clients: &[ClientPlan]) -> Vec<Step> {
    let steps = |client: &ClientPlan| {
        [When::NOW.then(Fault::start(&client.id)), When::holds(&client.id).then(Fault::None)]
    };
    clients.iter().flat_map(steps).collect()
}
