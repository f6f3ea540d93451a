use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};
use crate::record::Expected::Fenced;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L37",
    title: "Marks are lost on one node of a bare majority",
    story: "A bare majority accepts a holder's token. The holder's last write is delayed, and the \
            holder dies. One node of that majority comes back with no data, in plain Redlock with \
            a clock that is two hours behind, too. The next holder has its grant from this node \
            and from those that never heard of the token. It proposes the time by its own clock, \
            which is larger, and the resource refuses the stale write. In plain Redlock that rests \
            on the clients' clocks alone. A node that is repaired before it votes has every mark \
            that there was; no client admits one whose clock is wrong.",
    expects: Expects { q: Some(Fenced), qq: Some(Fenced), qf: Some(Fenced), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.fenced = true;
    // Settable clocks: a node's wrong clock must not affect tokens.
    plan.servers.clock_gains_ppm = Some(0);
    let (nodes, needed) = (draw.mode.voters(), draw.mode.majority());
    let struck = needed - 1;
    let behind_ms = -1_000 * draw.number().rem_euclid(3_600) as i64 - 7_200_000;
    // No client admits a node whose clock is wrong (PROTOCOL.md MEM3).
    let behind_ms = if draw.mode.strict() { 0 } else { behind_ms };
    let up = draw.ms(100, 200);
    // Connected to all nodes, so that its hold leaves a token mark on each.
    let mut first = draw.rival("a");
    (first.work.holds, first.work.connected) = (Some(1), true);
    let mut dying = draw.bare_holder("b");
    (dying.work.connected, dying.work.write_every_ms) = (true, Some(draw.ms(10, 40)));
    let mut next = draw.rival("c");
    next.reaches = Some((struck..nodes).collect());
    // Asks for no lock. Its admission task runs, as in every locker.
    let mut other = draw.rival("d");
    other.work.connected = true;
    plan.clients = vec![first, dying, next, other];
    let writes = |state| Fault::Writes { client: "b".to_owned(), state };
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::done("a").then(Fault::start("b")),
        When::wrote("b").then(writes(WayState::HoldRequests)),
        When::HeldUp("b".to_owned()).then(Fault::ClientKill("b".to_owned())),
        When::NOW.then(Fault::Kill(struck)),
        When::NOW.then(Fault::Clock { node: struck, by_ms: behind_ms }),
        When::NOW.then(Fault::RestartEmpty(struck)),
        // "c" waits, because a node that is still starting would cost it an attempt.
        When::AfterMs(up).then(Fault::start("c")),
        When::wrote("c").then(writes(WayState::Open)),
        When::Arrived("b".to_owned()).then(Fault::None),
    ];
    plan
}
