use super::{Draw, Expects, Fault, OnLoss, Plan, Scenario, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L03",
    title: "The holder is stopped, and goes on as if nothing had happened",
    story: "A process that holds the lock is stopped (SIGSTOP), first for less than its lease, \
            then until another client holds the lock. When it goes on, it writes without a check \
            of its lock. No lock can prevent that. A resource that refuses stale tokens can.",
    expects: Expects { qf: Some(Fenced), ..Expects::in_all_modes(Violation) },
    plan,
};

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
        // "a" has renewed its lease since then.
        When::AfterMs(lease / 2).then(Fault::stop("a")),
        When::wrote("b").then(Fault::cont("a")),
    ];
    plan.tail_ms = 400;
    plan
}
