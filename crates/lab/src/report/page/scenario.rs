use std::time::Duration;

use maud::{Markup, html};

use super::super::ReportError;
use super::super::figures::{Curve, DelayLine, DelayPoint, ModeRow, by_delay, ecdf, modes};
use super::super::files::Files;
use super::super::load::Source;
use super::super::results::{ModeResult, Scenario, expectation};
use super::super::table::{Cell, Table};
use super::super::words::{counted, three, time};
use super::anchor;
use super::figure::shown;
use super::result_table::result_table;
use super::section::{Section, section};
use crate::record::Run;
use crate::svg::{Figure, clean, plain};

/// The section of a scenario: its story, its numbers, its figures.
pub(in crate::report) fn scenario(
    scenario: &Scenario<'_>,
    sources: &[Source],
    files: &mut Files,
) -> Result<Markup, ReportError> {
    let (anchor, id) = (anchor(scenario), plain(scenario.id));
    let table = result_table(
        &format!("{id}-results"),
        &format!("Results of {}", clean(scenario.id)),
        std::iter::once(scenario),
    );
    files.table(&table)?;
    let delays = delays(scenario, &id);
    delays.iter().try_for_each(|figure| files.figure(figure))?;
    let compared = compared(scenario, &id);
    files.figure(&compared)?;
    let mut sections = Vec::new();
    let mut curves = Vec::new();
    for result in &scenario.results {
        let section = section(scenario, result, sources, files)?;
        curves.push(Curve { name: result.label().into_owned(), bins: section.handovers.clone() });
        sections.push((result, section));
    }
    let handovers = handovers(scenario, &id, &curves);
    files.figure(&handovers)?;
    let data = curve_data(&id, &curves);
    files.table(&data)?;
    // A counterexample that theory forbids comes first; among equals, the shortest.
    let witness = sections.iter().filter_map(|(result, section)| {
        section.smallest.as_ref().map(|witness| (result.as_expected() == Some(true), witness))
    });
    let witness = witness.min_by_key(|(expected, witness)| (*expected, witness.spans));
    let witness = witness.map(|(_, witness)| witness.show(&id, files)).transpose()?;
    Ok(html! {
        section #(anchor) tabindex="-1" {
            h2 { (clean(scenario.id)) ": " (clean(scenario.title)) }
            p.story { (clean(scenario.story)) }
            (summary(&scenario.results))
            @if let Some(leases) = scenario.different_leases() {
                p.warning { "The leases differ, so times of these modes cannot be compared: " (clean(&leases)) "." }
            }
            @if delays.is_some() {
                p.minor { "+: with this takeover delay." }
            }
            details {
                summary { "All numbers" }
                (table.html())
            }
            @if let Some(delays) = &delays {
                h3 { "Takeover delay" }
                (shown(delays, THEORY_OF_DELAYS))
            }
            h3 { "Modes compared" }
            (shown(&compared, ""))
            h3 { "Handover times" }
            (shown(&handovers, "From the end of one belief to the start of the next, of those who were waiting already; all runs of a mode together. An overlap is a handover in no time. The further left, the faster."))
            p.files { "As a file: " a href={ "tables/" (data.file()) } { (data.file()) } }
            @if let Some(witness) = witness { (witness) }
            h3 { "Who believed to hold the lock when" }
            @for (result, section) in &sections { (lanes(result, section)) }
        }
    })
}

