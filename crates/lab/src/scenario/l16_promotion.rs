use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};
use crate::record::Expected::Violation;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L16",
    title: "The master dies before it has replicated, and its replica is promoted",
    story: "Replication lags when a client is granted the lock. The master is killed, the replica, \
            which has never heard of the lock, takes its place and grants it again: both hold, and \
            both have the same fencing token.",
    expects: Expects { r: Some(Violation), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    // What the replica has: the counter before the last token.
    let mut before = draw.client("c");
    before.work.holds = Some(draw.ms(1, 5));
    let tail = draw.ms(0, 300);
    let (mut holder, mut rival) = (draw.holder("a"), draw.rival("b"));
    (holder.ways, rival.ways) = (true, true);
    plan.clients = vec![holder, rival, before];
    plan.schedule = vec![
        When::Done("c".to_owned()).then(Fault::None),
        When::InSync(1).then(Fault::Replication { replica: 1, state: WayState::Cut }),
        When::AfterMs(tail).then(Fault::start("a")),
        When::holds("a").then(Fault::Kill(0)),
        When::NOW.then(Fault::Promote { node: 1, instead_of: 0 }),
        When::NOW.then(Fault::start("b")),
        When::granted("b").then(Fault::None),
    ];
    plan.tail_ms = 1_000;
    plan
}
