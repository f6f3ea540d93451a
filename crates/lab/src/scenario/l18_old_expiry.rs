use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};
use crate::record::Expected::{Ok, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L18",
    title: "The grant is replicated, and its renewals are not",
    story: "The replica has the lock with the expiry of the grant. Then replication stops, and the \
            holder goes on renewing at the master. When the replica is promoted, its copy has \
            expired. Where renewals await replicas too, the holder is told in time.",
    expects: Expects {
        r: Some(Violation),
        w: Some(Ok),
        rr: Some(Ok),
        ww: Some(Ok),
        on_engines: true,
        ..Expects::NONE
    },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let over = plan.locking.lease_ms + draw.ms(300, 600);
    plan.clients = vec![draw.holder("a"), draw.rival("b")];
    plan.schedule = vec![When::NOW.then(Fault::start("a")), When::holds("a").then(Fault::None)];
    for replica in 1..=draw.mode.replicas() {
        let cut = Fault::Replication { replica, state: WayState::Cut };
        plan.schedule.push(When::InSync(replica).then(cut));
    }
    plan.schedule.push(When::AfterMs(over).then(Fault::None));
    if !draw.mode.awaits_replicas() {
        // Until its next renewal the holder hears nothing.
        plan.schedule.push(When::renewed("a").then(Fault::None));
    }
    plan.schedule.extend(draw.fails_over());
    plan.schedule.extend([When::NOW.then(Fault::start("b")), When::granted("b").then(Fault::None)]);
    plan.tail_ms = 500;
    plan
}
