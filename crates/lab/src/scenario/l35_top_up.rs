use std::ops::Range;

use super::{Draw, Expects, Fault, Plan, Scenario, Step, WayState, When};
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L35",
    title: "A renewal reaches another majority than the grant",
    story: "A holder reaches the first nodes only, then all, then the last nodes only, while \
            another client asks everywhere all the time. What counts is the earliest expiry among \
            a majority: a node that comes back takes its share of the lock before others are \
            missed.",
    expects: Expects { q: Some(Ok), qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (nodes, needed) = (draw.mode.voters(), draw.mode.majority());
    let lease = plan.locking.lease_ms;
    let (first, last) = (needed..nodes, 0..nodes - needed);
    let mut holder = draw.holder("a");
    holder.ways = true;
    plan.clients = vec![holder, draw.rival("b")];
    let phase = |draw: &mut Draw| draw.ms(lease / 2, lease);
    plan.schedule.extend(ways(first.clone(), WayState::Cut));
    plan.schedule.push(When::NOW.then(Fault::start("a")));
    plan.schedule.push(When::holds("a").then(Fault::start("b")));
    plan.schedule.push(When::AfterMs(phase(draw)).then(Fault::None));
    plan.schedule.extend(ways(first, WayState::Open));
    plan.schedule.push(When::AfterMs(phase(draw)).then(Fault::None));
    plan.schedule.extend(ways(last.clone(), WayState::Cut));
    plan.schedule.push(When::AfterMs(phase(draw)).then(Fault::None));
    plan.schedule.extend(ways(last, WayState::Open));
    plan.schedule.push(When::NOW.then(Fault::ClientEnd("a".to_owned())));
    plan.schedule.push(When::granted("b").then(Fault::None));
    plan
}

fn ways(nodes: Range<usize>, state: WayState) -> impl Iterator<Item = Step> {
    nodes.map(move |node| When::NOW.then(Fault::Way { client: "a".to_owned(), node, state }))
}
