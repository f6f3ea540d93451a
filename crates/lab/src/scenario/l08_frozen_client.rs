use super::{Care, Draw, Expects, Fault, Plan, Scenario, When};
use crate::record::Expected::{Fenced, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L08",
    title: "The holder's virtual machine is paused, all its clocks with it",
    story: "The virtual machine of the holder is paused until somebody else holds the lock, and none \
            of its clocks counts the time. When it goes on it believes in its lock until a node tells \
            it better. No client can prevent that; a resource that refuses stale tokens can.",
    expects: Expects { qf: Some(Fenced), ..Expects::everywhere(Violation) },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let after = draw.ms(0, plan.locking.lease_ms);
    let mut holder = draw.holder("a");
    holder.work.care = Care::Naive;
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
