use std::path::{Path, PathBuf};

use quorumlock_command::{Failure, Outcome, print, say};
use quorumlock_lab::record::{LibraryFacts, Run};
use quorumlock_lab::runner::{Driver, Library, Trial};
use quorumlock_lab::scenario::find;

use crate::interrupt::Interrupt;
use crate::output::require_fresh;
use crate::own;
use crate::report::{beside, read};
use crate::run::{Shown, carry_out, default_dir, new_lab};
use crate::workers::library;

/// Repeat the runs of an earlier invocation: the same scenarios, modes and seeds.
///
/// Exit status: 0 if every run gets the same judgement as before, 1 if not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory that `quorumlock-lab run` has written.
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Shorter runs. Use it if the earlier runs used it.
    #[arg(long)]
    quick: bool,

    /// Number of runs at the same time.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=16))]
    jobs: u8,

    /// Directory for the results [default: quorumlock-lab-TIME-SEED].
    #[arg(long, value_name = "OUT")]
    out: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn replay(args: Args) -> Outcome {
    let before = read(&args.dir)?;
    let quick = args.quick || before.command_line.iter().any(|word| word == "--quick");
    let mut trials = Vec::new();
    for run in &before.runs {
        let library = match &run.library {
            Some(LibraryFacts { name, command, .. }) => match library(name, command).await? {
                Some(library) => Some(library),
                None => continue,
            },
            None => None,
        };
        trials.push(trial(run, library, quick, &args.dir)?);
    }
    let out = args.out.unwrap_or_else(|| default_dir(before.seed));
    require_fresh(&out, false)?;
    own::keep(&own::all_kept(&args.dir), &out)?;
    let interrupt = Interrupt::listen();
    let after = carry_out(&trials, new_lab(before.seed), args.jobs, &out, &interrupt).await?;
    beside(&out)?;
    print(args.json, &Shown { lab: &after, out: &out })?;
    if after.interrupted {
        return Ok(interrupt.code());
    }
    let mut agree = true;
    // Runs that were skipped have no counterpart.
    let pairs = before.runs.iter().filter_map(|before| {
        Some((before, after.runs.iter().find(|after| after.run == before.run)?))
    });
    for (before, after) in pairs {
        if before.as_expected != after.as_expected {
            agree = false;
            let said = |run: &Run| if run.as_expected { "as expected" } else { "not as expected" };
            say(format_args!("{}: was {}, is {}", after.run, said(before), said(after)));
        }
    }
    if agree {
        say("all verdicts agree");
    }
    Ok(u8::from(!agree))
}

fn trial(
    run: &Run,
    library: Option<&'static Library>,
    quick: bool,
    dir: &Path,
) -> Result<(Trial, Driver), Failure> {
    let unknown = || Failure::usage(format!("{}: no such scenario", run.run));
    let mode = run
        .mode
        .split(':')
        .next()
        .unwrap_or_default()
        .parse()
        .map_err(|error| Failure::usage(format!("{}: {error}", run.run)))?;
    let scenario = match (find(&run.scenario), own::kept(dir, &run.scenario)) {
        (Some(scenario), _) => scenario,
        (None, Some(file)) => own::read(&file)?,
        (None, None) => return Err(unknown()),
    };
    let Run { seed, repetition, load, takeover_delay_ms, .. } = *run;
    let takeover_delay_ms = Some(takeover_delay_ms);
    let driver =
        run.driver.parse().map_err(|error| Failure::usage(format!("{}: {error}", run.run)))?;
    let trial = Trial { scenario, mode, seed, repetition, quick, load, takeover_delay_ms, library };
    Ok((trial, driver))
}
