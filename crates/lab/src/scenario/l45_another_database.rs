use super::l44_another_list::beside;
use super::{Draw, Expects, Plan, Scenario};
use crate::history::Refusal;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L45",
    title: "A client has another database of the same nodes",
    story: "Two clients contend for a lock. Then a client starts with the same nodes and another \
            database number. On one server and in plain Redlock it locks beside the others, and \
            two clients hold. Under strict admission nobody founds a second cluster: the client is \
            refused for longer than new servers are in quarantine, and an operator who vouches for \
            its nodes is told that another database has the cluster.",
    expects: Expects::MEMORY_NEEDED,
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let plan = draw.plan();
    let mut other = draw.rival("c");
    other.database = 1;
    beside(draw, plan, other, [Refusal::NotAdmitted, Refusal::OtherDatabase])
}
