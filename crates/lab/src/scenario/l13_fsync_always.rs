use super::{Draw, Expects, Fault, Plan, Scenario, When};
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L13",
    title: "A power loss, with every write synchronised before its answer",
    story: "As L12 with appendfsync always. The disk has all that a client was told, so the power \
            loss takes nothing that counts. The price is a synchronisation for every batch of \
            requests, which shows in the handovers before the fault.",
    expects: Expects {
        s: Some(Ok),
        s1: Some(Ok),
        q: Some(Ok),
        qq: Some(Ok),
        qf: Some(Ok),
        ..Expects::NONE
    },
    plan,
};

/// The number of grants before the fault. Their latency shows the cost of `appendfsync always`.
fn grants(draw: &Draw) -> u64 {
    if draw.quick { 20 } else { 300 }
}

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.appendonly = true;
    let lease = plan.locking.lease_ms;
    let struck = draw.mode.majority() - 1;
    let (after, down) = (draw.ms(0, 50), draw.ms(0, 150));
    let mut before = draw.client("c");
    (before.work.contenders, before.work.holds) = (3, Some(grants(draw)));
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b"), before];
    plan.schedule = vec![
        When::done("c").then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::Kill(struck)),
        When::AfterMs(down).then(Fault::Restart(struck)),
        When::NOW.then(Fault::start("b")),
        // "a" runs for another lease, so that any overlap with "b" is observed.
        When::AfterMs(lease).then(Fault::ClientEnd("a".to_owned())),
        When::granted("b").then(Fault::None),
    ];
    plan.tail_ms = 200;
    plan
}
