use super::{Draw, Expects, Fault, Plan, Scenario, Span, WayState, When};
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L43",
    title: "A waiter does not reach one node, which others ask first",
    story: "A client is cut off from one node after the other, so once from the home node, where \
            waiters queue. Another client reaches all nodes and takes the lock again and again. \
            The majority that is left must serve the first client: a release notifies waiters on \
            every node where the name is free.",
    expects: Expects { q: Some(Ok), qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (mut cut_off, mut other) = (draw.client("a"), draw.client("b"));
    cut_off.ways = true;
    for client in [&mut cut_off, &mut other] {
        client.work.hold = Span { low_ms: 5, high_ms: 40 };
    }
    plan.clients = vec![cut_off, other];
    for node in 0..draw.mode.voters() {
        let way = |state| Fault::Way { client: "a".to_owned(), node, state };
        plan.schedule.push(When::granted("a").then(way(WayState::LoseRequests)));
        // Requests that are already on their way may still be granted.
        plan.schedule.push(When::AfterMs(100).then(Fault::None));
        for _ in 0..if draw.quick { 3 } else { 10 } {
            plan.schedule.push(When::granted("a").then(Fault::None));
            plan.schedule.push(When::granted("b").then(Fault::None));
        }
        plan.schedule.push(When::NOW.then(way(WayState::Open)));
    }
    plan
}
