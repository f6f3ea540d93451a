use super::c1_locks::LOCKERS;
use super::{Draw, Expects, Fault, Plan, Scenario, Span, When};
use crate::record::Expected::{Any, Ok};

pub(crate) const SCENARIO: Scenario = Scenario {
    id: "C2",
    title: "A server is killed and comes back empty",
    story: "Processes work under eight locks, shortly or for a second. One server is killed, \
            and is back after 300 ms, with nothing. If it is the only one, it grants what is still \
            held. Those of a quorum that were not killed still know; under strict admission the \
            one that has forgotten does not vote for the longest lease and twice the clock bound.",
    expects: Expects {
        s: Some(Any),
        s1: Some(Ok),
        q: Some(Any),
        qq: Some(Ok),
        qf: Some(Ok),
        ..Expects::NONE
    },
    plan,
};

/// Several locks, so that some are held for long when the server dies.
const NAMES: usize = 8;

/// About as long as a supervisor needs to restart a crashed server.
const DOWN_MS: u64 = 300;

/// A shorter run has no time to fail and to recover.
const LEAST_MS: u64 = 2_000;

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.measured();
    plan.least_ms = draw.load().ms.max(LEAST_MS);
    let struck = draw.ms(0, 999) as usize * plan.servers.voters / 1_000;
    for (place, id) in LOCKERS.into_iter().enumerate() {
        let mut client = draw.client(id);
        (client.work.contenders, client.work.names) = (NAMES, NAMES);
        // Half of the work is short, the other lasts longer than the server is down.
        let (low_ms, high_ms) = if place % 2 == 0 { (5, 20) } else { (500, 1_500) };
        (client.work.hold, client.work.think) = (Span { low_ms, high_ms }, Span::always(0));
        client.work.connected = true;
        plan.clients.push(client);
    }
    plan.schedule = vec![
        When::AtMs(plan.least_ms / 3).then(Fault::Kill(struck)),
        When::AfterMs(DOWN_MS).then(Fault::RestartEmpty(struck)),
    ];
    plan
}
