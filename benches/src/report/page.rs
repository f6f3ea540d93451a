//! The one page that a buyer reads.

use super::table::{distinct, markdown, number, wrap};
use super::{etcd, languages};
use crate::plan::{ALL, CPU, EVENNESS, HANDOVER, HANDOVERS, KEYS, MEMORY, P50, RATE, REQUESTS};
use crate::results::{Key, RAW, Results, Row};

/// `docs/BENCHMARKS.md`: one table, of the servers on which most lines were measured.
#[must_use]
pub(super) fn render(results: &Results) -> String {
    let (server, lines) = fullest(results);
    include_str!("page.template")
        .replace("{{server}}", server)
        .replace("{{warning}}\n", if quick(results) { WARNING } else { "" })
        .replace("{{table}}\n", &(table(&lines) + "\n"))
        .replace("{{etcd}}\n", &etcd::section(results, server))
        .replace("{{machine}}\n", &machine(results, server))
}

/// `docs/benchmarks/details.md`: the same of all servers, other languages, how it was measured.
#[must_use]
pub(super) fn details(results: &Results) -> String {
    let tables = results.servers().into_iter().filter_map(|server| {
        let lines = lines(results, server);
        (!lines.is_empty()).then(|| format!("**{server}**, fresh names:\n\n{}\n", table(&lines)))
    });
    let links = ALL.iter().filter(|workload| results.rows(workload.id).next().is_some());
    let links = links
        .map(|workload| format!("- [{}: {}]({}.md)\n", workload.id, workload.title, workload.id));
    let ratios = "- [P1 to P4: ratios to all others](pairs.md)\n".to_owned();
    include_str!("details.template")
        .replace("{{warning}}\n", if quick(results) { WARNING } else { "" })
        .replace("{{tables}}\n", &tables.collect::<String>())
        .replace("{{languages}}\n", &languages::section(results))
        .replace("{{conditions}}\n", &conditions(results))
        .replace("{{links}}\n", &(ratios + &links.collect::<String>()))
}

const WARNING: &str = "**From a quick look: short laps, 20,000 names in place of a million. No \
    figure here is to be\nrelied on until `make bench` has run on a quiet machine.**\n\n";

fn quick(results: &Results) -> bool {
    let servers = results.servers();
    let mut all = ALL.iter().flat_map(|workload| {
        servers.iter().filter_map(|server| results.condition(workload.id, server))
    });
    all.any(|condition| condition.machine.contains("QUICK"))
}

/// A line of a table.
struct Line {
    work: &'static str,
    workload: &'static str,
    nodes: usize,
    tasks: usize,
    case: &'static str,
    metric: &'static str,
    /// What it means, in figures.
    means: fn(&Cells<'_>) -> String,
}

const LINES: [Line; 10] = [
    Line { workload: "P1", work: "lock + unlock, 1 server", metric: P50, ..PAIR },
    Line { workload: "P2", work: "64 tasks, 1 server", tasks: 64, ..PAIR },
    Line { workload: "P3", work: "lock + unlock, 5 servers", nodes: 5, metric: P50, ..QUORUM },
    Line { workload: "P4", work: "64 tasks, 5 servers", nodes: 5, tasks: 64, ..QUORUM },
    Line { workload: "P4", work: "1,024 tasks, 5 servers", nodes: 5, tasks: 1_024, ..QUORUM },
    Line {
        workload: "P5",
        work: "16 tasks, one lock",
        tasks: 16,
        case: "one name",
        metric: HANDOVERS,
        means: |cells| format!("{}; {} us between", cells.evenness(), cells.also(HANDOVER)),
        ..PAIR
    },
    Line {
        workload: "P6",
        work: "16 processes, one lock",
        tasks: 16,
        case: "16 processes",
        metric: HANDOVERS,
        means: |cells| format!("{}; {} requests", cells.evenness(), cells.also(REQUESTS)),
        ..PAIR
    },
    Line {
        workload: "P8",
        work: "1 of 5 servers killed",
        nodes: 5,
        case: "one killed",
        metric: "p50 / healthy",
        means: |cells| format!("of the healthy time; p99 {} x", cells.also("p99 / healthy")),
        ..PAIR
    },
    Line {
        workload: "P9",
        work: "10,000 locks held",
        tasks: 10_000,
        case: "held locks",
        metric: CPU,
        means: |cells| format!("{} requests in 10 s renew all", cells.also(REQUESTS)),
        ..PAIR
    },
    Line {
        workload: "P11",
        work: "1,000,000 names",
        tasks: 64,
        case: "after the rest",
        metric: MEMORY,
        means: |cells| format!("{} keys left; {} MB at once", cells.also(KEYS), cells.at_once()),
        ..PAIR
    },
];

const PAIR: Line = Line {
    work: "",
    workload: "",
    nodes: 1,
    tasks: 1,
    case: "fresh names",
    metric: RATE,
    means: |cells| format!("{} x the raw client's {}", cells.to(RAW), cells.kind()),
};

const QUORUM: Line = Line {
    means: |cells| {
        let (raw, majority) = (cells.to(RAW), cells.to("raw, majority"));
        format!("{raw} x the raw client's {} (majority {majority})", cells.kind())
    },
    ..PAIR
};

/// The servers on which most lines were measured, and the lines.
fn fullest(results: &Results) -> (&str, Vec<Vec<String>>) {
    let all = results.servers().into_iter().map(|server| (server, lines(results, server)));
    // Of equals the first.
    all.rev().max_by_key(|(_, lines)| lines.len()).unwrap_or_default()
}

fn table(lines: &[Vec<String>]) -> String {
    let head = ["work", "ours", "best peer", "raw client", "what it means"].map(str::to_owned);
    markdown(&head, lines)
}

/// All lines that were measured on one kind of server.
fn lines(results: &Results, server: &str) -> Vec<Vec<String>> {
    let lines = LINES.iter().filter_map(|line| {
        let cells = Cells::of(line, results, server)?;
        let peers = ["rslock", "redis-lock"].into_iter().filter_map(|peer| {
            let row = results.other(cells.ours, peer)?;
            Some((row.range()?.median, format!("{peer} {}", value(row))))
        });
        // Pairs and handovers per second are the more the better.
        let best = match cells.ours.key.unit.as_str() {
            "1/s" => peers.max_by(|one, other| one.0.total_cmp(&other.0)),
            _ => peers.min_by(|one, other| one.0.total_cmp(&other.0)),
        };
        let raw = results.other(cells.ours, RAW).map(value);
        let none = || "-".to_owned();
        Some(vec![
            line.work.to_owned(),
            value(cells.ours),
            best.map_or_else(none, |(_, text)| text),
            raw.unwrap_or_else(none),
            (line.means)(&cells),
        ])
    });
    lines.collect()
}

fn value(row: &Row) -> String {
    let unit = match row.key.unit.as_str() {
        "" => " x",
        "1/s" => "/s",
        "% of a core" => " % CPU",
        unit => &format!(" {unit}"),
    };
    row.range().map_or_else(|| "-".to_owned(), |range| number(range.median) + unit)
}

/// What a line tells of.
struct Cells<'a> {
    results: &'a Results,
    ours: &'a Row,
}

