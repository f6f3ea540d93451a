use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L48",
    title: "A node boots empty with its clock an hour wrong, and clients meet it",
    story: "A node of the holder's bare majority loses its data and boots with a clock that is an \
            hour ahead or behind. The holder does not reach it any more, and believes in its last \
            grant there. Another client meets the node, and a moment later the clock is set right. \
            In plain Redlock the node grants at once, and two clients hold. Where memories must be \
            proven, no client writes a note by a wrong clock: the node counts for nothing until a \
            true longest lease has passed.",
    expects: Expects::MEMORY_NEEDED,
    plan,
};

const HOUR_MS: i64 = 3_600_000;

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.clock_gains_ppm = Some(0);
    let by_ms = if draw.number().is_multiple_of(2) { HOUR_MS } else { -HOUR_MS };
    let node = draw.mode.majority() - 1;
    // Longer than clients take to meet the node, shorter than what is left of the lease.
    let wrong = draw.ms(300, 500);
    let way = Fault::Way { client: "a".to_owned(), node, state: WayState::Cut };
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(way),
        When::NOW.then(Fault::Kill(node)),
        When::NOW.then(Fault::Clock { node, by_ms }),
        When::NOW.then(Fault::RestartEmpty(node)),
        When::NOW.then(Fault::start("b")),
        When::AfterMs(wrong).then(Fault::Clock { node, by_ms: 0 }),
        When::granted("b").then(Fault::None),
    ];
    plan.tail_ms = 1_000;
    plan.tokens_in_order = draw.mode.strict();
    plan
}
