use super::{Draw, Expects, Fault, Plan, Scenario, When};
use crate::mode::Mode;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L27",
    title: "A node's clock stands still, and the holder dies",
    story: "The wall clock of one node stands still, so its keys never expire. The holder is \
            killed. If that node is the only one, nobody ever gets the lock again. A quorum \
            outvotes the node when the lease ends. Of etcd the clocks of all members stand still, \
            with the effect of L24.",
    expects: Expects::ALL_OK,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.clock_gains_ppm = Some(0);
    let after = draw.ms(0, 200);
    plan.clients = vec![draw.holder("a"), draw.rival("b")];
    plan.schedule = vec![When::NOW.then(Fault::start("a")), When::holds("a").then(Fault::None)];
    // The leader of etcd is one of the members.
    let struck = if draw.mode == Mode::E { draw.mode.voters() } else { 1 };
    plan.schedule.extend((0..struck).map(|node| When::NOW.then(Fault::FreezeClock(node))));
    plan.schedule.extend([
        When::AfterMs(after).then(Fault::start("b")),
        When::NOW.then(Fault::ClientKill("a".to_owned())),
    ]);
    plan.tail_ms = 2 * plan.locking.lease_ms;
    plan
}
