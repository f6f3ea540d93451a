use super::{Draw, Expects, Fault, Plan, Scenario, Span, WayState, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L05",
    title: "A write arrives after the lease",
    story: "A careful holder checks its lock, sends a write, and dies. The write is on its way until \
            2 s after the end of the lease. It arrives when another client holds the lock and has \
            written. No client can prevent that. A resource that refuses stale tokens can. So can a \
            takeover delay that is longer than the 2 s.",
    expects: Expects { qf: Some(Fenced), ..Expects::in_all_modes(Violation) },
    plan,
};

/// How long after the lease the write arrives: another client writes in it, on a busy
/// machine too.
const LONGER_MS: u64 = 2_000;

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (after, mut holder) = (draw.ms(0, 300), draw.holder("a"));
    holder.work.write_every_ms = Some(draw.ms(10, 40));
    plan.clients = vec![holder, draw.rival("b")];
    let writes = |state| Fault::Writes { client: "a".to_owned(), state };
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::wrote("a").then(Fault::start("b")),
        When::AfterMs(after).then(writes(WayState::HoldRequests)),
        When::HeldUp("a".to_owned()).then(Fault::ClientKill("a".to_owned())),
        When::outlived("a", LONGER_MS).then(writes(WayState::Open)),
        When::Arrived("a".to_owned()).then(Fault::None),
        When::granted("b").then(Fault::None),
    ];
    plan.ended_by_delay = Some(Span { low_ms: LONGER_MS - 500, high_ms: LONGER_MS + 500 });
    plan
}
