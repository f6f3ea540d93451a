//! `quorumlock-lab compare --workers`: the locks of several libraries under the same faults.

use std::fmt;
use std::path::Path;

use comfy_table::{ContentArrangement, Table, presets};
use quorumlock_command::{Failure, Outcome, print, say};
use quorumlock_lab::mode::Mode;
use quorumlock_lab::promise;
use quorumlock_lab::record::Lab;
use quorumlock_lab::report::{LIBRARIES_LEGEND, libraries_table};
use quorumlock_lab::runner::{Driver, Library, Trial};
use quorumlock_lab::scenario::find;
use serde::Serialize;

use super::Args;
use crate::interrupt::Interrupt;
use crate::report::beside;
use crate::run::{carry_out, new_lab};
use crate::table::{Cell, cells};
use crate::workers::libraries;

/// The modes of quorumlock, those that other libraries have among them.
const MODES: [Mode; 5] = [Mode::S, Mode::RS, Mode::WS, Mode::Q5, Mode::QQ];

pub(super) async fn compare_in(dir: &Path, seed: u64, args: &Args) -> Outcome {
    let libraries = libraries(&args.workers).await?;
    let trials = trials(&libraries, seed, args.repeat);
    let interrupt = Interrupt::listen();
    let lab = carry_out(&trials, new_lab(seed), args.jobs, dir, &interrupt).await?;
    if args.report.is_some() {
        say(format_args!("report: {}", beside(dir)?.page.display()));
    }
    if lab.interrupted {
        return Err(Failure::new(interrupt.code(), "the comparison was interrupted"));
    }
    print(args.json, &Shown(&lab))?;
    Ok(u8::from(!cells(&lab.runs).iter().all(Cell::as_expected)))
}

/// Each scenario with the locks of quorumlock in its modes, and with those of each library in the modes
/// that the library has.
fn trials(libraries: &[&'static Library], seed: u64, repeat: u64) -> Vec<(Trial, Driver)> {
    let locks = std::iter::once(None).chain(libraries.iter().copied().map(Some));
    let locks = locks.collect::<Vec<_>>();
    let mut trials = Vec::new();
    for scenario in promise::SCENARIOS.into_iter().filter_map(find) {
        for mode in MODES.into_iter().filter(|mode| scenario.expected(*mode).is_some()) {
            let has = |library: &Option<&'static Library>| {
                library.is_none_or(|library| library.has(mode))
            };
            for library in locks.iter().copied().filter(has) {
                trials.extend((0..repeat).map(|repetition| {
                    let trial = Trial { library, repetition, ..Trial::new(scenario, mode, seed) };
                    (trial, Driver::Process)
                }));
            }
        }
    }
    trials
}

#[derive(Serialize)]
#[serde(transparent)]
struct Shown<'a>(&'a Lab);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = libraries_table(&self.0.runs).into_iter();
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(rows.next().unwrap_or_default());
        table.add_rows(rows);
        writeln!(f, "{}\n\n{LIBRARIES_LEGEND}", table.trim_fmt())?;
        write!(f, "seed {}", self.0.seed)
    }
}
