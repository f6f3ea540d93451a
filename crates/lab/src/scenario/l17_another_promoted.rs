use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};
use crate::record::Expected::{Ok, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L17",
    title: "One replica acknowledges, another is promoted",
    story: "A master has two replicas, of which one lags. A grant awaits one acknowledgement, and \
            the other replica gives it. Then the master dies, the lagging replica is promoted, and \
            it grants the lock again: two clients hold. Waiting for fewer than all replicas is \
            waiting for the wrong one.",
    expects: Expects {
        r: Some(Violation),
        w: Some(Violation),
        rr: Some(Ok),
        ww: Some(Ok),
        on_engines: true,
        ..Expects::NONE
    },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.replicas = 2;
    plan.locking.acks = usize::from(draw.mode.awaits_replicas());
    let tail = draw.ms(0, 300);
    plan.clients = vec![draw.holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::InSync(2).then(Fault::Replication { replica: 2, state: WayState::Cut }),
        When::AfterMs(tail).then(Fault::start("a")),
        When::holds("a").then(Fault::Kill(0)),
        When::NOW.then(Fault::Promote(2)),
        When::NOW.then(Fault::ReplicaOf { node: 1, of: 2 }),
        When::NOW.then(Fault::start("b")),
        When::granted("b").then(Fault::None),
    ];
    plan.tail_ms = 500;
    plan
}
