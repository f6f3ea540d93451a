use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L14",
    title: "A majority restarts empty",
    story: "A majority of the nodes is killed and starts again with no data while the lock is \
            held. In plain Redlock they grant it again at once. Where memories must be proven, \
            nobody gets anything for the longest lease. By then the holder knows that it has lost.",
    expects: Expects::MEMORY_NEEDED,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let after = draw.ms(0, 50);
    plan.clients = vec![draw.holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::None),
    ];
    let struck = draw.mode.voters() - draw.mode.majority()..draw.mode.voters();
    plan.schedule.extend(struck.map(|node| When::NOW.then(Fault::RestartEmpty(node))));
    plan.schedule.extend([When::NOW.then(Fault::start("b")), When::granted("b").then(Fault::None)]);
    plan.tail_ms = 1_000;
    plan
}
