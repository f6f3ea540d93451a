use super::{Draw, Expects, Fault, Plan, Scenario, Span, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L04",
    title: "A pause between the check and the write",
    story: "A careful holder checks that its lock is still its own, and is stopped before its next \
            instruction: the write. Meanwhile the lease ends and somebody else holds the lock. No \
            client can prevent the stale write; a resource that refuses stale tokens can.",
    expects: Expects { qf: Some(Fenced), ..Expects::everywhere(Violation) },
    plan,
};

pub(super) const UNCHECKED: Scenario = Scenario {
    id: "L42",
    title: "The same, and nobody checks the token",
    story: "As L04, and what the lock guards knows nothing of tokens: a mail is sent, a request goes \
            to somebody else's service. Then nothing helps, whatever the lock.",
    expects: Expects::everywhere(Violation),
    plan: |draw| Plan { fenced: false, ..plan(draw) },
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let mut holder = draw.holder("a");
    holder.work.hold = Span::always(draw.ms(0, 200));
    // Long enough to be stopped in.
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
