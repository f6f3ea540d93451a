use super::{Draw, Expects, Fault, Plan, Scenario, When};
use crate::record::Expected::{Refused, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L33",
    title: "Memory is full, and the lock's key is evicted",
    story: "Nodes that may evict keys with a time to live (volatile-lru) are filled with other \
            data until one forgets the lock. The lock is granted a second time. Where memories \
            must be proven, such nodes are refused when a locker connects. The error names the \
            setting.",
    expects: Expects {
        s1: Some(Refused),
        rr: Some(Refused),
        ww: Some(Refused),
        qq: Some(Refused),
        qf: Some(Refused),
        e: None,
        ..Expects::in_all_modes(Violation)
    },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let struck = draw.mode.majority() - 1;
    let megabytes = draw.ms(12, 20);
    // The operator has admitted the nodes before this step. With these settings it would be
    // refused.
    for node in 0..plan.servers.count() {
        let memory = format!("{megabytes}mb");
        for setting in [["maxmemory", &memory], ["maxmemory-policy", "volatile-lru"]] {
            let words = ["CONFIG", "SET", setting[0], setting[1]];
            plan.schedule.push(When::NOW.then(Fault::command(node, &words)));
        }
    }
    plan.schedule.push(When::NOW.then(Fault::start("a")));
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b")];
    plan.schedule.extend(if draw.mode.strict() {
        vec![When::refused("a").then(Fault::start("b")), When::refused("b").then(Fault::None)]
    } else {
        vec![
            When::holds("a").then(Fault::Evict(struck)),
            When::NOW.then(Fault::start("b")),
            When::granted("b").then(Fault::None),
        ]
    });
    plan.tail_ms = 500;
    plan
}
