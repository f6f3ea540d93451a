use super::{BrokenLockKind, Draw, Expects, Fault, Plan, Scenario, Span, WayState, When};
use crate::record::Expected;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L31",
    title: "A gray node carries out late what it was asked",
    story: "For a while one node answers nobody (SIGSTOP), or a client's requests are held on the \
            way. Then the node carries out all of them, though the clients have given up: late \
            acquisitions and late releases, among the holds of others. They match nonces, so they \
            have no effect.",
    expects: Expects::ALL_OK,
    plan,
};

pub(super) const BY_OWNER: Scenario = Scenario {
    id: "L31O",
    title: "As L31, with a lock that is released by its owner's name",
    story: "A negative control: not this library's lock, but one that many programs make. Its \
            value names the owner and not the hold, so a late release frees the owner's next hold.",
    expects: Expects {
        s: Some(Expected::Violation),
        q: Some(Expected::Violation),
        ..Expects::NONE
    },
    plan: by_owner,
};

fn by_owner(draw: &mut Draw) -> Plan {
    let mut plan = plan(draw);
    // Without faults, so that only the broken lock's late releases can cause a violation.
    plan.schedule.retain(|step| !step.fault.is_fault());
    for client in &mut plan.clients {
        client.work.broken_lock = Some(BrokenLockKind::ReleaseByOwner);
        client.work.contenders = 1;
        client.work.hold = Span { low_ms: 15, high_ms: 40 };
    }
    plan.least_ms = 1_500;
    plan
}

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let gray = draw.mode.majority() - 1;
    let mut gone = draw.client("a");
    gone.ways = true;
    let (mut one, mut other) = (draw.client("b"), draw.client("c"));
    for client in [&mut gone, &mut one, &mut other] {
        client.work.contenders = 2;
        client.work.hold = Span { low_ms: 5, high_ms: 40 };
    }
    plan.clients = vec![gone, one, other];
    let way = |state| Fault::Way { client: "a".to_owned(), node: gray, state };
    for _ in 0..if draw.quick { 1 } else { 3 } {
        let (held, stopped) = (draw.ms(300, 1_500), draw.ms(300, 1_500));
        plan.schedule.extend([
            When::granted("a").then(way(WayState::HoldOld)),
            When::AfterMs(held).then(way(WayState::DeliverOld)),
            When::granted("b").then(Fault::Stop(gray)),
            When::AfterMs(stopped).then(Fault::Cont(gray)),
            When::granted("b").then(Fault::None),
        ]);
    }
    plan.tail_ms = 500;
    plan
}
