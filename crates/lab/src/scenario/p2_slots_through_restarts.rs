use super::p1_permits::{PERMITS, all_hold};
use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "P2",
    title: "A node restarts empty under a slot of permits",
    story: "As L10, with two permits. One is held on all nodes, the other on a bare majority. One of \
            these nodes is killed and starts again with no data. In plain Redlock it grants the \
            second slot again: two clients hold this slot, and three hold two permits. A node whose \
            memory is not proven has no vote, so the holder of the second slot is told first.",
    expects: Expects::MEMORY_NEEDED,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.locking.permits = Some(PERMITS);
    let struck = draw.mode.majority() - 1;
    let (after, down) = (draw.ms(0, 50), draw.ms(0, 150));
    // The holder on the bare majority comes last: it notices at its first renewal (L10).
    plan.clients = vec![draw.holder("a"), draw.bare_holder("b"), draw.rival("c")];
    plan.schedule = all_hold(&plan.clients[..2]);
    plan.schedule.extend([
        When::AfterMs(after).then(Fault::Kill(struck)),
        When::AfterMs(down).then(Fault::RestartEmpty(struck)),
        When::NOW.then(Fault::start("c")),
        When::granted("c").then(Fault::None),
    ]);
    plan.tail_ms = 1_000;
    plan
}
