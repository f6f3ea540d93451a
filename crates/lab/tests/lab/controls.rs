//! The lab detects what it must: deliberately broken locks, and failures that a mode cannot
//! survive. Without this, its other results would prove nothing.

use std::path::Path;

use quorumlock_lab::history::{Op, Phase, Reader};
use quorumlock_lab::mode::Mode;
use quorumlock_lab::record::{Expected, Run};
use quorumlock_lab::runner::{Program, Trial};
use quorumlock_lab::scenario::{
    BrokenLockKind, Draw, Expects, Overtaking, Plan, Scenario, Span, find,
};
use quorumlock_testbed::servers::{ServerOptions, for_test};

static NO_EXCLUSION: Scenario = broken(|draw| of_two(draw, BrokenLockKind::NoExclusion));
static RELEASE_BY_OWNER: Scenario = broken(|draw| of_two(draw, BrokenLockKind::ReleaseByOwner));

/// F1 is the plan of F1S without the option of a strict order.
static STRICT_WITHOUT_OPTION: Scenario = Scenario {
    id: "X02",
    title: "Strict order, and no client keeps it",
    story: "A negative control.",
    expects: Expects::ALL_OK,
    plan: |draw| {
        let plan = (find("F1").expect("it is there").plan)(draw);
        Plan { overtaking: Overtaking::Never, ..plan }
    },
};

const fn broken(plan: fn(&mut Draw) -> Plan) -> Scenario {
    Scenario {
        id: "X01",
        title: "A broken lock",
        story: "A negative control.",
        expects: Expects::in_all_modes(Expected::Violation),
        plan,
    }
}

fn of_two(draw: &mut Draw, kind: BrokenLockKind) -> Plan {
    let mut plan = draw.plan();
    for id in ["a", "b"] {
        let mut client = draw.client(id);
        client.work.broken_lock = Some(kind);
        client.work.hold = Span { low_ms: 15, high_ms: 30 };
        plan.clients.push(client);
    }
    plan.least_ms = 1_500;
    plan
}

/// `None` on a machine without a server program; stderr then says so.
async fn carry_out(scenario: &'static Scenario, mode: Mode, dir: &Path) -> Option<Run> {
    drop(for_test(1, &ServerOptions::default())?);
    let program = Program {
        path: env!("CARGO_BIN_EXE_quorumlock-lab").into(),
        arguments: vec!["worker".into()],
    };
    let trial = Trial { quick: true, ..Trial::new(scenario, mode, 7) };
    let run = trial.carry_out(&program, dir, std::future::pending()).await.expect("carried out");
    assert_eq!(run.run, trial.name());
    Some(run)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_without_nx_is_found_by_belief_and_by_effect() {
    let dir = tempfile::tempdir().unwrap();
    let Some(run) = carry_out(&NO_EXCLUSION, Mode::S, dir.path()).await else { return };
    assert!(run.observed.violations > 0 && run.observed.stale_effects > 0, "{run:#?}");
    assert!(run.observed.violated_ms > 0.0, "{run:#?}");
    assert!(run.as_expected, "{run:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_by_owner_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let Some(run) = carry_out(&RELEASE_BY_OWNER, Mode::S, dir.path()).await else { return };
    assert!(run.observed.violations > 0, "{run:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_redlock_is_caught_when_a_node_restarts_empty_and_proven_memory_is_not() {
    let scenario = find("L10").expect("it is there");
    for (mode, violated) in [(Mode::Q3, true), (Mode::QQ, false)] {
        let dir = tempfile::tempdir().unwrap();
        let Some(run) = carry_out(scenario, mode, dir.path()).await else { return };
        assert_eq!(run.observed.violations > 0, violated, "{run:#?}");
        assert!(run.as_expected, "{run:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_let_in_three_holders_of_two_permits_and_slots_two() {
    for (id, holders) in [("P1C", 3), ("P1", 2)] {
        let dir = tempfile::tempdir().unwrap();
        let scenario = find(id).expect("it is there");
        let Some(run) = carry_out(scenario, Mode::Q3, dir.path()).await else { return };
        assert_eq!(run.observed.holders, holders, "{run:#?}");
        assert_eq!(run.observed.violations > 0, holders > 2, "{run:#?}");
        assert!(run.as_expected, "{run:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_in_vain_where_readers_go_first_and_not_in_its_turn() {
    let mut waited_ms = Vec::new();
    for id in ["RW3C", "RW3"] {
        let dir = tempfile::tempdir().unwrap();
        let scenario = find(id).expect("it is there");
        let Some(run) = carry_out(scenario, Mode::S, dir.path()).await else { return };
        assert!(run.as_expected && run.observed.holders > 1, "{run:#?}");
        waited_ms.push(run.observed.waited_ms["c"]);
    }
    // Its request follows the order to start by a little.
    assert!(waited_ms[0] > 2_500.0 && waited_ms[1] < waited_ms[0], "{waited_ms:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_strict_order_overtake_and_the_verdict_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let Some(run) = carry_out(&STRICT_WITHOUT_OPTION, Mode::S, dir.path()).await else { return };
    assert!(run.observed.overtakings > 0 && !run.as_expected, "{run:#?}");
    assert!(run.why.as_deref().is_some_and(|why| why.contains("overtook")), "{run:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_is_whole_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = find("L02").expect("it is there");
    let Some(run) = carry_out(scenario, Mode::S, dir.path()).await else { return };
    let events = Reader::open(dir.path().join("history.jsonl")).unwrap();
    let events = events.collect::<Result<Vec<_>, _>>().unwrap();
    for (seq, event) in events.iter().enumerate() {
        assert_eq!(event.seq, seq as u64);
        assert_eq!((event.run.as_str(), event.seed), (run.run.as_str(), 7));
    }
    let count = |op, phase| events.iter().filter(|e| e.op == op && e.phase == phase).count();
    assert_eq!(count(Op::Lock, Phase::Ok) as u64, run.observed.grants);
    assert_eq!(count(Op::Fault, Phase::Invoke) + count(Op::Fault, Phase::Info), 1, "the kill");
    let granted = events.iter().filter(|e| e.op == Op::Lock && e.phase == Phase::Ok);
    let nonces = granted.map(|e| e.nonce.as_deref().unwrap()).collect::<Vec<_>>();
    assert!(nonces.iter().all(|nonce| u128::from_str_radix(nonce, 16).is_ok()), "{nonces:?}");
    // Recorded by the lab on behalf of the killed client.
    assert_eq!((count(Op::Lost, Phase::Fail), count(Op::Lost, Phase::Info)), (1, 0));
    let text = std::fs::read_to_string(dir.path().join("run.json")).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
}
