use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L34",
    title: "Memory is full, and nothing may be evicted",
    story: "All nodes are out of memory (noeviction) while a lock is held. Renewals and the \
            release need no memory, so the holder goes on. A client that asks for a new lock is \
            refused until there is room again.",
    expects: Expects { e: None, ..Expects::ALL_OK },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let full = plan.locking.lease_ms + draw.ms(0, 500);
    let set = |nodes, to: &'static str| {
        let words = ["CONFIG", "SET", "maxmemory", to];
        (0..nodes).map(move |node| When::NOW.then(Fault::command(node, &words)))
    };
    plan.clients = vec![draw.holder("a"), draw.rival("b")];
    plan.schedule = vec![When::NOW.then(Fault::start("a")), When::holds("a").then(Fault::None)];
    plan.schedule.extend(set(draw.mode.voters(), "1"));
    plan.schedule.extend([
        When::NOW.then(Fault::start("b")),
        When::AfterMs(full).then(Fault::ClientEnd("a".to_owned())),
        When::done("a").then(Fault::None),
    ]);
    plan.schedule.extend(set(draw.mode.voters(), "0"));
    plan.schedule.push(When::granted("b").then(Fault::None));
    plan
}
