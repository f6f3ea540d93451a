//! Runs the searches, prints the result of each, and fails if a result is not the expected one.
#![allow(clippy::print_stdout)] // it is what this program is for

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use quorumlock_model::plan::{Case, Expected, Size, plan};
use quorumlock_model::search::Outcome;

const USAGE: &str = "\
usage: model [--quick | --deep] [--threads N] [--steps] [ID...]
  --quick      only what takes seconds; --deep: also what takes long, and gigabytes
  --threads N  1 unless told; with more, the steps to a bug may not be the fewest
  --steps      print the steps to each bug
  ID           only these searches (M6, M10, ...)";

fn main() -> ExitCode {
    let Some(options) = Options::read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    println!(
        "{:5} {:42} {:>11} {:>5} {:>8}  outcome",
        "id", "search", "states", "depth", "seconds"
    );
    let mut sum = Sum::default();
    for case in plan(options.size) {
        if !options.only.is_empty() && !options.only.iter().any(|id| id == case.id) {
            continue;
        }
        let outcome = case.run(options.threads, &mut progress(&case));
        sum.add(&case, &outcome);
        report(&case, &outcome, options.steps);
    }
    println!(
        "{} searches, {} states, {} violations of right rules, {} of {} planted bugs caught, {} surprises",
        sum.searches, sum.states, sum.violations, sum.caught, sum.planted, sum.surprises
    );
    if sum.surprises == 0 && sum.searches > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Options {
    size: Size,
    threads: usize,
    steps: bool,
    only: Vec<String>,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self { size: Size::Full, threads: 1, steps: false, only: Vec::new() };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => options.size = Size::Quick,
                "--deep" => options.size = Size::Deep,
                "--threads" => options.threads = args.next()?.parse().ok().filter(|n| *n > 0)?,
                "--steps" => options.steps = true,
                id if !id.starts_with('-') => options.only.push(arg),
                _ => return None,
            }
        }
        Some(options)
    }
}

#[derive(Default)]
struct Sum {
    searches: usize,
    states: usize,
    violations: usize,
    planted: usize,
    caught: usize,
    surprises: usize,
}

impl Sum {
    fn add(&mut self, case: &Case, outcome: &Outcome) {
        self.searches += 1;
        self.states += outcome.states;
        self.surprises += usize::from(!case.is_as_expected(outcome));
        let broken = usize::from(outcome.broken.is_some());
        match case.expected {
            Expected::Holds => self.violations += broken,
            Expected::Caught => {
                self.planted += 1;
                self.caught += broken;
            }
        }
    }
}

fn report(case: &Case, outcome: &Outcome, steps: bool) {
    let found = match &outcome.broken {
        Some(broken) => format!("broken in {} steps: {}", broken.steps.len(), broken.rule),
        None if outcome.unseen.is_empty() => "holds".to_owned(),
        None => format!("holds, but never seen: {}", outcome.unseen.join(", ")),
    };
    let verdict = match (case.is_as_expected(outcome), case.expected) {
        (true, Expected::Holds) => "ok",
        (true, Expected::Caught) => "ok, planted",
        (false, _) => "SURPRISE",
    };
    println!(
        "{:5} {:42} {:>11} {:>5} {:>8.1}  {verdict}: {found}",
        case.id,
        case.what,
        outcome.states,
        outcome.depth,
        outcome.took.as_secs_f64()
    );
    let surprise = !case.is_as_expected(outcome);
    if let Some(broken) = &outcome.broken
        && (steps || surprise)
    {
        broken.steps.iter().for_each(|step| println!("        {step}"));
    }
}

/// On a terminal, progress is one line that is overwritten.
fn progress(case: &Case) -> impl FnMut(usize) + use<> {
    let (id, what) = (case.id, case.what);
    let terminal = std::io::stderr().is_terminal();
    move |states| {
        if terminal {
            eprint!("\r{id:5} {what:42} {states:>11}\r");
            // A failed flush must not stop the search.
            let _ = std::io::stderr().flush();
        }
    }
}
