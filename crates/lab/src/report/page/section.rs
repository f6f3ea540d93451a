use std::borrow::Cow;
use std::time::Duration;

use maud::{Markup, html};

use super::super::ReportError;
use super::super::counterexample::{Counterexample, and_more, counterexample, smallest, spans};
use super::super::figures::lanes;
use super::super::files::Files;
use super::super::histogram::Histogram;
use super::super::load::Source;
use super::super::results::{ModeResult, Placed, Scenario};
use super::super::shot::whole;
use super::super::table::{Cell, Table};
use super::super::timeline::Timeline;
use super::super::words::{counted, time};
use super::figure::shown;
use crate::svg::clean;

/// What the page shows of a scenario in one mode.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// The lanes of the run that shows the most.
    pub(super) figure: Option<Markup>,
    /// The ids of all figures of lanes.
    pub(super) files: Vec<String>,
    /// The handovers of all runs.
    pub(super) handovers: Histogram,
    /// The smallest counterexample of all runs.
    pub(super) smallest: Option<Found<'a>>,
    /// Runs without a figure, and why.
    pub(super) missing: Vec<String>,
    /// Whether the scenario has no other mode.
    pub(super) only: bool,
}

/// A counterexample, and the run in which it was found.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// From the first grant to the end of the overlap.
    pub(super) spans: Duration,
    counterexample: Counterexample,
    mode: Cow<'a, str>,
    run: &'a str,
}

/// Reads every run of a mode, one history at a time.
pub(super) fn section<'a>(
    scenario: &Scenario<'_>,
    result: &ModeResult<'a>,
    sources: &[Source],
    files: &mut Files,
) -> Result<Section<'a>, ReportError> {
    let mut section = Section {
        figure: None,
        files: Vec::new(),
        handovers: Histogram::default(),
        smallest: None,
        missing: Vec::new(),
        only: scenario.results.len() == 1,
    };
    let mut telling = 0;
    for placed in &result.runs {
        let found = match view_run(*placed, result.label(), sources, files) {
            Ok(found) => found?,
            Err(why) => {
                section.missing.push(format!("No picture of {}: {why}", placed.run.run));
                continue;
            }
        };
        // A run with a violation is preferred; otherwise the first run is shown.
        if found.overlaps.min(1) + 1 > telling {
            telling = found.overlaps.min(1) + 1;
            section.figure = Some(found.figure);
        }
        section.files.push(found.id);
        section.handovers.merge(&found.handovers);
        let smaller = |one: &Found<'_>, than: &Option<Found<'_>>| {
            than.as_ref().is_none_or(|than| one.spans < than.spans)
        };
        if let Some(witness) = found.smallest.filter(|one| smaller(one, &section.smallest)) {
            section.smallest = Some(witness);
        }
    }
    Ok(section)
}

/// What one history shows.
struct RunView<'a> {
    id: String,
    figure: Markup,
    overlaps: usize,
    handovers: Histogram,
    smallest: Option<Found<'a>>,
}

/// The outer error concerns the history, and the report continues without it.
fn view_run<'a>(
    placed: Placed<'a>,
    mode: Cow<'a, str>,
    sources: &[Source],
    files: &mut Files,
) -> Result<Result<RunView<'a>, ReportError>, String> {
    let run = placed.run;
    let history = sources[placed.source].history(run).ok_or("its name is no name of a run")?;
    let timeline = Timeline::read(&history).map_err(|error| format!("its history: {error}"))?;
    let overlaps = timeline.overlaps();
    let id = files.new_id(&format!("{}-lanes", run.run));
    let title = format!("{} in mode {}: who believed to hold the lock when", run.scenario, mode);
    let desc = format!(
        "{}. {} by {}, {} that overlap, {}.",
        run.title,
        counted(timeline.holds.len() as u64, "hold"),
        counted(timeline.clients.len() as u64, "client"),
        counted(overlaps.len() as u64, "pair"),
        counted(timeline.faults.len() as u64, "fault"),
    );
    let figure = lanes(id.clone(), title, desc, &whole(&timeline, &overlaps));
    let found = smallest(&overlaps)
        .map(|pair| {
            let witness =
                counterexample(&timeline, pair, &history).map_err(|error| error.to_string())?;
            Ok::<_, String>(Found {
                spans: spans(&pair),
                counterexample: witness,
                mode,
                run: &run.run,
            })
        })
        .transpose()?;
    let words = format!("Run {}, {} long.", clean(&run.run), time(timeline.length));
    Ok(files.figure(&figure).map(|()| RunView {
        id,
        figure: shown(&figure, &words),
        overlaps: overlaps.len(),
        handovers: timeline.handovers(),
        smallest: found,
    }))
}

impl Found<'_> {
    /// The counterexample as a figure and a list of events.
    pub(super) fn show(&self, scenario: &str, files: &mut Files) -> Result<Markup, ReportError> {
        let Self { counterexample: witness, mode, run, .. } = self;
        let title = format!("{scenario} in mode {mode}: the smallest witness");
        let id = files.new_id(&format!("{scenario}-witness"));
        let figure = lanes(id.clone(), title, witness.summary.clone(), &witness.lanes);
        files.figure(&figure)?;
        let table = self.events(id);
        files.table(&table)?;
        Ok(html! {
            h3 { "The smallest witness" }
            p {
                "The pair of overlapping beliefs that spans the least time ("
                (time(witness.spans)) "), of mode " strong { (clean(mode)) } ", run "
                code { (clean(run)) } ". " (clean(&witness.summary))
            }
            (shown(&figure, "Times are since the beginning of the run."))
            details {
                summary { "What happened around it, event by event" }
                (table.html())
                @if let Some(more) = and_more(witness.more) { p.minor { (more) } }
            }
        })
    }

    fn events(&self, id: String) -> Table {
        let begin = self.counterexample.events.first().map(|event| event.at).unwrap_or_default();
        let rows = self.counterexample.events.iter().map(|event| {
            let exact = |time: Duration| time.as_secs_f64() * 1e3;
            vec![
                Cell::number(format!("{:.3}\u{a0}ms", exact(event.at)), exact(event.at)),
                Cell::number(format!("+{:.3}", exact(event.at - begin)), exact(event.at - begin)),
                Cell::text(event.who.clone()),
                Cell::long(event.what.clone()),
                Cell::number(event.seq.to_string(), event.seq),
            ]
        });
        Table {
            id,
            caption: format!("Events around the witness, run {}", self.run),
            columns: vec![
                ("Since the beginning", "at_ms"),
                ("Since the first, ms", "since_first_ms"),
                ("Who", "who"),
                ("What", "what"),
                ("Line's seq", "seq"),
            ],
            rows: rows.collect(),
        }
    }
}
