use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};
use crate::record::Expected::{Ok, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L50",
    title: "The master is a replica meanwhile, and is promoted again",
    story: "A client is granted the lock while replication lags. The replica is promoted, the old \
            master copies its memory, which lacks the lock, and is promoted again: the same process, \
            the same scripts, the same admission record, another memory. Two clients hold. Where \
            memories must be proven, each vote compares the replication id, which a promotion changes.",
    expects: Expects { r: Some(Violation), rr: Some(Ok), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let mut before = draw.client("c");
    before.work.holds = Some(1);
    plan.clients = vec![draw.holder("a"), draw.rival("b"), before];
    plan.schedule = vec![
        When::done("c").then(Fault::None),
        When::InSync(1).then(Fault::Replication { replica: 1, state: WayState::Cut }),
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::Promote(1)),
        When::NOW.then(Fault::ReplicaOf { node: 0, of: 1 }),
        // The old master has copied the memory.
        When::InSync(1).then(Fault::Promote(0)),
        When::NOW.then(Fault::start("b")),
        When::granted("b").then(Fault::None),
    ];
    plan.tail_ms = 500;
    plan
}
