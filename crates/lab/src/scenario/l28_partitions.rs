use std::ops::Range;

use super::{Draw, Expects, Fault, Plan, Scenario, Span, Step, WayState, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L28",
    title: "A client is cut off: from a minority, from the majority, from all answers",
    story: "A network falls apart and comes back, three times. First a client does not reach a \
            minority of the nodes, then not the majority; then its requests arrive and the answers \
            do not. The other client is never disturbed for longer than a lease. Grants that \
            nobody heard of end with their leases.",
    expects: Expects::ALL_OK,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (nodes, needed) = (draw.mode.voters(), draw.mode.majority());
    let (mut cut_off, mut other) = (draw.client("a"), draw.client("b"));
    cut_off.ways = true;
    for client in [&mut cut_off, &mut other] {
        client.work.hold = Span { low_ms: 5, high_ms: 40 };
    }
    plan.clients = vec![cut_off, other];
    plan.schedule.push(When::granted("a").then(Fault::None));
    for (which, state) in [
        (needed..nodes, WayState::Cut),
        (0..needed, WayState::Cut),
        (0..needed, WayState::LoseReplies),
    ] {
        let lasts = draw.ms(200, if draw.quick { 600 } else { 3_000 });
        plan.schedule.extend(ways(which.clone(), state));
        plan.schedule.push(When::AfterMs(lasts).then(Fault::None));
        plan.schedule.push(When::granted("b").then(Fault::None));
        plan.schedule.extend(ways(which, WayState::Open));
        plan.schedule.push(When::granted("a").then(Fault::None));
    }
    plan
}

fn ways(nodes: Range<usize>, state: WayState) -> impl Iterator<Item = Step> {
    nodes.map(move |node| When::NOW.then(Fault::Way { client: "a".to_owned(), node, state }))
}
