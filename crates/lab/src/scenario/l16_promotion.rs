use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};
use crate::record::Expected::{Ok, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L16",
    title: "The master dies before it has replicated, and its replica is promoted",
    story: "Replication lags when a client is granted the lock. The master is killed. The replica, \
            which never heard of the lock, takes its place and grants it again: two clients hold, \
            and the order of their tokens rests on the clocks. Where grants await replicas, the \
            first grant is refused.",
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
    // The grants of "c" are replicated, so the replica has the token mark before the last one.
    let mut before = draw.client("c");
    before.work.holds = Some(draw.ms(1, 5));
    let tail = draw.ms(0, 300);
    plan.clients = vec![draw.holder("a"), draw.rival("b"), before];
    plan.schedule = vec![When::done("c").then(Fault::None)];
    for replica in 1..=draw.mode.replicas() {
        let cut = Fault::Replication { replica, state: WayState::Cut };
        plan.schedule.push(When::InSync(replica).then(cut));
    }
    plan.schedule.push(When::AfterMs(tail).then(Fault::start("a")));
    plan.schedule.push(if draw.mode.awaits_replicas() {
        When::refused("a").then(Fault::ClientEnd("a".to_owned()))
    } else {
        When::holds("a").then(Fault::None)
    });
    plan.schedule.extend(draw.fails_over());
    plan.schedule.extend([When::NOW.then(Fault::start("b")), When::granted("b").then(Fault::None)]);
    plan.tail_ms = 500;
    plan
}
