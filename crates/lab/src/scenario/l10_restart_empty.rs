use super::{Draw, Expects, Fault, Plan, Scenario, When};
use crate::mode::Mode;
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L10",
    title: "A node restarts empty under a bare majority",
    story: "A holder has the lock on a bare majority of the nodes. One of these nodes is killed \
            and starts again with no data. In plain Redlock it grants the lock a second time, and \
            two clients hold it. A node whose memory is not proven has no vote, so the holder is \
            told first. A member of etcd that comes back without its data is refused by the others: \
            it ends, and the holder goes on with those that are left.",
    expects: Expects { e: Some(Ok), ..Expects::MEMORY_NEEDED },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let struck = draw.mode.majority() - 1;
    // Short, because the holder notices at its next renewal, after a third of its lease.
    let (after, down) = (draw.ms(0, 50), draw.ms(0, 150));
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::Kill(struck)),
        When::AfterMs(down).then(Fault::RestartEmpty(struck)),
        When::NOW.then(Fault::start("b")),
    ];
    if draw.mode == Mode::E {
        let lease = plan.locking.lease_ms;
        plan.schedule.push(When::AfterMs(lease).then(Fault::ClientEnd("a".to_owned())));
    }
    plan.schedule.push(When::granted("b").then(Fault::None));
    plan.tail_ms = 1_000;
    plan
}
