use super::{Draw, Expects, Fault, Plan, Scenario, Span, Until, When};
use crate::history::Refusal;
use crate::record::Expected::{Ok, Violation};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L46",
    title: "All servers are exchanged one by one",
    story: "An operator exchanges every server of a quorum for a new one, by changes of one \
            (quorumlock members): a new server is added, then an old one is removed, which may be \
            dead. Each list has clients of its own. They contend with those of the list before, \
            which go on until the nodes bar them. Nobody holds twice, and tokens stay in order. \
            Until it is barred, no client is refused for longer than one longest lease, all \
            clients and changes taken together.",
    expects: Expects { qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan,
};

pub(super) const IN_ONE_STEP: Scenario = Scenario {
    id: "L46S",
    title: "A server is exchanged in one step",
    story: "An operator exchanges a server as L46 does, without a change of the list: programs get \
            a list that has the new server in place of the old one, while others still have the \
            old list. A holder has a bare majority of the old list. A client with the new list \
            reaches a bare majority of it that shares no server with the holder's. In plain \
            Redlock the lock is granted twice. Under strict admission the servers that stay know \
            their list and bar the client.",
    expects: Expects { q: Some(Violation), qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan: in_one_step,
};

/// The changes wait for a longest lease each.
const LONGEST_MS: u64 = 1_000;

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    (plan.locking.lease_ms, plan.locking.max_lease_ms) = (draw.ms(700, 900), LONGEST_MS);
    let voters = draw.mode.voters();
    let exchanged = if draw.quick { 1 } else { voters };
    plan.servers.spares = exchanged;
    let mut lists = vec![(0..voters).collect::<Vec<_>>()];
    for server in 0..exchanged {
        lists.push((server..=voters + server).collect());
        lists.push((server + 1..=voters + server).collect());
    }
    let ids = (b'a'..=b'z').map(|letter| char::from(letter).to_string()).collect::<Vec<_>>();
    for (id, list) in ids.iter().zip(&lists) {
        let mut client = draw.client(id);
        client.starts = list[..] == lists[0];
        client.configured_with = Some(list.clone());
        client.work.contenders = 2;
        client.work.hold = Span { low_ms: 5, high_ms: 40 };
        plan.clients.push(client);
    }
    for ((old, new), (old_id, new_id)) in
        lists.iter().zip(&lists[1..]).zip(ids.iter().zip(&ids[1..]))
    {
        plan.schedule.push(When::granted(old_id).then(Fault::None));
        if new.len() < old.len() && draw.number().is_multiple_of(2) {
            plan.schedule.push(When::NOW.then(Fault::Kill(old[0])));
        }
        let change = |present: &[usize], until| Fault::ChangeMembers {
            present: present.to_vec(),
            target: new.clone(),
            until,
        };
        plan.schedule.extend([
            When::NOW.then(change(old, Until::BothVote)),
            When::NOW.then(Fault::start(new_id)),
        ]);
        for _ in 0..3 {
            plan.schedule.push(When::granted(new_id).then(Fault::None));
            plan.schedule.push(When::granted(old_id).then(Fault::None));
        }
        plan.schedule.extend([
            When::NOW.then(change(new, Until::OnlyTarget)),
            When::Barred(old_id.clone()).then(Fault::ClientEnd(old_id.clone())),
        ]);
        plan.refused.push((old_id.clone(), Refusal::OtherMembers));
    }
    plan.schedule.push(When::granted(&ids[lists.len() - 1]).then(Fault::None));
    plan.vacant_at_most_ms = Some(LONGEST_MS);
    plan.failing_total_at_most_ms = Some(LONGEST_MS);
    plan.tokens_in_order = true;
    plan
}

/// From the servers `0..n` to `1..=n`.
fn in_one_step(draw: &mut Draw) -> Plan {
    let (voters, majority) = (draw.mode.voters(), draw.mode.majority());
    let mut plan = draw.plan();
    plan.servers.spares = 1;
    let mut exchanged = draw.rival("b");
    exchanged.configured_with = Some((1..=voters).collect());
    exchanged.reaches = Some((majority..=voters).collect());
    plan.clients = vec![draw.bare_holder("a"), exchanged];
    plan.schedule =
        vec![When::NOW.then(Fault::start("a")), When::holds("a").then(Fault::start("b"))];
    if draw.mode.strict() {
        let longer_than_quarantine = plan.locking.max_lease_ms * 3 / 2;
        plan.schedule.extend([
            When::refused("b").then(Fault::None),
            When::AfterMs(longer_than_quarantine).then(Fault::None),
            When::refused("b").then(Fault::None),
        ]);
        plan.refused = vec![("b".to_owned(), Refusal::OtherMembers)];
        plan.tokens_in_order = true;
    } else {
        plan.schedule.push(When::granted("b").then(Fault::None));
        plan.tail_ms = 300;
    }
    plan
}