impl<'a> Cells<'a> {
    /// `None` if it was not measured.
    fn of(line: &Line, results: &'a Results, server: &str) -> Option<Self> {
        let ours = results.rows(line.workload).find(|row| {
            let key = &row.key;
            (key.server.as_str(), key.subject.as_str()) == (server, "default")
                && (key.nodes, key.tasks) == (line.nodes, line.tasks)
                && (key.case.as_str(), key.metric.as_str()) == (line.case, line.metric)
        })?;
        Some(Self { results, ours })
    }

    fn median(&self, change: impl FnOnce(&mut Key)) -> String {
        let mut key = self.ours.key.clone();
        change(&mut key);
        let range = self.results.find(&key).and_then(Row::range);
        range.map_or_else(|| "-".to_owned(), |range| number(range.median))
    }

    /// Another figure of the same lap.
    fn also(&self, metric: &str) -> String {
        self.median(|key| metric.clone_into(&mut key.metric))
    }

    fn at_once(&self) -> String {
        self.median(|key| "at once".clone_into(&mut key.case))
    }

    fn evenness(&self) -> String {
        let raw = self.median(|key| {
            EVENNESS.clone_into(&mut key.metric);
            "raw".clone_into(&mut key.subject);
        });
        format!("evenness {} (raw {raw})", self.also(EVENNESS))
    }

    fn to(&self, subject: &str) -> String {
        let ratio = self.results.other(self.ours, subject).and_then(|row| self.ours.ratio(row));
        ratio.map_or_else(|| "-".to_owned(), |ratio| number(ratio.median))
    }

    /// What kind of figure it is.
    fn kind(&self) -> &'static str {
        if self.ours.key.unit == "1/s" { "rate" } else { "time" }
    }
}

/// What the first line was measured on: [`details`] has it of each workload.
fn machine(results: &Results, server: &str) -> String {
    let measured = LINES.iter().find_map(|line| results.condition(line.workload, server));
    measured.map(|on| wrap(&format!("{}; {}.", on.version, on.machine))).unwrap_or_default()
}

/// Which workloads ran on what.
fn conditions(results: &Results) -> String {
    let of = |id: &str| {
        let servers = results.servers().into_iter();
        let found: Vec<_> = servers.filter_map(|server| results.condition(id, server)).collect();
        let machine = found.first()?.machine.clone();
        Some((machine, found.into_iter().map(|of| of.version.clone()).collect::<Vec<_>>()))
    };
    let measured = ALL.iter().filter_map(|workload| Some((workload.id, of(workload.id)?)));
    let measured: Vec<_> = measured.collect();
    let together = distinct(measured.iter().map(|(_, of)| of));
    let lines = together.into_iter().map(|(machine, servers)| {
        let ids = measured.iter().filter(|(_, of)| (&of.0, &of.1) == (machine, servers));
        let ids: Vec<_> = ids.map(|(id, _)| *id).collect();
        wrap(&format!("- {}: {}; {machine}", ids.join(", "), servers.join(" and ")))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::report::{DETAILS, DIR, RESULTS};

    #[test]
    fn the_page_is_what_the_results_say() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let results = Results::read(&docs.join(DIR).join(RESULTS)).unwrap();
        let page = std::fs::read_to_string(docs.join("BENCHMARKS.md")).unwrap();
        let all = LINES.iter().all(|line| page.contains(line.work));
        assert!(all, "a line of the table has no figures");
        assert!(page == render(&results), "make bench ARGS=--render writes it again");
        let page = std::fs::read_to_string(docs.join(DIR).join(DETAILS)).unwrap();
        assert!(page == details(&results), "make bench ARGS=--render writes it again");
    }
}
