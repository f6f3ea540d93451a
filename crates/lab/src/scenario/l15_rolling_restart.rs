use super::{Draw, Expects, Fault, Plan, Scenario, When};
use crate::mode::Mode;
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L15",
    title: "A rolling restart of all nodes",
    story: "All nodes are restarted with no data, one after the other, while the lock is held: \
            quickly, or one longest lease apart. In plain Redlock two clients hold in the end. \
            Where memories must be proven, the quick restart stops everything for the longest \
            lease, and the slow one has no effect. A member of etcd that has no data never comes \
            back: the second one takes the majority away, the holder is told, and nobody holds \
            again.",
    expects: Expects { e: Some(Ok), ..Expects::MEMORY_NEEDED },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let longest = plan.locking.max_lease_ms;
    let (haste, patience) = (draw.ms(0, 30), draw.ms(longest + 500, longest + 1_000));
    let patient = draw.ms(0, 1) == 1 && !draw.quick;
    let gap = if patient { patience } else { haste };
    plan.clients = vec![draw.holder("a"), draw.rival("b")];
    plan.schedule = vec![When::NOW.then(Fault::start("a")), When::holds("a").then(Fault::None)];
    for node in 0..draw.mode.voters() {
        plan.schedule.push(When::AfterMs(gap).then(Fault::RestartEmpty(node)));
        if node + 1 == draw.mode.majority() {
            plan.schedule.push(When::NOW.then(Fault::start("b")));
            if draw.mode == Mode::E {
                plan.schedule.push(When::Told("a".to_owned()).then(Fault::None));
            }
        }
    }
    if draw.mode != Mode::E && !(patient && draw.mode.strict()) {
        plan.schedule.push(When::granted("b").then(Fault::None));
    }
    plan.tail_ms = 1_000;
    plan
}
