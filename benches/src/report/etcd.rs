//! The section of the page that sets quorumlock beside the same locker on etcd (P1 to P6).

use super::table::{markdown, number, wrap};
use crate::plan::{HANDOVER, HANDOVERS, P50, RATE};
use crate::results::{ETCD, Key, Results, Row};

/// A line of the table: the workloads on one server and on several.
struct Line {
    work: &'static str,
    workloads: [&'static str; 2],
    tasks: usize,
    case: &'static str,
    metric: &'static str,
    unit: &'static str,
}

const LINES: [Line; 5] = [
    Line {
        work: "lock + unlock",
        workloads: ["P1", "P3"],
        tasks: 1,
        case: "fresh names",
        metric: P50,
        unit: " us",
    },
    Line {
        work: "64 tasks",
        workloads: ["P2", "P4"],
        tasks: 64,
        case: "fresh names",
        metric: RATE,
        unit: "/s",
    },
    Line { metric: HANDOVERS, unit: "/s", ..ONE_NAME },
    Line {
        work: "16 processes, one lock",
        workloads: ["P6"; 2],
        case: "16 processes",
        metric: HANDOVERS,
        unit: "/s",
        ..ONE_NAME
    },
    Line {
        work: "from process to process",
        workloads: ["P6"; 2],
        case: "16 processes",
        metric: HANDOVER,
        unit: " us",
        ..ONE_NAME
    },
];

const ONE_NAME: Line = Line {
    work: "16 tasks, one lock",
    workloads: ["P5"; 2],
    tasks: 16,
    case: "one name",
    metric: "",
    unit: "",
};

/// The columns: quorumlock's servers, or members of etcd.
const COLUMNS: [(&str, &str, usize); 4] = [
    ("1 server", "default", 1),
    ("etcd, 1 member", ETCD, 1),
    ("5 servers", "default", 5),
    ("etcd, 3 members", ETCD, 3),
];

/// Nothing if etcd was not measured beside these servers.
#[must_use]
pub(super) fn section(results: &Results, server: &str) -> String {
    let measured = |line: &&Line| {
        let mut etcd = COLUMNS.iter().filter(|(_, subject, _)| *subject == ETCD);
        etcd.any(|column| line.value(results, server, *column).is_some())
    };
    let lines: Vec<_> = LINES.iter().filter(measured).collect();
    if lines.is_empty() {
        return String::new();
    }
    let cells = lines.iter().map(|line| {
        let values = COLUMNS.iter().map(|column| line.value(results, server, *column));
        let values = values.map(|value| value.unwrap_or_else(|| "-".to_owned()));
        std::iter::once(line.work.to_owned()).chain(values).collect()
    });
    let head = std::iter::once("work").chain(COLUMNS.iter().map(|(title, ..)| *title));
    let head: Vec<_> = head.map(str::to_owned).collect();
    let table = markdown(&head, &cells.collect::<Vec<_>>());
    format!("## Beside etcd\n\n{}\n{table}\n{}\n", wrap(ABOUT), wrap(NOTE))
}

const ABOUT: &str = "The same locker, with its defaults, over a cluster of etcd (the mode E of \
    [the lab](LAB.md)): only the store differs. The published library has no such mode.";
const NOTE: &str = "etcd runs with its defaults: each write is synchronised to the disks of a \
    majority before it is answered, so the disk decides. The servers of quorumlock keep locks in \
    memory, and prove after a restart that they may vote. The members of etcd share one core with \
    each other; the laps of etcd come after those of the others. A lock on etcd is two writes and a \
    release is two more, of which nobody awaits the last one. All waiters of etcd hear of a release, \
    and a process that was told of waiters lets them go first for 50 ms.";

impl Line {
    fn value(
        &self,
        results: &Results,
        server: &str,
        (_, subject, nodes): (&str, &str, usize),
    ) -> Option<String> {
        let key = Key {
            workload: self.workloads[usize::from(nodes > 1)].to_owned(),
            server: server.to_owned(),
            nodes,
            tasks: self.tasks,
            case: self.case.to_owned(),
            subject: subject.to_owned(),
            metric: self.metric.to_owned(),
            unit: String::new(),
        };
        let median = results.find(&key).and_then(Row::range)?.median;
        Some(number(median) + self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(rows: &[(&str, usize, &str, f64)]) -> Results {
        let mut results = Results::default();
        for (workload, nodes, subject, value) in rows {
            let key = Key {
                workload: (*workload).into(),
                server: "redis 7.0".into(),
                nodes: *nodes,
                tasks: 1,
                case: "fresh names".into(),
                subject: (*subject).into(),
                metric: P50.into(),
                unit: "us".into(),
            };
            results.enter(0, key, *value);
        }
        results
    }

    #[test]
    fn one_member_stands_beside_one_server_and_three_beside_several() {
        let rows = [
            ("P1", 1, "default", 110.0),
            ("P1", 1, ETCD, 1_500.0),
            ("P3", 5, "default", 650.0),
            ("P3", 3, ETCD, 2_700.0),
        ];
        let text = section(&results(&rows), "redis 7.0");
        let line = text.lines().find(|line| line.contains("lock + unlock")).unwrap();
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        assert_eq!(cells[2..6], ["110 us", "1,500 us", "650 us", "2,700 us"]);
        assert!(!text.contains("64 tasks"), "it was not measured: {text}");
    }

    #[test]
    fn there_is_no_section_without_etcd() {
        let ours = results(&[("P1", 1, "default", 110.0)]);
        assert_eq!(section(&ours, "redis 7.0"), "");
        assert_eq!(section(&results(&[("P1", 1, ETCD, 1.0)]), "valkey 9.1"), "");
    }
}
