use super::{Draw, Expects, Fault, Plan, Scenario, When};

pub(super) const SCENARIO: Scenario = Scenario {
    id: "L26",
    title: "A node boots with a wrong clock, which is set right afterwards",
    story: "A node of the holder's bare majority boots with a wrong clock. Either it has kept its \
            data and is ahead: expiries are absolute, so its locks are gone. Or it has lost its \
            data and is an hour behind: once the clock is right, the node seems to have been up \
            for long. In plain Redlock it grants again, and two clients hold. A node whose memory \
            is not proven has no vote, and uptime is no proof.",
    expects: Expects::MEMORY_NEEDED,
    plan,
};

const HOUR_MS: i64 = 3_600_000;

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.servers.clock_gains_ppm = Some(0);
    let ahead = draw.number().is_multiple_of(2);
    plan.servers.appendonly = ahead;
    if ahead {
        plan.servers.args = ["--appendfsync", "always"].map(str::to_owned).to_vec();
    }
    let node = draw.mode.majority() - 1;
    let (after, down) = (draw.ms(0, 50), draw.ms(0, 100));
    let name = plan.locking.name.clone();
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b")];
    plan.schedule = vec![
        When::NOW.then(Fault::start("a")),
        When::holds("a").then(Fault::None),
        When::AfterMs(after).then(Fault::Kill(node)),
    ];
    let boots = if ahead {
        // A read of the expired key makes the server delete it; otherwise it deletes the key a
        // little later.
        let look = Fault::command(node, &["EXISTS", &name]);
        vec![Fault::Clock { node, by_ms: 2 * HOUR_MS }, Fault::Restart(node), look]
    } else {
        vec![Fault::Clock { node, by_ms: -HOUR_MS }, Fault::RestartEmpty(node)]
    };
    plan.schedule.push(When::AfterMs(down).then(Fault::None));
    plan.schedule.extend(boots.into_iter().map(|fault| When::NOW.then(fault)));
    plan.schedule.extend([
        When::NOW.then(Fault::Clock { node, by_ms: 0 }),
        When::NOW.then(Fault::start("b")),
    ]);
    plan.schedule.push(When::granted("b").then(Fault::None));
    plan.tail_ms = 1_000;
    plan
}
