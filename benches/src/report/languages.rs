//! The section of the page that sets quorumlock beside the clients of other languages (P12).

use super::table::{distinct, markdown, number, wrap};
use crate::driver::CLIENTS;
use crate::plan::{HANDOVER, LONGEST, P50, RATE};
use crate::results::{Key, RAW, Results, Row};

/// A line of the table.
struct Line {
    work: &'static str,
    nodes: usize,
    tasks: usize,
    case: &'static str,
    metric: &'static str,
}

const LINES: [Line; 8] = [
    Line { work: "lock + unlock, 1 server", ..PAIR },
    Line { work: "lock + unlock, 5 servers", nodes: 5, ..PAIR },
    Line { work: "64 callers, 1 server", tasks: 64, metric: RATE, ..PAIR },
    Line { work: "64 callers, 5 servers", nodes: 5, tasks: 64, metric: RATE, ..PAIR },
    Line { work: "16 waiters, 1 server", tasks: 16, ..CONTENDED },
    Line { work: "64 waiters, 5 servers", nodes: 5, tasks: 64, ..CONTENDED },
    Line { work: "1 of 5 servers hangs", nodes: 5, case: "one stopped", ..PAIR },
    Line { work: "1 of 5 servers is dead", nodes: 5, case: "one killed", ..PAIR },
];

const PAIR: Line = Line { work: "", nodes: 1, tasks: 1, case: "fresh names", metric: P50 };
const CONTENDED: Line = Line { case: "one name", metric: HANDOVER, ..PAIR };

/// Nothing if P12 was not measured.
#[must_use]
pub(super) fn section(results: &Results) -> String {
    let servers = distinct(results.rows("P12").map(|row| row.key.server.as_str()));
    let head = ["work", "ours"].into_iter().chain(CLIENTS.iter().map(|client| client.name));
    let head: Vec<_> = head.chain(["raw client"]).map(str::to_owned).collect();
    let tables = servers.into_iter().map(|server| {
        let lines: Vec<_> = LINES.iter().map(|line| line.cells(results, server)).collect();
        format!("**{server}**:\n\n{}\n", markdown(&head, &lines))
    });
    let tables: String = tables.collect();
    if tables.is_empty() {
        return tables;
    }
    format!("## Beside other languages\n\n{}\n{tables}{}\n", wrap(ABOUT), wrap(NOTE))
}

const ABOUT: &str = "The lock clients of Java, Go and Node in the same run (P12), with their defaults, \
    each in a process of its own. Clients have one core, servers the other.";
const NOTE: &str = "With callers: pairs per second. With waiters, who all want one lock and hold it \
    for 1 ms: the median time from the end of a holder's work to the grant of another caller, and \
    the longest wait, which is at most the 5 s of a lap; quorumlock hands the lock over inside its \
    process. The last two lines: the time of a pair. On five servers the raw client waits for a \
    majority of the answers. Redisson's lock there, the deprecated `RedissonRedLock`, asks one \
    server after the other and waits for each; redsync waits for all of them unless \
    `WithFailFast(true)` is set. A client that failed has no figure.";

impl Line {
    fn cells(&self, results: &Results, server: &str) -> Vec<String> {
        let raw = if self.nodes == 1 { RAW } else { "raw, majority" };
        let clients = CLIENTS.iter().map(|client| client.name);
        let subjects = ["default"].into_iter().chain(clients).chain([raw]);
        let values = subjects.map(|subject| self.value(results, server, subject));
        std::iter::once(self.work.to_owned()).chain(values).collect()
    }

    fn value(&self, results: &Results, server: &str, subject: &str) -> String {
        let median = |metric: &str| {
            let key = Key {
                workload: "P12".to_owned(),
                server: server.to_owned(),
                nodes: self.nodes,
                tasks: self.tasks,
                case: self.case.to_owned(),
                subject: subject.to_owned(),
                metric: metric.to_owned(),
                unit: String::new(),
            };
            Some(results.find(&key).and_then(Row::range)?.median)
        };
        let found = match self.metric {
            RATE => median(RATE).map(|rate| format!("{}/s", number(rate))),
            HANDOVER => median(LONGEST).map(|wait| {
                let gap = median(HANDOVER).map_or_else(|| "-".to_owned(), time);
                format!("{gap}; {}", time(wait * 1e3))
            }),
            metric => median(metric).map(time),
        };
        found.unwrap_or_else(|| "-".to_owned())
    }
}

/// Microseconds, in the unit that fits.
fn time(micros: f64) -> String {
    match micros {
        _ if micros < 1e3 => format!("{} us", number(micros)),
        _ if micros < 1e6 => format!("{} ms", number(micros / 1e3)),
        _ => format!("{} s", number(micros / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(rows: &[(&str, &str, f64)]) -> Results {
        let mut results = Results::default();
        for (subject, metric, value) in rows {
            let key = Key {
                workload: "P12".into(),
                server: "redis 7.0".into(),
                nodes: 1,
                tasks: if *metric == P50 { 1 } else { 16 },
                case: if *metric == P50 { "fresh names" } else { "one name" }.into(),
                subject: (*subject).into(),
                metric: (*metric).into(),
                unit: "us".into(),
            };
            results.enter(0, key, *value);
        }
        results
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        assert_eq!([67.3, 1_860.0, 9e6].map(time), ["67.3 us", "1.86 ms", "9 s"]);
    }

    #[test]
    fn a_client_stands_beside_ours() {
        let rows = [
            ("default", P50, 80.0),
            ("redsync 4.18.1", P50, 120.0),
            ("default", HANDOVER, 300.0),
            ("default", LONGEST, 40.0),
        ];
        let text = section(&results(&rows));
        let line = |work: &str| text.lines().find(|line| line.contains(work)).unwrap();
        let cells = |work| line(work).split('|').map(str::trim).collect::<Vec<_>>();
        assert_eq!(cells("lock + unlock, 1")[2..6], ["80 us", "-", "120 us", "-"]);
        assert_eq!(cells("16 waiters")[2..4], ["300 us; 40 ms", "-"]);
    }

    #[test]
    fn there_is_no_section_without_figures() {
        assert_eq!(section(&Results::default()), "");
    }
}
