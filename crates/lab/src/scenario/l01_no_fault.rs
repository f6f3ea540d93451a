use super::{Draw, Expects, Plan, Scenario, Span};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L01",
    title: "No fault",
    story: "Several processes want the same lock all the time and hold it for 0, 2 or 50 ms. \
            Nothing breaks. This is the baseline: how fast the lock goes from holder to holder, \
            and what each grant costs in requests.",
    expects: Expects::ALL_OK,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let holds = [0, 2, 50];
    for (id, hold_ms) in ["a", "b", "c"].into_iter().zip(holds) {
        let mut client = draw.client(id);
        client.work.contenders = if draw.quick { 2 } else { 8 };
        client.work.hold = Span::always(hold_ms);
        plan.clients.push(client);
    }
    plan.least_ms = if draw.quick { 1_500 } else { 10_000 };
    plan
}
