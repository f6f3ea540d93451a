use super::{ClientPlan, Draw, Expects, Fault, Plan, Scenario, Span, When};
use crate::history::Refusal;
use crate::record::Expected::{Ok, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L44",
    title: "A client has another list of nodes",
    story: "Two clients contend for a lock on one list of nodes. Then a client starts with a list \
            of the same length that shares a minority of these servers; the others are new and \
            empty. In plain Redlock the new servers are a majority, and the lock is granted twice. \
            Under strict admission the shared servers know their list and bar the client: it is \
            refused for longer than new servers are in quarantine, and so is an operator who \
            vouches for its list.",
    expects: Expects { q: Some(Violation), qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let (voters, majority) = (draw.mode.voters(), draw.mode.majority());
    let mut plan = draw.plan();
    plan.servers.spares = majority;
    let mut other = draw.rival("c");
    other.configured_with = Some((0..voters - majority).chain(voters..voters + majority).collect());
    beside(draw, plan, other, [Refusal::OtherMembers, Refusal::OtherMembers])
}

/// Two clients contend, and `other` starts beside them. Under strict admission it is refused with
/// the first of these reasons, and an operator who vouches for its nodes with the second.
pub(super) fn beside(
    draw: &mut Draw,
    mut plan: Plan,
    other: ClientPlan,
    [refusal, refusal_of_init]: [Refusal; 2],
) -> Plan {
    (plan.locking.lease_ms, plan.locking.max_lease_ms) = (draw.ms(1_300, 1_500), 2_000);
    let (a, b) = (draw.client("a"), draw.client("b"));
    let c = other.id.clone();
    plan.clients = vec![a, b, other];
    for client in &mut plan.clients[..2] {
        client.work.hold = Span { low_ms: 100, high_ms: 300 };
    }
    let both = [When::granted("a").then(Fault::None), When::granted("b").then(Fault::None)];
    plan.schedule.extend(both.clone());
    plan.schedule.push(When::NOW.then(Fault::start(&c)));
    if draw.mode.strict() {
        let longer_than_quarantine = plan.locking.max_lease_ms * 3 / 2;
        plan.schedule.extend([
            When::refused(&c).then(Fault::Init(c.clone())),
            When::AfterMs(longer_than_quarantine).then(Fault::None),
            When::refused(&c).then(Fault::None),
        ]);
        plan.schedule.extend(both);
        plan.refused = vec![(c, refusal), ("operator".to_owned(), refusal_of_init)];
        plan.vacant_at_most_ms = Some(plan.locking.lease_ms);
        plan.tokens_in_order = true;
    } else {
        plan.schedule.push(When::granted(&c).then(Fault::None));
        plan.tail_ms = 300;
    }
    plan
}
