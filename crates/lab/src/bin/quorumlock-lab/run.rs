use std::fmt;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use quorumlock_command::{Failure, Outcome, exit, print, say};
use quorumlock_lab::mode::Mode;
use quorumlock_lab::record::{self, Expected, Lab, Observed, Run, Skipped};
use quorumlock_lab::runner::{Driver, Library, Program, Trial, TrialError, environment};
use quorumlock_lab::scenario::{Scenario, all, find};
use quorumlock_testbed::servers::StartError;
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::output::{cannot_write, require_fresh};
use crate::own;
use crate::progress::Bar;
use crate::report::beside;
use crate::resume;
use crate::table::{self, cells};
use crate::workers::{Named, libraries};

/// Carry out scenarios and judge them.
///
/// Exit status: 0 if all results are as theory predicts; 1 if an expected violation did not occur
/// or a forbidden one did.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ids of scenarios, as listed by `quorumlock-lab list`.
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Carry out all scenarios.
    #[arg(long, conflicts_with = "ids")]
    all: bool,

    /// Carry out a plan of your own: a TOML file, as docs/LAB.md describes it.
    #[arg(long, value_name = "FILE")]
    plan: Vec<PathBuf>,

    /// Modes, separated by commas: S, S1, R, W, RR, WW, RS, WS, RC, WC, Q (Q5), Q3, Q5, Q7, QQ, QF, E
    /// [default: S,S1,R,W,RR,WW,Q,QQ,QF].
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    modes: Vec<Mode>,

    /// Takeover delays, separated by commas: `0s,500ms,2s`. Each run is carried out with each of
    /// them. For scenarios of which theory says what a delay changes: L03, L05, L23, L25, and plans
    /// with `ended_by_delay_ms` [default: none, or that of the plan].
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = delay_ms)]
    takeover_delay: Vec<u64>,

    /// Take the locks of another library: a program that speaks the lines of docs/lab/WORKERS.md. With
    /// it, theory predicts nothing, and the modes are S, Q5 and RS by default. May be repeated.
    #[arg(long, value_name = "NAME=COMMAND")]
    worker: Vec<Named>,

    /// Number of repetitions, each with other random numbers.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    repeat: u64,

    /// Seed of an earlier invocation, to repeat its schedules [default: random].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Driver of servers and lockers: process, container (needs the feature containers), sim.
    #[arg(long, default_value_t)]
    driver: Driver,

    /// Shorter runs.
    #[arg(long)]
    quick: bool,

    /// Number of runs at the same time. Parallel runs increase each other's latencies a little.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: u8,

    /// Directory for the results [default: quorumlock-lab-TIME-SEED].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Add to DIR the runs that are missing there: the same command again, after an interrupt. The
    /// seed is that of the runs in DIR.
    #[arg(long, requires = "out")]
    resume: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Outcome {
    let scenarios = chosen(&args)?;
    let resumed = args.out.as_ref().filter(|_| args.resume);
    let before = resumed.map(|dir| resume::read(dir, args.seed)).transpose()?;
    let known = before.as_ref().map(|before| before.seed);
    let seed = known.or(args.seed).unwrap_or_else(|| rand::random_range(0..1_000_000));
    let libraries = libraries(&args.worker).await?;
    let mut trials = trials(&args, &scenarios, &libraries, seed)?;
    let out = args.out.clone().unwrap_or_else(|| default_dir(seed));
    let lab = match before {
        Some(before) => resume::missing(before, &mut trials),
        None => {
            require_fresh(&out, true)?;
            new_lab(seed)
        }
    };
    own::keep(&args.plan, &out)?;
    let interrupt = Interrupt::listen();
    let lab = carry_out(&trials, lab, args.jobs, &out, &interrupt).await?;
    beside(&out)?;
    print(args.json, &Shown { lab: &lab, out: &out })?;
    if lab.interrupted {
        return Ok(interrupt.code());
    }
    Ok(u8::from(!cells(&lab.runs).iter().all(table::Cell::as_expected)))
}