fn summary(results: &[ModeResult<'_>]) -> Markup {
    html! {
        ul.modes {
            @for result in results {
                @let (class, sign) = match result.as_expected() {
                    Some(true) => ("good", "✓ as expected"),
                    Some(false) => ("bad", "✗ NOT as expected"),
                    None => ("open", "… cut short"),
                };
                li.(class) {
                    strong { (clean(&result.label())) }
                    ": expected " (expectation(result.expected)) ", observed " (result.observed())
                    " in " (result.observed_in()) " "
                    span.sign { (sign) }
                    @for why in result.each().filter_map(|run| run.why.as_deref()).take(3) {
                        span.why { (clean(why)) }
                    }
                }
            }
        }
    }
}

fn lanes(result: &ModeResult<'_>, section: &Section<'_>) -> Markup {
    let bad = result.as_expected() == Some(false) || result.violated_runs() > 0;
    html! {
        details.lanes open[bad || section.only] {
            summary {
                strong { "Mode " (clean(&result.label())) }
                ": " (result.observed()) ", " (result.observed_in())
            }
            @if let Some(figure) = &section.figure { (figure) }
            @for missing in &section.missing { p.warning { (clean(missing)) } }
            @if section.files.len() > 1 {
                p.files {
                    "All runs: "
                    @for (index, id) in section.files.iter().enumerate() {
                        @if index > 0 { ", " }
                        a href={ "figures/" (id) ".svg" } { (id) }
                    }
                }
            }
        }
    }
}

fn compared(scenario: &Scenario<'_>, id: &str) -> Figure {
    let rows: Vec<_> = scenario
        .results
        .iter()
        .map(|result| ModeRow {
            name: result.label().into_owned(),
            runs: result.runs.len() as u64,
            violated: result.violated_runs(),
            vacancies: result.vacancies(),
        })
        .collect();
    let each = rows.iter().map(|row| {
        let longest = row.vacancies.iter().max().copied().unwrap_or_default();
        format!(
            "{}: violation in {} of {}, longest time without a holder {}",
            row.name,
            row.violated,
            counted(row.runs, "run"),
            time(longest)
        )
    });
    let desc = each.collect::<Vec<_>>().join(". ");
    let title = format!("{}: how often exclusion fell, and how long nobody held", scenario.id);
    modes(format!("{id}-modes"), title, desc, &rows)
}

const THEORY_OF_DELAYS: &str = "Means of a run. Theory: after the end of a belief nobody is granted \
     the lock within the delay, so V and E are 0 from the delay on that covers what the fault adds.";

/// The takeover delays of a scenario side by side, if there are several.
fn delays(scenario: &Scenario<'_>, id: &str) -> Option<Figure> {
    if scenario.delays_ms().len() < 2 {
        return None;
    }
    let mut lines = Vec::<DelayLine>::new();
    for result in &scenario.results {
        let runs = result.runs.len().max(1) as f64;
        let mean = |of: fn(&Run) -> u64| result.sum(of) as f64 / runs;
        let point = DelayPoint {
            delay: Duration::from_millis(result.delay_ms),
            violations: mean(|run| run.observed.violations),
            stale_effects: mean(|run| run.observed.stale_effects),
        };
        match lines.last_mut() {
            Some(line) if line.mode == result.mode => line.points.push(point),
            _ => lines.push(DelayLine { mode: result.mode.to_owned(), points: vec![point] }),
        }
    }
    let each = lines.iter().map(|line| {
        let points = line.points.iter().map(|point| {
            let DelayPoint { delay, violations, stale_effects } = point;
            let (v, e) = (three(*violations), three(*stale_effects));
            format!("{}: V {v}, E {e}", time(*delay))
        });
        format!("{}: {}", line.mode, points.collect::<Vec<_>>().join("; "))
    });
    let desc = each.collect::<Vec<_>>().join(". ");
    let title = format!("{}: violations and stale effects by takeover delay", scenario.id);
    Some(by_delay(format!("{id}-delays"), title, desc, &lines))
}

fn handovers(scenario: &Scenario<'_>, id: &str, curves: &[Curve]) -> Figure {
    let each = curves.iter().filter_map(|curve| {
        let (median, slow) = (curve.bins.percent(50)?, curve.bins.percent(99)?);
        let count = counted(curve.bins.count(), "handover");
        Some(format!(
            "{}: {count}, median {}, 99 % within {}",
            curve.name,
            time(median),
            time(slow)
        ))
    });
    let desc = each.collect::<Vec<_>>().join(". ");
    let title = format!("{}: time of a handover", scenario.id);
    ecdf(format!("{id}-ecdf"), title, desc, "time of a handover", curves)
}

fn curve_data(id: &str, curves: &[Curve]) -> Table {
    let rows = curves.iter().flat_map(|curve| {
        curve.bins.steps().map(|(until, share)| {
            let ms = until.as_secs_f64() * 1e3;
            vec![
                Cell::text(curve.name.clone()),
                Cell::number(ms.to_string(), ms),
                Cell::number(share.to_string(), share),
            ]
        })
    });
    Table {
        id: format!("{id}-ecdf"),
        caption: "Handovers".to_owned(),
        columns: vec![("Mode", "mode"), ("Within", "within_ms"), ("Share", "share")],
        rows: rows.collect(),
    }
}
