use super::{Draw, Expects, Fault, Plan, Scenario, Span, Waiting, When};

pub(super) const ALL_AT_ONCE: Scenario = Scenario {
    id: "L47",
    title: "The power fails under short-lived processes",
    story: "Only short-lived processes lock, as cron jobs do: each asks once, works briefly and \
            ends; none lives for the longest lease. All servers lose their power and come back \
            empty while a process holds the lock. In plain Redlock the next process gets it at \
            once, and two hold. Where memories must be proven, the processes write notes on the \
            nodes and judge them: nothing is granted for the quarantine (the longest lease and \
            twice the clock bound), and then the cluster grants again by itself.",
    expects: Expects::MEMORY_NEEDED,
    plan: all_at_once,
};

pub(super) const ONE_BY_ONE: Scenario = Scenario {
    id: "L47R",
    title: "Servers restart one by one under short-lived processes",
    story: "As L47, and the servers restart empty one by one: quickly in plain Redlock, where two \
            processes hold in the end; each when the one before it votes again where memories must \
            be proven. There the processes bring every server back, and go on locking meanwhile.",
    expects: Expects::MEMORY_NEEDED,
    plan: one_by_one,
};

/// For the start of servers and processes on a loaded machine, and for the copies of marks. To found
/// a cluster of five, a process reads the 16,384 marks of five nodes at the same time, and writes
/// those of five.
const START_MS: u64 = 30_000;

fn all_at_once(draw: &mut Draw) -> Plan {
    let mut plan = two_fleets(draw);
    let down = draw.ms(0, 30);
    let all = 0..draw.mode.voters();
    plan.schedule.extend(all.clone().map(|node| When::NOW.then(Fault::Kill(node))));
    plan.schedule.push(When::AfterMs(down).then(Fault::None));
    plan.schedule.extend(all.map(|node| When::NOW.then(Fault::RestartEmpty(node))));
    grants_again(draw, plan)
}

fn one_by_one(draw: &mut Draw) -> Plan {
    let mut plan = two_fleets(draw);
    let all = draw.mode.voters();
    let restarted = if draw.mode.strict() && draw.quick { all.min(2) } else { all };
    for node in 0..restarted {
        plan.schedule.push(When::NOW.then(Fault::RestartEmpty(node)));
        if draw.mode.strict() {
            plan.schedule.push(When::Admitted(node).then(Fault::None));
        }
    }
    grants_again(draw, plan)
}

/// Two clients that are short-lived processes. The faults begin when one of them holds, and should
/// be over before its first renewal, after a third of the lease.
fn two_fleets(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    for id in ["a", "b"] {
        let mut fleet = draw.client(id);
        fleet.work.waiting = Waiting::Once;
        fleet.work.think = Span { low_ms: 10, high_ms: 40 };
        fleet.work.hold = Span { low_ms: 2_300, high_ms: 2_600 };
        plan.clients.push(fleet);
    }
    plan.clients[1].work.hold = Span { low_ms: 20, high_ms: 60 };
    plan.schedule =
        vec![When::granted("b").then(Fault::None), When::granted("a").then(Fault::None)];
    plan
}

fn grants_again(draw: &Draw, mut plan: Plan) -> Plan {
    plan.schedule
        .extend([When::granted("b").then(Fault::None), When::granted("a").then(Fault::None)]);
    if draw.mode.strict() {
        plan.failing_at_most_ms = Some(quarantine_ms(plan.locking.max_lease_ms) + START_MS);
        plan.tokens_in_order = true;
    }
    plan.tail_ms = 500;
    plan
}

/// The longest lease with drift, twice the clock bound of the lab, and 10 ms (PROTOCOL.md ADM2).
fn quarantine_ms(longest_ms: u64) -> u64 {
    longest_ms * 102 / 100 + 2 * 100 + 10
}
