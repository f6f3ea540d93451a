use super::{Draw, Expects, Fault, Plan, Scenario, Span, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L04",
    title: "A pause between the check and the write",
    story: "A careful holder checks that it still has the lock, and is stopped before its next \
            instruction: the write. Meanwhile the lease ends and another client holds the lock. No \
            client can prevent the stale write. A resource that refuses stale tokens can.",
    expects: Expects { qf: Some(Fenced), ..Expects::in_all_modes(Violation) },
    plan,
};

pub(super) const UNCHECKED: Scenario = Scenario {
    id: "L42",
    title: "As L04, and nobody checks the token",
    story: "As L04, and the guarded resource knows nothing of tokens: a mail is sent, a request \
            goes to a foreign service. Then no lock of this kind helps.",
    expects: Expects::in_all_modes(Violation),
    plan: |draw| Plan { fenced: false, ..plan(draw) },
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let mut holder = draw.holder("a");
    holder.work.hold = Span::always(draw.ms(0, 200));
    // Long enough for the nemesis to stop the client in it.
    let pause = 500;
    holder.work.failpoint_ms = Some(pause);
    plan.clients = vec![holder, draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::Checked("a".to_owned()).then(Fault::stop("a")),
        When::NOW.then(Fault::start("b")),
        When::wrote("b").then(Fault::cont("a")),
        When::Done("a".to_owned()).then(Fault::None),
    ];
    plan
}
