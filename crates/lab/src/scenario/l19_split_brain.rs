use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};
use crate::record::Expected::{Ok, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L19",
    title: "Split brain: the old master lives on in the minority",
    story: "A network falls apart: the master with one client, the replicas with another. A \
            replica is promoted, and each master grants the lock to its client. Where a grant \
            awaits a replica, the old master has none left and grants nothing.",
    expects: Expects {
        r: Some(Violation),
        w: Some(Ok),
        rr: Some(Violation),
        ww: Some(Ok),
        on_engines: true,
        ..Expects::NONE
    },
    plan,
};

/// Of the client of a master that sentinels named.
const LEASE_MS: u64 = 600_000;

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let replicas = draw.mode.replicas();
    let awaits = draw.mode.awaits_replicas();
    plan.locking.acks = usize::from(awaits);
    let (mut minority, mut majority) = (draw.holder("a"), draw.rival("b"));
    (minority.ways, majority.ways) = (true, true);
    if plan.servers.sentinels == 0 {
        minority.reaches = Some(vec![0]);
        majority.reaches = Some((1..=replicas).collect());
    } else {
        // It finds the master before the network falls apart. Later it dials nobody, since a server that
        // a sentinel named is reached directly: no renewal is due within a run.
        minority.work.connected = true;
        (plan.locking.lease_ms, plan.locking.max_lease_ms) = (LEASE_MS, LEASE_MS);
    }
    plan.clients = vec![minority, majority];
    for replica in 1..=replicas {
        let cut = Fault::Replication { replica, state: WayState::Cut };
        plan.schedule.push(When::InSync(replica).then(cut));
    }
    for node in plan.servers.sentinels() {
        let cut = Fault::Way { client: "a".to_owned(), node, state: WayState::Cut };
        plan.schedule.push(When::NOW.then(cut));
    }
    plan.schedule.push(When::NOW.then(Fault::Promote(1)));
    if awaits {
        plan.schedule.push(When::NOW.then(Fault::ReplicaOf { node: 2, of: 1 }));
    }
    let asked = if awaits { When::refused("a") } else { When::holds("a") };
    plan.schedule.extend([When::NOW.then(Fault::start("a")), asked.then(Fault::None)]);
    if awaits && plan.servers.sentinels > 0 {
        // Refused by the old master, it would look for another one.
        plan.schedule.push(When::NOW.then(Fault::ClientEnd("a".to_owned())));
    }
    plan.schedule.extend([When::NOW.then(Fault::start("b")), When::granted("b").then(Fault::None)]);
    plan.tail_ms = 1_000;
    plan
}
