use super::rw1_read_write::{reads, writes};
use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "RW2",
    title: "A node restarts empty under a reader",
    story: "As L10, with a reader. It has a read-write lock on a bare majority of the nodes. One of \
            these nodes is killed and starts again with no data. In plain Redlock it lets a writer \
            in, beside the reader. A node whose memory is not proven has no vote, so the reader is \
            told first.",
    expects: Expects::MEMORY_NEEDED,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let struck = draw.mode.majority() - 1;
    // Short, because the reader notices at its next renewal (L10).
    let (after, down) = (draw.ms(0, 50), draw.ms(0, 150));
    plan.clients = vec![reads(draw.bare_holder("a")), writes(draw.rival("b"))];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::Kill(struck)),
        When::AfterMs(down).then(Fault::RestartEmpty(struck)),
        When::NOW.then(Fault::start("b")),
        When::granted("b").then(Fault::None),
    ];
    plan.tail_ms = 1_000;
    plan
}