fn chosen(args: &Args) -> Result<Vec<&'static Scenario>, Failure> {
    let valid = || all().iter().map(|scenario| scenario.id).collect::<Vec<_>>().join(", ");
    let own = args.plan.iter().map(|file| own::read(file)).collect::<Result<Vec<_>, _>>()?;
    if args.all {
        return Ok(all().iter().chain(own).collect());
    }
    if args.ids.is_empty() && own.is_empty() {
        return Err(Failure::usage(format!(
            "name scenarios, --all or --plan; there are: {}",
            valid()
        )));
    }
    let unknown = |id: &String| Failure::usage(format!("no scenario {id}; there are: {}", valid()));
    let named = args.ids.iter().map(|id| find(id).ok_or_else(|| unknown(id)));
    named.chain(own.into_iter().map(Ok)).collect()
}

fn trials(
    args: &Args,
    scenarios: &[&'static Scenario],
    libraries: &[&'static Library],
    seed: u64,
) -> Result<Vec<(Trial, Driver)>, Failure> {
    let quick = args.quick;
    let mut delays = args.takeover_delay.iter().copied().map(Some).collect::<Vec<_>>();
    delays.sort_unstable();
    delays.dedup();
    if delays.is_empty() {
        delays.push(None);
    }
    let libraries: Vec<_> = match libraries {
        [] => vec![None],
        _ => libraries.iter().copied().map(Some).collect(),
    };
    let mut trials = Vec::new();
    for &scenario in scenarios {
        let modes = args.modes_of(scenario);
        for mode in modes.into_iter().filter(|mode| scenario.expected(*mode).is_some()) {
            for (&library, &takeover_delay_ms) in
                libraries.iter().flat_map(|library| delays.iter().map(move |ms| (library, ms)))
            {
                trials.extend((0..args.repeat).map(|repetition| Trial {
                    scenario,
                    mode,
                    seed,
                    repetition,
                    quick,
                    load: None,
                    takeover_delay_ms,
                    library,
                }));
            }
        }
    }
    let unmoved = |trial: &&Trial| trial.plan(args.driver).ended_by_delay.is_none();
    match trials.iter().find(unmoved).filter(|_| !args.takeover_delay.is_empty()) {
        Some(trial) => Err(Failure::usage(format!(
            "--takeover-delay is not for {}: theory does not say what a delay changes in it",
            trial.scenario.id
        ))),
        None if trials.is_empty() => {
            Err(Failure::usage("none of these scenarios means anything in these modes"))
        }
        None => Ok(trials.into_iter().map(|trial| (trial, args.driver)).collect()),
    }
}

impl Args {
    fn modes_of(&self, scenario: &Scenario) -> Vec<Mode> {
        match (&self.modes[..], &self.worker[..]) {
            ([], []) => scenario.modes(),
            // Those that other libraries have.
            ([], _) => vec![Mode::S, Mode::Q5, Mode::RS],
            (modes, _) => modes.to_vec(),
        }
    }
}

/// Reads a takeover delay, in milliseconds.
fn delay_ms(text: &str) -> Result<u64, String> {
    let delay = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match u64::try_from(delay.as_millis()) {
        Ok(ms @ ..=600_000) if Duration::from_millis(ms) == delay => Ok(ms),
        _ => Err("it must be 0 to 10min, in whole milliseconds".to_owned()),
    }
}

/// The record of this invocation, without runs.
pub(crate) fn new_lab(seed: u64) -> Lab {
    Lab::new(seed, std::env::args().collect(), environment::gather(env!("CARGO_PKG_VERSION")))
}

/// Carries out the trials and adds them to the record `lab`.
pub(crate) async fn carry_out(
    trials: &[(Trial, Driver)],
    mut lab: Lab,
    jobs: u8,
    out: &Path,
    interrupt: &Interrupt,
) -> Result<Lab, Failure> {
    create_dir(&out.join("runs"), out)?;
    let written = |lab: &Lab| {
        record::write(&out.join("lab.json"), lab).map_err(|error| cannot_write(out, &error))
    };
    written(&lab)?;
    let program = worker_program()?;
    let bar = Bar::new(trials.len());
    let carried_out = trials.iter().map(async |(trial, driver): &(Trial, Driver)| {
        carry_out_trial(trial, *driver, &program, out, interrupt, &bar).await
    });
    // `buffered` yields the runs in the order of the trials, whichever ends first.
    let wanted = stream::iter(carried_out).take_while(|_| ready(!interrupt.has_come()));
    let mut runs = pin!(wanted.buffered(usize::from(jobs)));
    while let Some(run) = runs.next().await {
        match run? {
            Ok(run) => {
                bar.ended(&line(&run));
                lab.add(run);
                // Written after each run, so that an interrupted lab leaves valid results.
                written(&lab)?;
            }
            Err(skipped) => lab.skip(skipped),
        }
    }
    bar.clear();
    written(&lab)?;
    if let (true, Some(Skipped { scenario, mode, why })) = (lab.runs.is_empty(), lab.skipped.last())
    {
        let why = format!("nothing could be run: {scenario} in {mode}: {why}");
        return Err(Failure::new(exit::UNREACHABLE, why));
    }
    for run in lab.runs.iter().filter(|run| !run.as_expected) {
        say(format_args!("{}: {}", run.run, run.why.as_deref().unwrap_or_default()));
    }
    Ok(lab)
}

/// This program, as the worker that a trial starts for each client.
fn worker_program() -> Result<Program, Failure> {
    let path = std::env::current_exe().map_err(|error| {
        Failure::new(exit::SOFTWARE, format!("cannot find this program: {error}"))
    })?;
    Ok(Program { path, arguments: vec!["worker".to_owned()] })
}

/// Returns the run, or what was skipped.
async fn carry_out_trial(
    trial: &Trial,
    driver: Driver,
    program: &Program,
    out: &Path,
    interrupt: &Interrupt,
    bar: &Bar,
) -> Result<Result<Run, Skipped>, Failure> {
    let name = trial.name_on(driver);
    bar.begins(&name);
    let dir = out.join("runs").join(&name);
    create_dir(&dir, out)?;
    match trial.carry_out_on(driver, program, &dir, interrupt.comes()).await {
        Err(TrialError::Missing(why)) => {
            let _ = std::fs::remove_dir_all(&dir);
            bar.skipped(&format!("{name}: skipped: {why}"));
            let (scenario, mode) = (trial.scenario.id.to_owned(), trial.mode_and_library());
            Ok(Err(Skipped { scenario, mode, why }))
        }
        carried => carried.map(Ok).map_err(failure_of),
    }
}

fn create_dir(dir: &Path, out: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|error| cannot_write(out, &error))
}

fn line(run: &Run) -> String {
    let Observed { violations, stale_effects, refused_effects, grants, .. } = run.observed;
    let sign = if run.as_expected { "as expected" } else { "NOT AS EXPECTED" };
    format!(
        "{}: V {violations} E {stale_effects} St {refused_effects}, {grants} grants, {sign}",
        run.run
    )
}

pub(crate) fn default_dir(seed: u64) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(environment::now()).to_string();
    let now = now.replace(['-', ':'], "");
    PathBuf::from(format!("quorumlock-lab-{now}-{seed}"))
}

