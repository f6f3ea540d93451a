use super::{Draw, Expects, Fault, Plan, Scenario, When};
use crate::record::Expected::Ok;

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L11",
    title: "A node with an append-only file is killed",
    story: "As L10, but the node keeps its data in an append-only file, which the kernel writes to \
            disk. The kernel keeps what the process has written before it is killed: nothing is lost. \
            A kill is no power loss (L12). With appendfsync everysec a kill may lose 2 s: Redis holds \
            its writes back while the disk is busy with an earlier fsync.",
    expects: Expects {
        s: Some(Ok),
        s1: Some(Ok),
        q: Some(Ok),
        qq: Some(Ok),
        qf: Some(Ok),
        e: Some(Ok),
        ..Expects::NONE
    },
    plan,
};

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.appendonly = true;
    plan.servers.args = ["--appendfsync", "no"].map(str::to_owned).to_vec();
    let lease = plan.locking.lease_ms;
    let struck = draw.mode.majority() - 1;
    let (after, down) = (draw.ms(0, 50), draw.ms(0, 150));
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::Kill(struck)),
        When::AfterMs(down).then(Fault::Restart(struck)),
        When::NOW.then(Fault::start("b")),
        // "a" runs for another lease, so that any overlap with "b" is observed.
        When::AfterMs(lease).then(Fault::ClientEnd("a".to_owned())),
        When::granted("b").then(Fault::None),
    ];
    plan.tail_ms = 200;
    plan
}
