use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L07",
    title: "The holder's machine is suspended",
    story: "The holder's machine is suspended until another client holds the lock. The holder's \
            lease clock counts the time (CLOCK_BOOTTIME), so the holder knows on waking that it \
            holds nothing. A clock that stands still in suspend would not know.",
    expects: Expects { e: None, ..Expects::ALL_OK },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let after = draw.ms(0, plan.locking.lease_ms);
    let mut holder = draw.holder("a");
    holder.work.write_every_ms = Some(draw.ms(20, 50));
    plan.clients = vec![holder, draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::start("b")),
        When::AfterMs(after).then(Fault::ClientSuspend("a".to_owned())),
        When::wrote("b").then(Fault::cont("a")),
    ];
    plan.tail_ms = 400;
    plan
}
