use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L12",
    title: "A power loss takes the end of a node's append-only file",
    story: "The power fails, and one node of the holder's bare majority comes back without the \
            last moments of its append-only file (everysec). The grant and the token are gone. In \
            plain Redlock the node grants again, and two clients hold.",
    expects: Expects::MEMORY_NEEDED,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.appendonly = true;
    plan.servers.args = ["--appendfsync", "everysec"].map(str::to_owned).to_vec();
    let bytes = draw.ms(50, 200);
    let struck = draw.mode.majority() - 1;
    let (after, down) = (draw.ms(0, 50), draw.ms(0, 150));
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::Kill(struck)),
        When::NOW.then(Fault::CutTail { node: struck, bytes }),
        When::AfterMs(down).then(Fault::Restart(struck)),
        When::NOW.then(Fault::start("b")),
        When::granted("b").then(Fault::None),
    ];
    plan.tail_ms = 1_000;
    plan
}
