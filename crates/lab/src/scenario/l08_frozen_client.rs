use super::{Draw, Expects, Fault, OnLoss, Plan, Scenario, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L08",
    title: "The holder's virtual machine is paused, and all its clocks with it",
    story: "The holder's virtual machine is paused until another client holds the lock, and none \
            of its clocks counts the time. When it goes on, it believes in its lock until a node \
            says otherwise. No client can prevent that. A resource that refuses stale tokens can.",
    expects: Expects { qf: Some(Fenced), e: None, ..Expects::in_all_modes(Violation) },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let after = draw.ms(0, plan.locking.lease_ms);
    let mut holder = draw.holder("a");
    holder.work.on_loss = OnLoss::Naive;
    holder.work.write_every_ms = Some(draw.ms(20, 50));
    plan.clients = vec![holder, draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::start("b")),
        When::AfterMs(after).then(Fault::ClientFreeze("a".to_owned())),
        When::wrote("b").then(Fault::cont("a")),
    ];
    plan.tail_ms = 400;
    plan
}
