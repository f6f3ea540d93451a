use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L24",
    title: "Nodes' clocks jump back, and the holder dies",
    story: "The wall clocks of a majority of the nodes jump back by ten minutes. Then the holder \
            is killed. Its lock outlives it by that time: nobody else gets it. Nothing is \
            violated. The lock is unavailable until the clocks are right again, or an operator \
            helps.",
    expects: Expects { e: None, ..Expects::ALL_OK },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.clock_gains_ppm = Some(0);
    let after = draw.ms(0, 200);
    plan.clients = vec![draw.holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::None),
    ];
    let set = |node| When::NOW.then(Fault::Clock { node, by_ms: -600_000 });
    plan.schedule.extend((0..draw.mode.majority()).map(set));
    plan.schedule.extend([
        When::NOW.then(Fault::start("b")),
        When::NOW.then(Fault::ClientKill("a".to_owned())),
    ]);
    // Long enough to show that the end of the lease makes no difference.
    plan.tail_ms = 2 * plan.locking.lease_ms;
    plan
}
