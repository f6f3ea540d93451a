use super::{Draw, Expects, Fault, Plan, Scenario, When};
use crate::mode::Mode;
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L14",
    title: "A majority restarts empty",
    story: "A majority of the nodes is killed and starts again with no data while the lock is \
            held. In plain Redlock they grant it again at once. Where memories must be proven, \
            nobody gets anything for the longest lease. By then the holder knows that it has lost. \
            etcd never grants anything again: its last member admits no member without data, and has \
            no majority.",
    expects: Expects { e: Some(Ok), ..Expects::MEMORY_NEEDED },
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
    let seen = match draw.mode {
        Mode::E => When::Told("a".to_owned()),
        _ => When::granted("b"),
    };
    plan.schedule.extend([When::NOW.then(Fault::start("b")), seen.then(Fault::None)]);
    plan.tail_ms = 1_000;
    plan
}
