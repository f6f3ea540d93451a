use super::{Draw, Expects, Fault, FirstAccess, Plan, Scenario, Span, When};

pub(crate) const SCENARIO: Scenario = Scenario {
    id: "C1",
    title: "Free locks, parallel locks, one lock for many",
    story: "First one task locks and unlocks a free lock, then many tasks of one process, each its \
            own. Then the tasks of several processes want the same lock all the time, and hold it \
            for a millisecond. Nothing breaks. This is what a lock costs.",
    expects: Expects::ALL_OK,
    plan,
};

/// The client of one task whose lock nobody else wants.
pub(crate) const ALONE: &str = "alone";

/// The client of many tasks, each with a lock of its own.
pub(crate) const PARALLEL: &str = "parallel";

/// Several processes, so that a lock passes between them; few, so that each has many tasks.
pub(crate) const LOCKERS: [&str; 4] = ["a", "b", "c", "d"];

/// At most this long, because each free lock leaves four events in the history: one task alone, and
/// all tasks.
const FREE_AT_MOST_MS: [u64; 2] = [750, 400];

/// About the duration of a short write to a database. A timer rounds it up.
const CRITICAL_SECTION_MS: u64 = 1;

fn plan(draw: &mut Draw) -> Plan {
    let mut plan = draw.measured();
    let load = draw.load();
    let free_ms = FREE_AT_MOST_MS.map(|most| most.min(load.ms / 4));
    for ((id, tasks), free_ms) in [(ALONE, 1), (PARALLEL, load.tasks)].into_iter().zip(free_ms) {
        let mut client = draw.client(id);
        (client.work.contenders, client.work.names) = (tasks, tasks);
        client.work.hold = Span::always(0);
        plan.clients.push(client);
        plan.schedule.extend([
            When::NOW.then(Fault::start(id)),
            When::AfterMs(free_ms).then(Fault::end(id)),
            When::done(id).then(Fault::None),
        ]);
    }
    for (place, id) in LOCKERS.into_iter().enumerate().take(load.tasks) {
        let mut client = draw.client(id);
        client.work.contenders = (load.tasks - place).div_ceil(LOCKERS.len());
        client.work.hold = Span::always(CRITICAL_SECTION_MS);
        plan.clients.push(client);
    }
    let many = &plan.clients[2..];
    plan.schedule.extend(many.iter().map(|client| When::NOW.then(Fault::start(&client.id))));
    plan.schedule.push(When::AfterMs(load.ms - free_ms[0] - free_ms[1]).then(Fault::None));
    plan.schedule.extend(many.iter().map(|client| When::NOW.then(Fault::end(&client.id))));
    plan.schedule.extend(many.iter().map(|client| When::done(&client.id).then(Fault::None)));
    for client in &mut plan.clients {
        (client.starts, client.work.records_at_end) = (false, true);
        (client.work.connected, client.work.think) = (true, Span::always(0));
        client.work.first_access = FirstAccess::Never;
    }
    plan.tail_ms = 0;
    plan.tokens_in_order = true;
    plan
}
