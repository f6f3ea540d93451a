use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::super::ReportError;
use super::super::files::Files;
use super::super::libraries::compared;
use super::super::load::Source;
use super::super::results::Scenario;
use super::super::table::Table;
use super::super::verdict::Verdict;
use super::super::words::counted;
use super::answer::answer;
use super::libraries::libraries;
use super::matrix::matrix;
use super::measured::measured;
use super::result_table::result_table;
use super::{Overview, anchor};
use crate::svg::{STYLE, clean};

/// The page up to its first scenario.
pub(in crate::report) fn opening(
    overview: &Overview<'_>,
    files: &mut Files,
) -> Result<Markup, ReportError> {
    let Overview { sources, scenarios, verdict } = overview;
    let answers = answer(sources, files)?;
    let table = result_table("results", "All results", scenarios.iter());
    files.table(&table)?;
    let measured = measured(sources);
    measured.iter().try_for_each(|table| files.table(table))?;
    // `closing` closes the body.
    Ok(html! {
        (DOCTYPE)
        (PreEscaped("<html lang=\"en\">"))
        (head(verdict))
        (PreEscaped("<body>"))
        a.skip href="#verdict" { "To the verdict" }
        (header(overview))
        (PreEscaped("<main>"))
        @for answer in &answers { (answer) }
        (verdict_section(sources, verdict))
        (contents(scenarios))
        (results_section(scenarios, &table, &measured))
    })
}

fn head(verdict: &Verdict) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:";
            title { "Failover lab: " (verdict.sentence()) }
            style { (PreEscaped(include_str!("../page.css"))) (PreEscaped(STYLE)) }
        }
    }
}

fn header(overview: &Overview<'_>) -> Markup {
    let runs = overview.sources.iter().map(|source| source.runs.len() as u64).sum();
    html! {
        header {
            h1 { "Failover lab" }
            p.minor {
                "Distributed locks of " code { "quorumlock" } " while servers, networks, clocks and holders fail: "
                (counted(overview.scenarios.len() as u64, "scenario")) ", " (counted(runs, "run")) "."
            }
        }
    }
}

fn verdict_section(sources: &[Source], verdict: &Verdict) -> Markup {
    let (class, sign) = if verdict.good() { ("good", "✓") } else { ("bad", "✗") };
    let interrupted = sources.iter().any(|source| match &source.lab {
        Some(lab) => lab.interrupted,
        None => true,
    });
    html! {
        section #verdict tabindex="-1" {
            h2 { "Verdict" }
            p.verdict.(class) { span.sign aria-hidden="true" { (sign) } " " (verdict.sentence()) }
            @for remark in verdict.remarks() { p.minor { (remark) } }
            @if interrupted {
                p.warning { strong { "Cut short: " } "this lab did not come to its end. What was seen is true, and not all." }
            }
            @for trouble in sources.iter().flat_map(|source| &source.trouble) {
                p.warning { strong { "Damaged: " } (clean(trouble)) }
            }
        }
    }
}

fn contents(scenarios: &[Scenario<'_>]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul {
                li { a href="#results" { "All results" } }
                @for scenario in scenarios {
                    li { a href={ "#" (anchor(scenario)) } { (clean(scenario.id)) " " (clean(scenario.title)) } }
                }
                li { a href="#again" { "Run it again" } }
                li { a href="#environment" { "Environment" } }
                li { a href="#glossary" { "Glossary" } }
            }
        }
    }
}

fn results_section(scenarios: &[Scenario<'_>], results: &Table, measured: &[Table]) -> Markup {
    html! {
        section #results tabindex="-1" {
            h2 { "All results" }
            p {
                "Each scenario in each mode: what was seen, and whether theory says so. "
                "What the letters mean is in the " a href="#glossary" { "glossary" } "."
            }
            @if compared(scenarios) { (libraries(scenarios)) } @else { (matrix(scenarios)) }
            details {
                summary { "All numbers" }
                (results.html())
            }
            @for table in measured { (table.html()) }
        }
    }
}
