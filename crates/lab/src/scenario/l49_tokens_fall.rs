use super::{Draw, Expects, Fault, Plan, Scenario, Waiting, When};
use crate::record::Expected::{Disordered, Ok};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L49",
    title: "A majority loses its marks, and a client's clock is behind",
    story: "A client holds once, and every node has the mark of its token. Then a majority restarts \
            without its data. The next holders are short-lived processes whose wall clock is \
            behind, and they reach only these nodes. On one server and in plain Redlock nothing but \
            the clocks orders tokens then: a later hold has a smaller token. Under strict \
            admission the nodes that forgot get the marks of those that did not before they vote, \
            and tokens stay in order.",
    expects: Expects {
        s: Some(Disordered),
        q: Some(Disordered),
        qq: Some(Ok),
        qf: Some(Ok),
        ..Expects::NONE
    },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let lost = 0..draw.mode.majority();
    let (ahead_ms, behind_ms) = match draw.mode.strict() {
        // Quarantine is shorter than the difference of these clocks. A locker corrects its clock
        // only if that differs by more than 5 s from the nodes'.
        true => {
            (plan.locking.lease_ms, plan.locking.max_lease_ms) = (draw.ms(1_300, 1_500), 2_000);
            (4_800, 4_800)
        }
        // Each process proposes by its own clock, for it has not connected yet.
        false => (0, 7_200_000 + 1_000 * draw.ms(0, 3_600).cast_signed()),
    };
    // Connected to all nodes, so that its hold leaves a mark on each.
    let mut first = draw.rival("a");
    (first.work.holds, first.work.connected) = (Some(1), true);
    first.clock_by_ms = ahead_ms;
    let mut behind = draw.rival("b");
    behind.work.waiting = Waiting::Once;
    behind.clock_by_ms = -behind_ms;
    behind.reaches = Some(lost.clone().collect());
    // Asks for no lock. Its admission task runs, as in every locker.
    let mut other = draw.rival("c");
    other.work.connected = true;
    plan.clients = vec![first, behind, other];
    plan.schedule = vec![When::NOW.then(Fault::start("a"))];
    plan.schedule.push(When::done("a").then(Fault::None));
    plan.schedule.extend(lost.map(|node| When::NOW.then(Fault::RestartEmpty(node))));
    plan.schedule.extend([
        When::NOW.then(Fault::start("b")),
        When::granted("b").then(Fault::None),
        When::granted("b").then(Fault::None),
    ]);
    plan.tokens_in_order = draw.mode.strict();
    plan
}
