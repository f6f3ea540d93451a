use maud::{Markup, html};

use super::super::ReportError;
use super::super::figures::{Curve, ModeRow, ecdf, modes};
use super::super::files::Files;
use super::super::load::Source;
use super::super::results::{ModeResult, Scenario, expectation};
use super::super::table::{Cell, Table};
use super::super::words::{counted, time};
use super::anchor;
use super::figure::shown;
use super::result_table::result_table;
use super::section::{Section, section};
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
    let compared = compared(scenario, &id);
    files.figure(&compared)?;
    let mut sections = Vec::new();
    let mut curves = Vec::new();
    for result in &scenario.results {
        let section = section(scenario, result, sources, files)?;
        curves.push(Curve { name: result.mode.to_owned(), bins: section.handovers.clone() });
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
            details {
                summary { "All numbers" }
                (table.html())
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
                    strong { (clean(result.mode)) }
                    ": expected " (expectation(result.expected)) ", observed " (result.observed())
                    " in " (counted(result.runs.len() as u64, "run")) " "
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
                strong { "Mode " (clean(result.mode)) }
                ": " (result.observed()) ", " (counted(result.runs.len() as u64, "run"))
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
            name: result.mode.to_owned(),
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
