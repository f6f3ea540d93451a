use super::{BrokenLockKind, Draw, Expects, Fault, Plan, Scenario, Span, WayState, When};
use crate::record::Expected::Violation;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L32",
    title: "Answers are lost, and requests are made again",
    story: "Again and again a client hears nothing from any node: its acquisitions and releases \
            are carried out, and no answer arrives. It gives up, asks again, and releases what it \
            may have been granted. Nothing is given twice or freed early, since each attempt has \
            its own nonce. Nothing stays for longer than a lease.",
    expects: Expects::ALL_OK,
    plan,
};

pub(super) const COUNTED: Scenario = Scenario {
    id: "L32C",
    title: "As L32, with a lock that counts its owner's holds",
    story: "A negative control: not this library's lock, but one that many programs make. Its \
            value counts its owner's holds. A release within an outer hold gets no answer and is \
            made again. It is counted twice, and frees the lock under the outer hold.",
    expects: Expects { s: Some(Violation), q: Some(Violation), ..Expects::NONE },
    plan: counted,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let (mut cut_off, mut other) = (draw.client("a"), draw.client("b"));
    cut_off.ways = true;
    for client in [&mut cut_off, &mut other] {
        client.work.contenders = 2;
        client.work.hold = Span { low_ms: 5, high_ms: 40 };
    }
    plan.clients = vec![cut_off, other];
    for round in 0..if draw.quick { 2 } else { 6 } {
        // Longer than a client waits for an answer, so that "a" asks again without one. Half of the
        // rounds begin when "a" holds, so that its release gets no answer; the others when "b"
        // holds.
        let (lasts, whose) = (draw.ms(600, 1_100), if round % 2 == 0 { "a" } else { "b" });
        plan.schedule.push(When::granted(whose).then(Fault::None));
        plan.schedule.extend(ways(draw, WayState::LoseReplies));
        plan.schedule.push(When::AfterMs(lasts).then(Fault::None));
        plan.schedule.extend(ways(draw, WayState::Open));
        plan.schedule.push(When::granted("b").then(Fault::None));
    }
    plan.schedule.push(When::granted("a").then(Fault::None));
    // A grant whose answer was lost ends with its lease at the latest.
    plan.vacant_at_most_ms = Some(plan.locking.lease_ms);
    plan
}

fn ways(draw: &Draw, state: WayState) -> Vec<super::Step> {
    let way = |node| Fault::Way { client: "a".to_owned(), node, state };
    let nodes = draw.mode.voters() + draw.mode.replicas();
    (0..nodes).map(|node| When::NOW.then(way(node))).collect()
}

fn counted(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    for id in ["a", "b"] {
        let mut client = draw.client(id);
        client.work.broken_lock = Some(BrokenLockKind::CountsHolds);
        client.work.hold = Span { low_ms: 15, high_ms: 40 };
        plan.clients.push(client);
    }
    plan.least_ms = 1_000;
    plan
}