fn failure_of(error: TrialError) -> Failure {
    let code = match error {
        TrialError::Start(StartError::TooFewUrls { .. }) => exit::USAGE,
        TrialError::NoServer(_) | TrialError::Start(_) => exit::UNREACHABLE,
        TrialError::Lock(error) => return error.into(),
        TrialError::Plan(_) => exit::USAGE,
        _ => exit::SOFTWARE,
    };
    Failure::new(code, error.to_string())
}

pub(crate) struct Shown<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) out: &'a Path,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", table::of(&self.lab.runs))?;
        write!(f, "seed {}; report: {}", self.lab.seed, self.out.join("report.html").display())
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Short<'a> {
            scenario: &'a str,
            mode: &'a str,
            driver: &'a str,
            seed: u64,
            repetition: u64,
            takeover_delay_ms: u64,
            expected: Expected,
            observed: &'a Observed,
            as_expected: bool,
        }
        #[derive(Serialize)]
        struct All<'a> {
            runs: Vec<Short<'a>>,
        }
        fn short(run: &Run) -> Short<'_> {
            Short {
                scenario: &run.scenario,
                mode: &run.mode,
                driver: &run.driver,
                seed: run.seed,
                repetition: run.repetition,
                takeover_delay_ms: run.takeover_delay_ms,
                expected: run.expected,
                observed: &run.observed,
                as_expected: run.as_expected,
            }
        }
        All { runs: self.lab.runs.iter().map(short).collect() }.serialize(serializer)
    }
}
