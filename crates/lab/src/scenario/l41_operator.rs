use super::{Draw, Expects, Fault, OnLoss, Plan, Scenario, When};
use crate::record::Expected::{Fenced, Ok, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L41",
    title: "An operator deletes the lock's key on a node",
    story: "An operator deletes a key (DEL) on one node. If that is the only node, the lock is \
            granted again, and two clients hold until the holder's next renewal. A quorum does not \
            miss one vote.",
    expects: Expects {
        q: Some(Ok),
        qq: Some(Ok),
        qf: Some(Ok),
        e: None,
        ..Expects::in_all_modes(Violation)
    },
    plan: deleted,
};

pub(super) const BY_FORCE: Scenario = Scenario {
    id: "L41F",
    title: "An operator takes the lock away by force",
    story: "An operator takes the lock from a holder that seems dead and only does not answer \
            (quorumlock unlock --force). The next waiter gets it, and the holder goes on writing. \
            No lock can prevent that. A resource that refuses stale tokens can.",
    expects: Expects { qf: Some(Fenced), ..Expects::in_all_modes(Violation) },
    plan: by_force,
};

fn deleted(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (after, node) = (draw.ms(0, 100), draw.mode.majority() - 1);
    let name = plan.locking.name.clone();
    let mut holder = draw.holder("a");
    // A holder that is not yet connected to all nodes would hold only a bare majority, which needs
    // every vote.
    holder.work.connected = true;
    plan.clients = vec![holder, draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::start("b")),
        When::AfterMs(after).then(Fault::command(node, &["DEL", &name])),
    ];
    if draw.mode.voters() > 1 {
        let lease = plan.locking.lease_ms;
        plan.schedule.push(When::AfterMs(lease).then(Fault::ClientEnd("a".to_owned())));
    }
    plan.schedule.push(When::granted("b").then(Fault::None));
    plan.tail_ms = 500;
    plan
}

fn by_force(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let after = draw.ms(0, 300);
    let mut holder = draw.holder("a");
    holder.work.on_loss = OnLoss::Naive;
    holder.work.write_every_ms = Some(draw.ms(20, 40));
    plan.clients = vec![holder, draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::start("b")),
        When::AfterMs(after).then(Fault::ForceUnlock),
        When::wrote("b").then(Fault::None),
    ];
    plan.tail_ms = 300;
    plan
}
