use super::{Draw, Expects, Fault, OnLoss, Plan, Scenario, Span, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L23",
    title: "Nodes' clocks jump forward under the holder",
    story: "The wall clock of one node under a bare majority, or of a majority of the nodes, jumps \
            by 1.2 leases, as NTP or an operator may cause. Redis frees the lock at once and \
            grants it again, though the holder is within its lease, and writes for half a lease. \
            No client can prevent that: a lease that a server counts is as good as the server's \
            clock. Fencing tokens still are correct. A takeover delay of 0.53 leases or more helps: \
            the nodes then keep the lock until the holder renews it.",
    expects: Expects { qf: Some(Fenced), e: None, ..Expects::in_all_modes(Violation) },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.clock_gains_ppm = Some(0);
    let bare = draw.number().is_multiple_of(2);
    let majority = draw.mode.majority();
    // Either one node of a bare majority, or all nodes that the holder needs.
    let struck = if bare { majority - 1..majority } else { 0..majority };
    let (after, by_ms) = (draw.ms(0, 50), plan.locking.lease_ms as i64 * 12 / 10);
    let mut holder = if bare { draw.bare_holder("a") } else { draw.holder("a") };
    // The holder notices at its next renewal. It writes before and after that.
    holder.work.on_loss = OnLoss::Naive;
    holder.work.write_every_ms = Some(draw.ms(20, 50));
    plan.clients = vec![holder, draw.rival("b")];
    let lease = plan.locking.lease_ms;
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::None),
    ];
    plan.schedule.extend(struck.map(|node| When::NOW.then(Fault::Clock { node, by_ms })));
    // It renews after a third of its lease.
    plan.schedule.extend([
        When::NOW.then(Fault::start("b")),
        When::AfterMs(lease / 2).then(Fault::end("a")),
        When::wrote("b").then(Fault::None),
    ]);
    // With less than 0.2 leases the nodes free the lock at the jump, from 0.53 on they keep it until
    // that renewal.
    plan.ended_by_delay = Some(Span { low_ms: lease * 15 / 100, high_ms: lease * 7 / 10 });
    plan
}
