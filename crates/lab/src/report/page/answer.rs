use maud::{Markup, html};

use super::super::ReportError;
use super::super::figures::{Panel, believers};
use super::super::files::Files;
use super::super::load::Source;
use super::super::side_by_side::panel;
use super::super::timeline::Timeline;
use super::figure::shown;
use crate::compare::{Answer, answers};
use crate::record::Run;
use crate::scenario::c2_server_killed;

/// What a comparison found, before all else: its modes side by side, and a picture of their beliefs
/// while a server was killed.
pub(super) fn answer(sources: &[Source], files: &mut Files) -> Result<Vec<Markup>, ReportError> {
    let compared = sources.iter().filter_map(|source| Some((source, source.measured.as_ref()?)));
    compared.map(|(source, report)| section(source, &answers(report), files)).collect()
}

fn section(source: &Source, answers: &[Answer], files: &mut Files) -> Result<Markup, ReportError> {
    let panels = answers.iter().filter_map(|answer| panel_of(source, answer)).collect::<Vec<_>>();
    let figure = (!panels.is_empty()).then(|| {
        let words = answers.iter().map(|answer| {
            let seen = answer.seen.as_ref().map_or("no server was killed", |seen| &seen.words);
            format!("{}: {seen}", answer.name)
        });
        let desc = words.collect::<Vec<_>>().join(". ");
        let title = "Who believed to hold which lock, while a server was killed".to_owned();
        believers(files.new_id("believers"), title, desc, &panels)
    });
    figure.iter().try_for_each(|figure| files.figure(figure))?;
    Ok(html! {
        section.answer tabindex="-1" {
            div.sides { @for answer in answers { (side(answer)) } }
            @if let Some(figure) = &figure { (shown(figure, "")) }
        }
    })
}

/// The run in which a server was killed, if it can be read.
fn panel_of(source: &Source, answer: &Answer) -> Option<Panel> {
    let killed =
        |run: &&Run| run.scenario == c2_server_killed::SCENARIO.id && run.mode == answer.mode;
    let run = source.runs.iter().find(killed)?;
    let timeline = Timeline::read(&source.history(run)?).ok()?;
    Some(panel(format!("{} ({})", answer.name, answer.mode), &timeline))
}

fn side(answer: &Answer) -> Markup {
    let (class, sign, words) = match &answer.seen {
        Some(seen) if seen.held => ("held", "HELD", seen.words.as_str()),
        Some(seen) => ("violated", "BROKE", seen.words.as_str()),
        None => ("open", "UNTESTED", "no server was killed"),
    };
    html! {
        div.side.(class) {
            h2 { (capital(&answer.name)) " (" (answer.mode) "): " span.sign { (sign) } }
            p.seen { "A server is killed and comes back empty: " (words) "." }
            p { strong { "Promises " } (&answer.promise) "." }
            p { strong { "Costs " } (&answer.cost) "." }
        }
    }
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}
