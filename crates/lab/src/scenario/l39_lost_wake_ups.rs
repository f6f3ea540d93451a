use super::{Draw, Expects, Fault, Plan, Scenario, Span, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L39",
    title: "Messages of release are lost, and many wait",
    story: "Many tasks wait for one lock, and every node closes its subscription connections again \
            and again, so waiters miss their notifications. They ask again in time, and not all at \
            once.",
    expects: Expects { e: None, ..Expects::ALL_OK },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (contenders, times) = if draw.quick { (20, 3) } else { (50, 20) };
    for id in ["a", "b"] {
        let mut client = draw.client(id);
        client.work.contenders = contenders;
        client.work.hold = Span { low_ms: 1, high_ms: 10 };
        plan.clients.push(client);
    }
    plan.schedule.push(When::granted("a").then(Fault::None));
    for _ in 0..times {
        let after = draw.ms(50, 300);
        plan.schedule.push(When::AfterMs(after).then(Fault::None));
        for node in 0..draw.mode.voters() {
            let kill = Fault::command(node, &["CLIENT", "KILL", "TYPE", "pubsub"]);
            plan.schedule.push(When::NOW.then(kill));
        }
        plan.schedule.push(When::granted("a").then(Fault::None));
        plan.schedule.push(When::granted("b").then(Fault::None));
    }
    plan
}
