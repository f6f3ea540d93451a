//! The same scenarios with servers in containers, and a partition made by the container engine.

use std::path::Path;

use quorumlock_lab::mode::Mode;
use quorumlock_lab::record::{Expected, Run};
use quorumlock_lab::runner::{Driver, Program, Trial};
use quorumlock_lab::scenario::{Draw, Expects, Fault, Plan, Scenario, When, find};
use quorumlock_testbed::containers::for_test;

static PARTITION: Scenario = Scenario {
    id: "X02",
    title: "The nodes of the holder are partitioned",
    story: "A bare majority is taken off the network; the holder is told, another follows on healing.",
    expects: Expects::in_all_modes(Expected::Ok),
    plan: partition,
};

fn partition(draw: &mut Draw) -> Plan {
    let mut plan = draw.plan();
    plan.clients = vec![draw.bare_holder("a"), draw.rival("b")];
    plan.schedule =
        vec![When::NOW.then(Fault::start("a")), When::holds("a").then(Fault::start("b"))];
    let struck = 0..draw.mode.majority();
    plan.schedule.extend(struck.clone().map(|node| When::NOW.then(Fault::Disconnect(node))));
    plan.schedule.push(When::Told("a".to_owned()).then(Fault::None));
    plan.schedule.extend(struck.map(|node| When::NOW.then(Fault::Reconnect(node))));
    plan.schedule.push(When::granted("b").then(Fault::None));
    plan
}

/// `None` without an engine or an image; stderr then says so.
async fn carry_out(scenario: &'static Scenario, mode: Mode, dir: &Path) -> Option<Run> {
    drop(for_test(1).await?);
    let program = Program {
        path: env!("CARGO_BIN_EXE_quorumlock-lab").into(),
        arguments: vec!["worker".into()],
    };
    let trial = Trial { quick: true, ..Trial::new(scenario, mode, 7) };
    let carried = trial.carry_out_on(Driver::Container, &program, dir, std::future::pending());
    Some(carried.await.expect("carried out"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_restarts_empty_betrays_plain_redlock_only() {
    let scenario = find("L10").expect("it is there");
    for (mode, violated) in [(Mode::Q3, true), (Mode::QQ, false)] {
        let dir = tempfile::tempdir().unwrap();
        let Some(run) = carry_out(scenario, mode, dir.path()).await else { return };
        assert_eq!(run.driver, "container");
        assert_eq!(run.observed.violations > 0, violated, "{run:#?}");
        assert!(run.as_expected, "{run:#?}");
    }
}

/// L44 has servers that the others do not know. In L47 all servers must be back while a short-lived
/// process holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_with_spare_servers_or_short_lived_processes_shows_in_containers_what_it_must() {
    for id in ["L44", "L47"] {
        let scenario = find(id).expect("it is there");
        let dir = tempfile::tempdir().unwrap();
        let Some(run) = carry_out(scenario, Mode::Q3, dir.path()).await else { return };
        assert!(run.as_expected && run.observed.violations > 0, "{run:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_nodes_are_partitioned_is_told_before_another_holds() {
    let dir = tempfile::tempdir().unwrap();
    let Some(run) = carry_out(&PARTITION, Mode::Q3, dir.path()).await else { return };
    assert!(run.as_expected && run.observed.lost > 0 && run.observed.grants > 1, "{run:#?}");
}
