//! The abilities of the drivers: settable clocks, the simulation, and what each cannot do.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use quorumlock_lab::mode::Mode;
use quorumlock_lab::record::Run;
use quorumlock_lab::runner::{Driver, Program, Trial, TrialError};
use quorumlock_lab::scenario::{Expects, Fault, Scenario, When, all, find};
use quorumlock_testbed::servers::{Faketime, ServerOptions, Servers, Shift, ask};
use quorumlock_watchdog::Clock;

/// A quick run of a scenario.
pub(crate) fn trial(id: &str, mode: Mode, seed: u64) -> Trial {
    let scenario: &'static Scenario = find(id).expect("it is there");
    Trial { quick: true, ..Trial::new(scenario, mode, seed) }
}

/// Carries the trial out with this command's own workers.
pub(crate) async fn carry_out(
    trial: &Trial,
    driver: Driver,
    dir: &Path,
) -> Result<Run, TrialError> {
    let program = Program {
        path: env!("CARGO_BIN_EXE_quorumlock-lab").into(),
        arguments: vec!["worker".into()],
    };
    trial.carry_out_on(driver, &program, dir, std::future::pending()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_is_the_same_history_byte_for_byte() {
    let history = async |seed| {
        let dir = tempfile::tempdir().unwrap();
        let run = carry_out(&trial("L10", Mode::QQ, seed), Driver::Sim, dir.path()).await.unwrap();
        assert!(run.observed.grants > 1 && run.as_expected, "{run:#?}");
        std::fs::read(dir.path().join("history.jsonl")).unwrap()
    };
    let (once, again, other) = (history(3).await, history(3).await, history(4).await);
    assert!(once == again, "two histories of seed 3");
    assert!(once != other, "seeds 3 and 4");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_simulation_sees_what_theory_says() {
    let mut seen = 0;
    for scenario in all() {
        for mode in Mode::ALL.into_iter().filter(|mode| Driver::Sim.runs(scenario, *mode)) {
            let trial = trial(scenario.id, mode, 11);
            if Driver::Sim.lacks(mode, &trial.plan(Driver::Sim)).is_some() {
                // Another seed may draw a plan that the simulation can carry out.
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let run = carry_out(&trial, Driver::Sim, dir.path()).await.unwrap();
            assert!(run.as_expected, "{run:#?}");
            assert_eq!(run.run, trial.name_on(Driver::Sim));
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
}

/// No client loses a lock in it, so the step waits in vain.
static NEVER_LOST: Scenario = Scenario {
    id: "L00",
    title: "In vain",
    story: "A step waits for what never happens.",
    expects: Expects::ALL_OK,
    plan: |draw| {
        let mut plan = draw.plan();
        plan.clients.push(draw.client("a"));
        plan.schedule = vec![When::Told("a".to_owned()).then(Fault::Kill(0))];
        plan
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_gets_stuck_says_at_which_step() {
    let dir = tempfile::tempdir().unwrap();
    let trial = Trial { scenario: &NEVER_LOST, ..trial("L01", Mode::S, 1) };
    let run = carry_out(&trial, Driver::Sim, dir.path()).await.unwrap();
    assert!(!run.as_expected && run.observed.grants > 0, "{run:#?}");
    assert_eq!(run.stuck.as_deref(), Some("step 1 (kill node 0)"), "{run:#?}");
    assert!(run.why.unwrap().contains("did not happen within"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_driver_cannot_do_is_left_out_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    for (id, mode, driver) in [("L08", Mode::S, Driver::Process), ("L16", Mode::R, Driver::Sim)] {
        let left_out = carry_out(&trial(id, mode, 1), driver, dir.path()).await;
        assert!(matches!(left_out, Err(TrialError::Missing(_))), "{left_out:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// `None` without libfaketime; stderr then says so.
fn with_clock(gains_ppm: i32) -> Option<Servers> {
    let started = Faketime::discover(gains_ppm).and_then(|clock| Ok((clock, Faketime::source()?)));
    match started {
        Ok((clock, source)) => {
            let options = ServerOptions { faketime: Some(clock), ..ServerOptions::default() };
            Some(Servers::start_with(&source, 1, &options).expect("it starts"))
        }
        Err(missing) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "SKIPPED: {missing}");
            None
        }
    }
}

/// Waits until the remaining time to live of the key, in milliseconds, is in the range.
fn awaits_left(servers: &Servers, within: RangeInclusive<i64>) {
    let clock = Clock::system();
    let begun = clock.now();
    while !within.contains(&left_ms(servers)) {
        assert!(clock.now().since(begun) < Duration::from_secs(15), "{} ms left", left_ms(servers));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn left_ms(servers: &Servers) -> i64 {
    let words = ["PTTL", "x"].map(str::to_owned);
    let reply = ask(servers[0].addr().expect("ours"), &words).expect("an answer");
    reply.trim_start_matches(':').parse().expect("a number")
}

#[test]
fn the_clock_of_a_server_is_set_and_stays_set_when_it_starts_again() {
    let Some(servers) = with_clock(0) else { return };
    let address = servers[0].addr().unwrap();
    let set = ["SET", "x", "1", "PX", "60000"].map(str::to_owned);
    ask(address, &set).unwrap();
    servers[0].set_clock(Shift::ByMs(30_000)).unwrap();
    awaits_left(&servers, 25_000..=32_000);
    servers[0].set_clock(Shift::ByMs(-20_000)).unwrap();
    awaits_left(&servers, 75_000..=82_000);
    let pid = servers[0].pid().unwrap();
    servers[0].restart_empty().unwrap();
    ask(address, &set).unwrap();
    servers[0].set_clock(Shift::ByMs(0)).unwrap();
    // It was 20 s late until now.
    awaits_left(&servers, 35_000..=42_000);
    drop(servers);
    let left = format!("faketime_shm_{pid}");
    assert!(!Path::new("/dev/shm").join(left).exists(), "left behind by a killed server");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_under_the_holder_is_seen_on_real_servers() {
    let dir = tempfile::tempdir().unwrap();
    match carry_out(&trial("L23", Mode::Q3, 3), Driver::Process, dir.path()).await {
        Err(TrialError::Missing(why)) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
        }
        run => {
            let run = run.expect("carried out");
            assert!(run.observed.violations > 0 && run.as_expected, "{run:#?}");
        }
    }
}
