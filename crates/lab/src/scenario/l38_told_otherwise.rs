use super::{Draw, Expects, Fault, Plan, Scenario, When};
use crate::record::Expected::{Refused, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L38",
    title: "Lockers that were configured differently",
    story: "A locker is configured unlike the others: three nodes instead of five, a longer lease \
            than all agreed on, or several addresses of two servers. In plain Redlock its quorum \
            does not overlap with the others', and two clients hold. Nodes that know the agreed \
            configuration refuse it, and say why.",
    expects: Expects { q: Some(Violation), qq: Some(Refused), qf: Some(Refused), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (voters, majority) = (draw.mode.voters(), draw.mode.majority());
    let mut other = draw.rival("b");
    // Only the nodes that the majority of "a" does not need.
    let few = (majority..voters).collect::<Vec<_>>();
    let variant = draw.number() % 3;
    if !draw.mode.strict() {
        other.configured_with = Some(few);
        plan.clients = vec![draw.bare_holder("a"), other];
        plan.schedule = vec![
            When::NOW.then(Fault::start("a")),
            When::holds("a").then(Fault::start("b")),
            When::granted("b").then(Fault::None),
        ];
        return plan;
    }
    match variant {
        0 => other.configured_with = Some((0..voters - 2).collect()),
        1 => other.max_lease_ms = Some(plan.locking.max_lease_ms * 2),
        // All addresses of one server have one vote, and two votes are not a majority.
        _ => other.configured_with = Some([0, 0, 0, 1, 1].to_vec()),
    }
    other.starts = true;
    plan.clients = vec![other];
    plan.least_ms = draw.ms(900, 1_100);
    plan
}
