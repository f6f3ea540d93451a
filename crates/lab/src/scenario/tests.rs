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
