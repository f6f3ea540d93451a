use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L05",
    title: "A write arrives after the lease",
    story: "A careful holder checks its lock, sends a write, and dies. The write is on its way for \
            longer than the lease lasts. It arrives when another client holds the lock and has \
            written. No client can prevent that. A resource that refuses stale tokens can.",
    expects: Expects { qf: Some(Fenced), ..Expects::in_all_modes(Violation) },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (after, mut holder) = (draw.ms(0, 300), draw.holder("a"));
    holder.work.write_every_ms = Some(draw.ms(10, 40));
    plan.clients = vec![holder, draw.rival("b")];
    let writes = |state| Fault::Writes { client: "a".to_owned(), state };
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::wrote("a").then(Fault::start("b")),
        When::AfterMs(after).then(writes(WayState::HoldRequests)),
        When::HeldUp("a".to_owned()).then(Fault::ClientKill("a".to_owned())),
        When::wrote("b").then(writes(WayState::Open)),
        When::Arrived("a".to_owned()).then(Fault::None),
        When::granted("b").then(Fault::None),
    ];
    plan
}
