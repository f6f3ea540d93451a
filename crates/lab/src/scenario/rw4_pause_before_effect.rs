use super::rw1_read_write::{reads, writes};
use super::{ClientPlan, Draw, Expects, Fault, Plan, Scenario, Span, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const READER: Scenario = Scenario {
    id: "RW4",
    title: "A reader pauses between the check and the read",
    story: "As L04, with a reader that is stopped before it reads. Meanwhile its lease ends and a \
            writer writes. The reader acts on a value that it has no right to. A resource refuses it \
            if it compares a reader's token with that of the last write.",
    expects: Expects { qf: Some(Fenced), e: None, ..Expects::in_all_modes(Violation) },
    plan: |draw| plan(draw, reads, writes, When::wrote("b")),
};

pub(super) const WRITER: Scenario = Scenario {
    id: "RW4W",
    title: "A writer pauses between the check and the write",
    story: "As RW4, with a writer that is stopped before it writes. Meanwhile its lease ends and a \
            reader reads. The write would change what the reader has seen. A resource refuses it if \
            it compares a writer's token with the largest that it has seen, a reader's too.",
    expects: Expects { qf: Some(Fenced), e: None, ..Expects::in_all_modes(Violation) },
    plan: |draw| plan(draw, writes, reads, When::Read("b".to_owned())),
};

/// `acted`: the other client has had its effect.
fn plan(
    draw: &mut Draw,
    stopped: fn(ClientPlan) -> ClientPlan,
    other: fn(ClientPlan) -> ClientPlan,
    acted: When,
) -> Plan {
    let mut plan = draw.plan();
    let mut holder = stopped(draw.holder("a"));
    holder.work.hold = Span::always(draw.ms(0, 200));
    // Long enough for the nemesis to stop the client in it.
    holder.work.failpoint_ms = Some(500);
    plan.clients = vec![holder, other(draw.rival("b"))];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::Checked("a".to_owned()).then(Fault::stop("a")),
        When::NOW.then(Fault::start("b")),
        acted.then(Fault::cont("a")),
        When::done("a").then(Fault::None),
    ];
    plan
}
