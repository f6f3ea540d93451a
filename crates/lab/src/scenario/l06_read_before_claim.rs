use super::{Draw, Expects, Fault, FirstAccess, OnLoss, Plan, Scenario, Span, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L06",
    title: "The new holder reads before it claims",
    story: "A holder is stopped just before its write. The next holder reads. Then the stale write \
            arrives. Then the next holder writes a value that it made from its reading. A resource \
            that checks tokens cannot help: it has not seen the larger token yet.",
    expects: Expects::in_all_modes(Violation),
    plan: |draw| plan(draw, FirstAccess::Reads),
};

pub(super) const CLAIMS_FIRST: Scenario = Scenario {
    id: "L06C",
    title: "The new holder claims before it reads",
    story: "As L06, and the next holder's first act is a write, however small: its claim. A \
            resource that checks tokens then refuses the stale write. A resource that does not \
            check tokens accepts it.",
    expects: Expects { qf: Some(Fenced), ..Expects::in_all_modes(Violation) },
    plan: |draw| plan(draw, FirstAccess::ClaimsAndReads),
};

fn plan(draw: &mut Draw, first_access: FirstAccess) -> Plan {
    let mut plan = draw.plan();
    let mut late = draw.holder("a");
    late.work.on_loss = OnLoss::Naive;
    late.work.hold = Span::always(draw.ms(0, 100));
    // Long enough for the nemesis to stop the client in it.
    late.work.failpoint_ms = Some(300);
    let mut next = draw.holder("b");
    next.work.first_access = first_access;
    plan.clients = vec![late, next];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::Checked("a".to_owned()).then(Fault::stop("a")),
        When::NOW.then(Fault::start("b")),
        When::Read("b".to_owned()).then(Fault::cont("a")),
        When::done("a").then(Fault::ClientEnd("b".to_owned())),
        When::done("b").then(Fault::None),
    ];
    plan
}
