use super::{Care, Draw, Expects, Fault, Plan, Scenario, When};
use crate::record::Expected::{Fenced, Ok, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L41",
    title: "Somebody deletes the lock's key on a node",
    story: "Somebody deletes a key that is in the way (DEL) on one node. If that is the only one, the \
            lock is granted again, and both hold until the holder's next renewal. A quorum does not \
            miss one vote.",
    expects: Expects { q: Some(Ok), qq: Some(Ok), qf: Some(Ok), ..Expects::everywhere(Violation) },
    plan: deleted,
};

pub(super) const BY_FORCE: Scenario = Scenario {
    id: "L41F",
    title: "An operator takes the lock away by force",
    story: "An operator takes the lock from a holder that seems dead and is only deaf (quorumlock \
            unlock --force). Whoever is next gets it, and the holder goes on writing. No lock can \
            prevent that; a resource that refuses stale tokens can.",
    expects: Expects { qf: Some(Fenced), ..Expects::everywhere(Violation) },
    plan: by_force,
};

fn deleted(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (after, node) = (draw.ms(0, 100), draw.mode.majority() - 1);
    let name = plan.locking.name.clone();
    let mut holder = draw.holder("a");
    // One that is not yet connected to all nodes holds a bare majority, which does miss a vote.
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
    let mut deaf = draw.holder("a");
    deaf.work.care = Care::Naive;
    deaf.work.write_every_ms = Some(draw.ms(20, 40));
    plan.clients = vec![deaf, draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::start("b")),
        When::AfterMs(after).then(Fault::ForceUnlock),
        When::wrote("b").then(Fault::None),
    ];
    plan.tail_ms = 300;
    plan
}
