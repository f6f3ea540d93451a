use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L02",
    title: "The holder is killed",
    story: "A process holds the lock and is killed (SIGKILL), so nothing is given back. The next \
            waiter gets the lock when the lease has ended, and not before. Until then nobody holds \
            it.",
    expects: Expects::ALL_OK,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let after = draw.ms(50, 1_000);
    let mut next = draw.client("b");
    next.starts = false;
    plan.clients = vec![draw.holder("a"), next];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::start("b")),
        When::AfterMs(after).then(Fault::ClientKill("a".to_owned())),
        When::granted("b").then(Fault::None),
    ];
    plan
}
