use super::{Draw, Expects, Fault, Plan, Scenario, When};
use crate::mode::Mode;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L24",
    title: "Nodes' clocks jump back, and the holder dies",
    story: "The wall clocks of a majority of the nodes jump back by ten minutes. Then the holder \
            is killed. Its lock outlives it by that time: nobody else gets it. Nothing is \
            violated. The lock is unavailable until the clocks are right again, or an operator \
            helps. Of etcd the wall clocks of all members jump. Its leases end by the monotonic \
            clock of the leader, but before 3.5 it looks for leases that have ended by the wall \
            clock: these outlive the holder as they do on Redis.",
    expects: Expects::ALL_OK,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.clock_gains_ppm = Some(0);
    let after = draw.ms(0, 200);
    plan.clients = vec![draw.holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::None),
    ];
    let set = |node| When::NOW.then(Fault::Clock { node, by_ms: -600_000 });
    // The leader of etcd is one of the members.
    let struck = if draw.mode == Mode::E { draw.mode.voters() } else { draw.mode.majority() };
    plan.schedule.extend((0..struck).map(set));
    plan.schedule.extend([
        When::NOW.then(Fault::start("b")),
        When::NOW.then(Fault::ClientKill("a".to_owned())),
    ]);
    // Long enough to show that the end of the lease makes no difference.
    plan.tail_ms = 2 * plan.locking.lease_ms;
    plan
}
