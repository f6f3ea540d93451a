use super::{Draw, Expects, Fault, Plan, Scenario, WayState, When};
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L36",
    title: "A lease is taken over by a node that forgot another's",
    story: "A holder is cut off from one node of its bare majority. Another client has the other \
            nodes, and its request to the node that would make its majority is late. Then one of \
            these nodes forgets, and the holder reaches it and renews. If that node counted for \
            the holder, both would hold when the late request arrives. It counts for nobody until \
            its memory is proven.",
    expects: Expects { qq: Some(Ok), qf: Some(Ok), ..Expects::NONE },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    let forgets = draw.mode.majority();
    // Shorter than twice the time for which a client waits for an answer: a round of "b" must last
    // from before the node forgets until the lease of "a" on node 0 has ended.
    let lease = 1_000;
    plan.locking.lease_ms = lease;
    let begins = draw.ms(700, 760);
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b")];
    let way = |node, state| Fault::Way { client: "a".to_owned(), node, state };
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(way(0, WayState::Cut)),
        When::NOW.then(Fault::start("b")),
        // Requests of "b" to node 0 are late from now on.
        When::AfterMs(begins).then(Fault::Stop(0)),
        // During the next round of "b", which waits for node 0.
        When::AfterMs(20).then(Fault::None),
        When::Has(forgets).then(Fault::command(forgets, &["FLUSHALL"])),
        When::NOW.then(way(forgets, WayState::Open)),
        When::AfterMs(lease - begins - 10).then(Fault::Cont(0)),
        When::granted("b").then(Fault::None),
    ];
    plan.tail_ms = lease;
    plan
}
