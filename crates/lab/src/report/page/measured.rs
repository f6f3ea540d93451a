use super::super::load::Source;
use super::super::table::{Cell, Table};
use super::super::words::{count, none};
use crate::compare::{Measured, Report};

/// What uncontended locks cost in comparisons.
pub(super) fn measured(sources: &[Source]) -> Vec<Table> {
    let reports = sources.iter().filter_map(|source| source.measured.as_ref());
    reports.enumerate().map(|(place, report)| table(place, report)).collect()
}

fn table(place: usize, report: &Report) -> Table {
    let Report { environment, single, quorum } = report;
    let tasks = format!("{} tasks, a lock each: lock + unlock", environment.tasks);
    let alone = "One task, a free lock: lock + unlock";
    let rows = [
        (format!("{alone}, median"), "µs", values(single, quorum, |mode| mode.alone.p50_us)),
        (
            format!("{alone}, 99 of 100 within"),
            "µs",
            values(single, quorum, |mode| mode.alone.p99_us),
        ),
        (tasks, "per second", values(single, quorum, |mode| Some(mode.parallel.pairs_per_second))),
    ];
    let row = |(what, unit, [one, other]): (String, &str, [Option<u64>; 2])| {
        let number = |value: Option<u64>| Cell::maybe(value.map_or_else(none, count), value);
        vec![Cell::words(what), Cell::text(unit), number(one), number(other)]
    };
    Table {
        id: if place == 0 { "free-locks".to_owned() } else { format!("free-locks-{}", place + 1) },
        caption: format!(
            "Locks that nobody else wants: one server, and a quorum of {}",
            environment.nodes
        ),
        columns: vec![
            ("What was measured", "measured"),
            ("Unit", "unit"),
            ("Single", "single"),
            ("Quorum", "quorum"),
        ],
        rows: rows.into_iter().map(row).collect(),
    }
}

fn values(
    single: &Measured,
    quorum: &Measured,
    of: impl Fn(&Measured) -> Option<u64>,
) -> [Option<u64>; 2] {
    [single, quorum].map(of)
}
