use super::{Draw, Expects, Fault, Plan, Scenario, When};
use crate::mode::Mode;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L21",
    title: "A living node's data is gone",
    story: "One node of the holder's bare majority is flushed (FLUSHALL), or its database is \
            exchanged for an empty one (SWAPDB). The process and the connections stay. A check at \
            connect sees nothing. Only a check together with each vote does. One \
            proven server is flushed only: with its database exchanged it stays refused until an \
            operator admits it.",
    expects: Expects::MEMORY_NEEDED,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let struck = draw.mode.majority() - 1;
    let after = draw.ms(100, 250);
    let flush = draw.ms(0, 1) == 0 || draw.mode == Mode::S1;
    let words: &[&str] = if flush { &["FLUSHALL"] } else { &["SWAPDB", "0", "1"] };
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        // "b" connects before the fault.
        When::holds("a").then(Fault::start("b")),
        When::AfterMs(after).then(Fault::command(struck, words)),
        When::granted("b").then(Fault::None),
    ];
    plan.tail_ms = 1_000;
    plan
}
