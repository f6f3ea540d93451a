use super::{Draw, Expects, Fault, Plan, Scenario, Span, When};
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L29",
    title: "Each client sees another majority",
    story: "One client does not reach the last nodes, the other does not reach the first. Each \
            asks first where the other is not heard, and both meet in the middle. They alternate, \
            at the price of more attempts.",
    expects: Expects { q: Some(Ok), qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (nodes, needed) = (draw.mode.voters(), draw.mode.majority());
    let (mut first, mut last) = (draw.client("a"), draw.client("b"));
    first.reaches = Some((0..needed).collect());
    last.reaches = Some((nodes - needed..nodes).collect());
    for client in [&mut first, &mut last] {
        client.ways = true;
        client.work.hold = Span { low_ms: 2, high_ms: 20 };
        client.work.think = Span { low_ms: 0, high_ms: 20 };
    }
    plan.clients = vec![first, last];
    for _ in 0..if draw.quick { 3 } else { 20 } {
        plan.schedule.push(When::granted("a").then(Fault::None));
        plan.schedule.push(When::granted("b").then(Fault::None));
    }
    plan
}
