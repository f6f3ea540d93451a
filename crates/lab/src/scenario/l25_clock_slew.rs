use super::{Draw, Expects, Fault, Plan, Scenario, Span, WayState, When};
use crate::record::Expected::Violation;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L25",
    title: "Nodes' clocks run faster than lockers allow for",
    story: "The nodes' wall clocks gain 8.33 %, as chrony may slew them, where lockers allow for 1 \
            %. The holder is cut off and cannot renew. It believes until its own clock says that \
            the lease ends, when the nodes have long freed the lock. The overlap is the difference \
            of the rates, 0.07 leases. Lockers that allow for that rate, or whose takeover delay \
            is as long, have no overlap.",
    expects: Expects { e: None, ..Expects::in_all_modes(Violation) },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.clock_gains_ppm = Some(83_300);
    let after = draw.ms(0, 300);
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::None),
    ];
    let cut = |node| Fault::Way { client: "a".to_owned(), node, state: WayState::Cut };
    plan.schedule.extend((0..draw.mode.majority()).map(|node| When::NOW.then(cut(node))));
    plan.schedule.extend([When::NOW.then(Fault::start("b")), When::granted("b").then(Fault::None)]);
    plan.tail_ms = 600;
    let lease = plan.locking.lease_ms;
    plan.ended_by_delay = Some(Span { low_ms: lease * 3 / 100, high_ms: lease * 8 / 100 });
    plan
}
