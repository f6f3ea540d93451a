use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};
use crate::record::Expected::{Ok, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L20",
    title: "A node's long-lived replica takes its address",
    story: "A node of a quorum has a replica that lags. The node dies, and clients reach the \
            replica at its address. The replica has been up for long and lacks the last grant. In \
            plain Redlock it grants again, and two clients hold with one token. A proof of memory \
            by uptime would accept it. A proof by the server's run does not.",
    expects: Expects { q: Some(Violation), qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.spares = 1;
    let spare = plan.servers.voters;
    let tail = draw.ms(0, 200);
    let (mut holder, mut rival) = (draw.bare_holder("a"), draw.rival("b"));
    rival.ways = true;
    // Connect before the replica comes: a locker refuses a node with a replica when it connects.
    (holder.work.connected, rival.work.connected) = (true, true);
    holder.reaches = None;
    plan.clients = vec![holder, rival];
    // "a" reaches a bare majority, which includes the struck node.
    for node in draw.mode.majority()..draw.mode.voters() {
        let way = Fault::Way { client: "a".to_owned(), node, state: WayState::Cut };
        plan.schedule.push(When::NOW.then(way));
    }
    plan.schedule.extend([
        When::NOW.then(Fault::ReplicaOf { node: spare, of: 0 }),
        When::InSync(spare)
            .then(Fault::Replication { replica: spare, state: WayState::HoldReplies }),
        When::AfterMs(tail).then(Fault::start("a")),
        When::holds("a").then(Fault::Promote(spare)),
        When::NOW.then(Fault::Kill(0)),
    ]);
    for client in ["a", "b"] {
        let lead = Fault::Lead { client: client.to_owned(), node: 0, to: spare };
        plan.schedule.push(When::NOW.then(lead));
    }
    plan.schedule.extend([When::NOW.then(Fault::start("b")), When::granted("b").then(Fault::None)]);
    plan.tail_ms = 1_000;
    plan
}
