use super::*;

#[test]
fn the_same_seed_gives_the_same_plan_and_another_one_another() {
    let text = |scenario: &Scenario, mode, seed, repetition| {
        serde_json::to_string(&scenario.plan(mode, seed, repetition, false)).unwrap()
    };
    for scenario in all() {
        for mode in Mode::ALL.into_iter().filter(|mode| scenario.expected(*mode).is_some()) {
            let plan = text(scenario, mode, 42, 0);
            assert_eq!(plan, text(scenario, mode, 42, 0), "{} {mode}", scenario.id);
            assert_ne!(plan, text(scenario, mode, 43, 0), "{} {mode}", scenario.id);
            assert_ne!(plan, text(scenario, mode, 42, 1), "{} {mode}", scenario.id);
        }
    }
}

#[test]
fn ids_are_in_order_and_every_scenario_applies_somewhere() {
    assert!(all().is_sorted_by_key(|scenario| scenario.id));
    for scenario in all() {
        assert!(Mode::ALL.into_iter().any(|mode| scenario.expected(mode).is_some()));
        assert!(find(&scenario.id.to_lowercase()).is_some());
    }
}

#[test]
fn plans_name_only_what_there_is() {
    for scenario in all() {
        for mode in Mode::ALL.into_iter().filter(|mode| scenario.expected(*mode).is_some()) {
            let plan = scenario.plan(mode, 7, 0, true);
            let wrong = plan.wrong();
            assert_eq!(wrong, Vec::<String>::new(), "{} {mode}", scenario.id);
        }
    }
}

#[test]
fn a_comparison_says_how_many_nodes_tasks_and_milliseconds() {
    let load = Some(Load { nodes: 3, tasks: 7, ms: 1_000 });
    for (mode, nodes) in [(Mode::S, 1), (Mode::QQ, 3)] {
        let plan = c1_locks::SCENARIO.plan_with(load, mode, 1, 0, false);
        let tasks = plan.clients.iter().map(|client| client.work.contenders).collect::<Vec<_>>();
        assert_eq!((plan.servers.voters, &tasks[..]), (nodes, &[1, 7, 2, 2, 2, 1][..]));
        let lasts = plan.schedule.iter().map(|step| match step.when {
            When::AfterMs(ms) => ms,
            _ => 0,
        });
        assert_eq!(lasts.sum::<u64>(), 1_000);
        let plan = c2_server_killed::SCENARIO.plan_with(load, mode, 1, 0, false);
        assert_eq!((plan.servers.voters, plan.least_ms), (nodes, 2_000), "long enough to recover");
    }
}

#[test]
fn a_client_that_keeps_its_events_is_not_killed() {
    let mut plan = c1_locks::SCENARIO.plan(Mode::S, 1, 0, true);
    plan.schedule.push(When::NOW.then(Fault::ClientKill(c1_locks::ALONE.to_owned())));
    assert_eq!(plan.wrong(), ["its events would be lost: kill client alone"]);
}
