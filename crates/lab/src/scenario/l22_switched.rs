use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L22",
    title: "A proxy switches the server behind open connections",
    story: "Clients reach a node of the holder's bare majority through a proxy that speaks the \
            protocol. The proxy switches to an empty server, and the clients' connections stay as \
            they were. In plain Redlock that server grants the lock again, and two clients hold. A \
            check at connect sees nothing. A check inside each script does.",
    expects: Expects::MEMORY_NEEDED,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.spares = 1;
    let (node, spare) = (draw.mode.majority() - 1, plan.servers.voters);
    let after = draw.ms(0, 50);
    let (holder, mut rival) = (draw.bare_holder("a"), draw.rival("b"));
    // "b" must connect before the switch, because the switch concerns open connections.
    (rival.ways, rival.work.connected) = (true, true);
    plan.clients = vec![holder, rival];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::None),
    ];
    for client in ["a", "b"] {
        let switch = Fault::Switch { client: client.to_owned(), node, to: spare };
        plan.schedule.push(When::NOW.then(switch));
    }
    plan.schedule.extend([When::NOW.then(Fault::start("b")), When::granted("b").then(Fault::None)]);
    plan.tail_ms = 1_000;
    plan
}
