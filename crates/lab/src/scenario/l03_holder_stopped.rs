use super::{Draw, Expects, Fault, OnLoss, Plan, Scenario, Span, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L03",
    title: "The holder is stopped, and goes on as if nothing had happened",
    story: "A process that holds the lock is stopped (SIGSTOP), first for less than its lease, \
            then until 2 s after its end. Meanwhile another client takes the lock. When the process \
            goes on, it writes without a check of its lock. No lock can prevent that. A resource \
            that refuses stale tokens can. So can a takeover delay that is longer than the 2 s and \
            the writes.",
    expects: Expects { qf: Some(Fenced), ..Expects::in_all_modes(Violation) },
    plan,
};

/// For how long the holder is stopped after its lease: another client writes in it, on a busy
/// machine too.
const LONGER_MS: u64 = 2_000;
/// How long the holder writes after that.
const WRITES_MS: u64 = 400;

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let lease = plan.locking.lease_ms;
    let (first, short) = (draw.ms(0, lease / 2), draw.ms(lease / 8, lease / 4));
    let mut holder = draw.holder("a");
    holder.work.on_loss = OnLoss::Naive;
    holder.work.write_every_ms = Some(draw.ms(20, 50));
    plan.clients = vec![holder, draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::start("b")),
        When::AfterMs(first).then(Fault::stop("a")),
        When::AfterMs(short).then(Fault::cont("a")),
        // It does not renew again before it is stopped.
        When::renewed("a").then(Fault::stop("a")),
        When::outlived("a", LONGER_MS).then(Fault::cont("a")),
        When::AfterMs(WRITES_MS).then(Fault::end("a")),
        When::wrote("b").then(Fault::None),
    ];
    let high_ms = LONGER_MS + WRITES_MS + 600;
    plan.ended_by_delay = Some(Span { low_ms: LONGER_MS - 500, high_ms });
    plan
}
