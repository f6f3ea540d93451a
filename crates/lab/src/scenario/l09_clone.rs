use super::{BrokenLockKind, Draw, Expects, Fault, Plan, Scenario, When};
use crate::record::Expected;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L09",
    title: "Two clones draw the same random numbers",
    story: "A negative control. A client is cloned with its memory, and its random numbers are its \
            own, not the operating system's. Both clones draw the same nonce for a hold. A lock \
            that may be asked for again under its own value tells each clone that it has the \
            other's lock.",
    expects: Expects {
        s: Some(Expected::Violation),
        q: Some(Expected::Violation),
        ..Expects::NONE
    },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let after = draw.ms(0, 100);
    plan.clients = vec![draw.holder("a"), draw.rival("b")];
    for client in &mut plan.clients {
        client.work.broken_lock = Some(BrokenLockKind::RepeatsNonce);
    }
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::start("b")),
        When::granted("b").then(Fault::None),
    ];
    plan
}
