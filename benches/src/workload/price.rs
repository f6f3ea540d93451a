//! P10: the cost of tokens, admission and renewal, each and together, of a handler of events, and of
//! spans that nobody wants.

use anyhow::Result;

use super::pairs::{FRESH, Sweep, sweep};
use super::{Lap, Run};
use crate::plan::{P50, PRICE};
use crate::subject::Kind;

pub(super) async fn run(run: &mut Run<'_>) -> Result<()> {
    use Kind::{
        Default, Like, NoAdmission, NoRenewal, NoTokens, Proven, Raw, SpansRefused, WithEvents,
    };
    let time = run.plan.lap(400);
    for (nodes, without) in [
        (1, vec![NoTokens, NoRenewal, WithEvents, SpansRefused, Proven]),
        (5, vec![NoTokens, NoAdmission, Like, NoRenewal]),
    ] {
        let kinds = [&[Raw, Default][..], &without].concat();
        sweep(
            run,
            &Sweep { nodes, kinds: &kinds, clients: &[], cases: &[FRESH], tasks: &[1], time },
        )
        .await?;
        without.into_iter().for_each(|kind| price(run, nodes, kind));
    }
    Ok(())
}

/// Enters how much longer a pair takes with the default options than without a feature, or with a handler
/// or a subscriber than with the default options, round by round.
fn price(run: &mut Run<'_>, nodes: usize, kind: Kind) {
    let lap = |kind, round| Lap { round, kind, nodes, tasks: 1, case: FRESH.text };
    let rounds = |kind| {
        let row = run.results.find(&run.key(lap(kind, 0), P50, "us"));
        row.map_or_else(Vec::new, |row| row.rounds.clone())
    };
    let (mut with, mut without_it) = (rounds(Kind::Default), rounds(kind));
    if let Kind::WithEvents | Kind::SpansRefused | Kind::Proven = kind {
        std::mem::swap(&mut with, &mut without_it);
    }
    for (round, both) in with.into_iter().zip(without_it).enumerate() {
        if let (Some(with), Some(without_it)) = both {
            run.enter(lap(kind, round), PRICE, "%", (with / without_it - 1.0) * 100.0);
        }
    }
}
