//! P10: what tokens, admission and watchdog cost together.
//!
//! Tokens and admission are switched off together: without either alone the acquisition is a script's,
//! and slower than with both.

use anyhow::Result;

use super::pairs::{P50, sweep};
use crate::bed::Bed;
use crate::book::{Book, Key};
use crate::plan::Plan;
use crate::subject::Kind;

/// What all layers cost, in percent of the pair's p50.
pub const LAYERS: &str = "cost of all layers";

/// Runs it.
///
/// # Errors
/// See [`run`](super::run).
pub async fn run(bed: &mut Bed, plan: &Plan, book: &mut Book) -> Result<()> {
    let one = [Kind::Raw, Kind::Default, Kind::NoTokens, Kind::NoRenewal];
    let (time, rounds) = plan.brief();
    sweep("P10", bed.group(1).await?, &one, &[1], time, rounds, book).await?;
    let (tokens, admission) = (Kind::NoTokens, Kind::NoAdmission);
    let five = [Kind::Raw, Kind::Default, Kind::Like, tokens, admission, Kind::NoRenewal];
    sweep("P10", bed.group(5).await?, &five, &[1], time, rounds, book).await?;
    let ratio = |book: &Book, kind: Kind, nodes, to: Kind| {
        book.ratios(&key(kind, nodes, P50, "us"), to.name())
    };
    let votes = ratio(book, Kind::Default, 5, Kind::Like);
    let watchdog = ratio(book, Kind::Default, 5, Kind::NoRenewal);
    let layers = [("cost of tokens and admission", &votes), ("cost of the watchdog", &watchdog)];
    for (metric, ratios) in layers {
        for (round, ratio) in ratios.iter().enumerate() {
            book.enter(round, key(Kind::Default, 5, metric, "%"), percent(*ratio));
        }
    }
    for (round, (v, w)) in votes.iter().zip(&watchdog).enumerate() {
        book.enter(round, key(Kind::Default, 5, LAYERS, "%"), percent(v * w));
    }
    Ok(())
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

fn key(kind: Kind, nodes: usize, metric: &str, unit: &str) -> Key {
    Key {
        id: "P10".into(),
        subject: kind.name().into(),
        nodes,
        tasks: 1,
        metric: metric.into(),
        unit: unit.into(),
    }
}
