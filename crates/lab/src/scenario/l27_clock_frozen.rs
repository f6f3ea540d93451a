use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L27",
    title: "A node's clock stands still, and the holder dies",
    story: "The wall clock of one node stands still, so its keys never expire. The holder is \
            killed. If that node is the only one, nobody ever gets the lock again. A quorum \
            outvotes the node when the lease ends.",
    expects: Expects { e: None, ..Expects::ALL_OK },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.clock_gains_ppm = Some(0);
    let after = draw.ms(0, 200);
    plan.clients = vec![draw.holder("a"), draw.rival("b")];
    plan.schedule = vec![When::NOW.then(Fault::start("a")), When::holds("a").then(Fault::None)];
    plan.schedule.push(When::NOW.then(Fault::FreezeClock(0)));
    plan.schedule.extend([
        When::AfterMs(after).then(Fault::start("b")),
        When::NOW.then(Fault::ClientKill("a".to_owned())),
    ]);
    plan.tail_ms = 2 * plan.locking.lease_ms;
    plan
}
