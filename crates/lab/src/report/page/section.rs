use std::time::Duration;

use maud::{Markup, html};

use super::super::ReportError;
use super::super::bins::Bins;
use super::super::clean::clean;
use super::super::film::Film;
use super::super::load::Source;
use super::super::results::{ModeResult, Placed, Scenario};
use super::super::shot::whole;
use super::super::svg::lanes;
use super::super::table::{Cell, Table};
use super::super::witness::{Witness, and_more, smallest, spans, witness};
use super::super::words::{counted, time};
use super::super::write::Files;
use super::scenario::shown;

/// What the page shows of a scenario in a mode.
#[derive(Debug)]
pub(super) struct Section<'a> {
    /// The lanes of the most telling run.
    pub(super) figure: Option<Markup>,
    /// The ids of all lanes.
    pub(super) files: Vec<String>,
    /// Of all runs.
    pub(super) handovers: Bins,
    /// The smallest of all runs.
    pub(super) witness: Option<Found<'a>>,
    /// Runs without a picture, and why.
    pub(super) missing: Vec<String>,
    /// The scenario has no other mode.
    pub(super) only: bool,
}

/// A witness, and where it was found.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// From the first grant to the end of the overlap.
    pub(super) spans: Duration,
    witness: Witness,
    mode: &'a str,
    run: &'a str,
}

/// Looks at every run of a mode, one history at a time.
pub(super) fn section<'a>(
    scenario: &Scenario<'_>,
    result: &ModeResult<'a>,
    sources: &[Source],
    files: &mut Files,
) -> Result<Section<'a>, ReportError> {
    let mut section = Section {
        figure: None,
        files: Vec::new(),
        handovers: Bins::default(),
        witness: None,
        missing: Vec::new(),
        only: scenario.results.len() == 1,
    };
    let mut telling = 0;
    for placed in &result.runs {
        let found = match look(*placed, result.mode, sources, files) {
            Ok(found) => found?,
            Err(why) => {
                section.missing.push(format!("No picture of {}: {why}", placed.run.run));
                continue;
            }
        };
        // A run with a violation tells more than one without; else the first does.
        if found.overlaps.min(1) + 1 > telling {
            telling = found.overlaps.min(1) + 1;
            section.figure = Some(found.figure);
        }
        section.files.push(found.id);
        section.handovers.merge(&found.handovers);
        let smaller = |one: &Found<'_>, than: &Option<Found<'_>>| {
            than.as_ref().is_none_or(|than| one.spans < than.spans)
        };
        if let Some(witness) = found.witness.filter(|one| smaller(one, &section.witness)) {
            section.witness = Some(witness);
        }
    }
    Ok(section)
}

/// What a history shows.
struct Look<'a> {
    id: String,
    figure: Markup,
    overlaps: usize,
    handovers: Bins,
    witness: Option<Found<'a>>,
}

/// The outer error is the history's, which the report survives.
fn look<'a>(
    placed: Placed<'a>,
    mode: &'a str,
    sources: &[Source],
    files: &mut Files,
) -> Result<Result<Look<'a>, ReportError>, String> {
    let run = placed.run;
    let history = sources[placed.source].history(run).ok_or("its name is no name of a run")?;
    let film = Film::read(&history).map_err(|error| format!("its history: {error}"))?;
    let overlaps = film.overlaps();
    let id = files.new_id(&format!("{}-lanes", run.run));
    let title = format!("{} in mode {}: who believed to hold the lock when", run.scenario, mode);
    let desc = format!(
        "{}. {} by {}, {} that overlap, {}.",
        run.title,
        counted(film.holds.len() as u64, "hold"),
        counted(film.clients.len() as u64, "client"),
        counted(overlaps.len() as u64, "pair"),
        counted(film.faults.len() as u64, "fault"),
    );
    let figure = lanes(id.clone(), title, desc, &whole(&film, &overlaps));
    let found = smallest(&overlaps)
        .map(|pair| {
            let witness = witness(&film, pair, &history).map_err(|error| error.to_string())?;
            Ok::<_, String>(Found { spans: spans(&pair), witness, mode, run: &run.run })
        })
        .transpose()?;
    let words = format!("Run {}, {} long.", clean(&run.run), time(film.length));
    Ok(files.figure(&figure).map(|()| Look {
        id,
        figure: shown(&figure, &words),
        overlaps: overlaps.len(),
        handovers: film.handovers(),
        witness: found,
    }))
}

impl Found<'_> {
    /// The pair enlarged, and what happened around it.
    pub(super) fn show(&self, scenario: &str, files: &mut Files) -> Result<Markup, ReportError> {
        let Self { witness, mode, run, .. } = self;
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
        let begin = self.witness.events.first().map(|told| told.at).unwrap_or_default();
        let rows = self.witness.events.iter().map(|told| {
            let exact = |time: Duration| time.as_secs_f64() * 1e3;
            vec![
                Cell::number(format!("{:.3}\u{a0}ms", exact(told.at)), exact(told.at)),
                Cell::number(format!("+{:.3}", exact(told.at - begin)), exact(told.at - begin)),
                Cell::text(told.who.clone()),
                Cell::long(told.what.clone()),
                Cell::number(told.seq.to_string(), told.seq),
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
