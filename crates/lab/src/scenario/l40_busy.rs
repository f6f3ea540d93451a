use super::{Draw, Expects, Fault, Plan, Scenario, Span, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L40",
    title: "A foreign script keeps nodes busy",
    story: "A long script runs on a minority of the nodes, then on a majority. These nodes answer \
            nobody, and after a while they answer BUSY. A minority is not missed. Without the \
            majority nobody gets anything until the script is over.",
    expects: Expects { e: None, ..Expects::ALL_OK },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (nodes, needed) = (draw.mode.voters(), draw.mode.majority());
    for id in ["a", "b"] {
        let mut client = draw.client(id);
        client.work.contenders = 2;
        client.work.hold = Span { low_ms: 5, high_ms: 30 };
        plan.clients.push(client);
    }
    for node in 0..nodes {
        // The name of the setting that all server versions know.
        let words = ["CONFIG", "SET", "lua-time-limit", "50"];
        plan.schedule.push(When::NOW.then(Fault::command(node, &words)));
    }
    let longest = if draw.quick { 300 } else { 1_500 };
    for busy in [needed..nodes, 0..needed] {
        plan.schedule.push(When::granted("a").then(Fault::None));
        for node in busy {
            let ms = draw.ms(100, longest);
            plan.schedule.push(When::NOW.then(Fault::Busy { node, ms }));
        }
        plan.schedule.push(When::AfterMs(longest).then(Fault::None));
        plan.schedule.push(When::granted("b").then(Fault::None));
    }
    plan
}
