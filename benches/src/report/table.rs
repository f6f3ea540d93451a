//! Tables in Markdown, aligned, so that they can be read on a terminal as well.

use crate::plan::{ALL, P50, RATE, Workload};
use crate::results::{Key, RAW, Range, Results, Row};

/// All figures of a workload: a table for each server and case, a line for each subject.
#[must_use]
pub(super) fn figures(results: &Results, workload: &Workload, plots: &str) -> String {
    let about = wrap(workload.about);
    let mut text = format!("# {}: {}\n\n{about}\n", workload.id, workload.title);
    text += "Medians of all rounds, with the least and the largest. \"x raw\" is the ratio to the raw\n\
        client of the same round.\n\n";
    text += plots;
    for server in results.servers() {
        let Some(condition) = results.condition(workload.id, server) else { continue };
        let rows: Vec<_> =
            results.rows(workload.id).filter(|row| row.key.server == server).collect();
        text += &format!("## {}\n\n{}\n", condition.version, wrap(&condition.machine));
        for case in distinct(rows.iter().map(|row| row.key.case.as_str())) {
            let of_it: Vec<_> = rows.iter().copied().filter(|row| row.key.case == case).collect();
            text += &format!("### {server}, {case}\n\n{}\n", table(results, workload, &of_it));
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn table(results: &Results, workload: &Workload, rows: &[&Row]) -> String {
    let metrics = distinct(rows.iter().map(|row| row.key.metric.as_str()));
    let mut head: Vec<_> = ["servers", "tasks", "subject"].map(str::to_owned).to_vec();
    for metric in &metrics {
        let unit = rows.iter().find(|row| row.key.metric == *metric).map(|row| &row.key.unit);
        let unit = unit.filter(|unit| !unit.is_empty());
        head.push(unit.map_or_else(|| (*metric).to_owned(), |unit| format!("{metric}, {unit}")));
        if workload.main.contains(metric) {
            head.push("x raw".to_owned());
        }
    }
    let subject = |row: &Row| (row.key.nodes, row.key.tasks, row.key.subject.clone());
    let lines = distinct(rows.iter().map(|row| subject(row))).into_iter().map(|of| {
        let mut line = vec![of.0.to_string(), number(of.1 as f64), of.2.clone()];
        for metric in &metrics {
            let row = rows.iter().find(|row| subject(row) == of && row.key.metric == *metric);
            line.push(range(row.and_then(|row| row.range())));
            if workload.main.contains(metric) {
                let to_raw = row.and_then(|row| row.ratio(results.other(row, RAW)?));
                line.push(range(to_raw));
            }
        }
        line
    });
    markdown(&head, &lines.collect::<Vec<_>>())
}

/// Beside whom quorumlock stands.
const BESIDE: [&str; 6] =
    ["raw", "raw, majority", "rslock", "redis-lock", "two PINGs", "raw in bulk"];

/// P1 to P4 in one table for each of ours: its ratio to others, and to itself with repeated names.
#[must_use]
pub(super) fn ratios(results: &Results) -> String {
    let about = "P1 to P4, default and like for like, beside others in the same round: medians. \
        With one task the time of a pair (less is better), else pairs per second (more is better). \
        \"repeated\": fresh names beside repeated ones. \"two PINGs\" are two empty round trips, \
        \"raw in bulk\" is what the servers have time for.";
    let mut text = format!("# Pairs: ratios\n\n{}\n", wrap(about));
    for server in results.servers() {
        for ours in ["default", "like for like"] {
            let lines = lines_of(results, server, ours);
            if !lines.is_empty() {
                let head = ["servers", "tasks", "names", "figure"].into_iter().chain(BESIDE);
                let head: Vec<_> = head.chain(["repeated"]).map(str::to_owned).collect();
                text += &format!("## {server}, {ours}\n\n{}\n", markdown(&head, &lines));
            }
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn lines_of(results: &Results, server: &str, ours: &str) -> Vec<Vec<String>> {
    let rows = ALL[..4].iter().flat_map(|workload| results.rows(workload.id));
    let rows = rows.filter(|row| row.key.server == server && row.key.subject == ours);
    let rows = rows.filter(|row| row.key.metric == if row.key.tasks == 1 { P50 } else { RATE });
    let line = |row: &Row| {
        let key = &row.key;
        let median = |to: Option<&Row>| {
            let ratio = to.and_then(|to| row.ratio(to));
            ratio.map_or_else(|| "-".to_owned(), |ratio| number(ratio.median))
        };
        let repeated = Key { case: "repeated names".into(), ..key.clone() };
        let mut line = vec![
            key.nodes.to_string(),
            number(key.tasks as f64),
            key.case.trim_end_matches(" names").to_owned(),
            if key.tasks == 1 { "time" } else { "pairs/s" }.to_owned(),
        ];
        line.extend(BESIDE.iter().map(|subject| median(results.other(row, subject))));
        line.push(median(results.find(&repeated)));
        line
    };
    rows.map(line).collect()
}

fn range(range: Option<Range>) -> String {
    range.map_or_else(
        || "-".to_owned(),
        |Range { median, min, max }| match min.total_cmp(&max) {
            std::cmp::Ordering::Equal => number(median),
            _ => format!("{} [{}..{}]", number(median), number(min), number(max)),
        },
    )
}

/// Three digits that count, without an exponent.
#[must_use]
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let plain = format!("{value:.digits$}");
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[must_use]
pub(super) fn markdown(head: &[String], lines: &[Vec<String>]) -> String {
    let mut widths: Vec<_> = head.iter().map(String::len).collect();
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.len());
        }
    }
    let print = |line: &[String]| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!(" {cell:width$} "));
        format!("|{}|\n", cells.collect::<Vec<_>>().join("|"))
    };
    let rule: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
    print(head) + &print(&rule) + &lines.iter().map(|line| print(line)).collect::<String>()
}

/// A paragraph, or an item of a list.
pub(super) fn wrap(text: &str) -> String {
    const WIDTH: usize = 100;
    let indent = if text.starts_with("- ") { "  " } else { "" };
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            lines += &format!("{line}\n");
            line = format!("{indent}{word}");
        } else {
            line += if line.is_empty() { "" } else { " " };
            line += word;
        }
    }
    lines + &line + "\n"
}

/// Each once, in the order of their first.
pub(super) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Condition;

    fn results() -> Results {
        let mut results = Results::default();
        let condition = Condition { version: "redis 7.0.15".into(), machine: "a machine".into() };
        results.note("P1", "redis 7.0", condition);
        for (case, subject, value) in [
            ("fresh names", "raw", 10.0),
            ("fresh names", "default", 12.0),
            ("fresh names", "rslock", 8.0),
            ("repeated names", "default", 6.0),
        ] {
            let key = Key {
                workload: "P1".into(),
                server: "redis 7.0".into(),
                nodes: 1,
                tasks: 1,
                case: case.into(),
                subject: subject.into(),
                metric: P50.into(),
                unit: "us".into(),
            };
            (0..2).for_each(|round| {
                results.enter(round, key.clone(), value * f64::from(u8::from(round == 0) + 1));
            });
        }
        results
    }

    fn cells(text: &str, subject: &str) -> Vec<String> {
        let mut lines = text.lines().filter(|line| line.contains(subject));
        let line = lines.next().unwrap_or_else(|| panic!("no {subject} in\n{text}"));
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    }

    #[test]
    fn numbers_have_three_digits() {
        let said = [1234567.8, 123.4, 12.34, 1.0, 0.5, -1234.0].map(number);
        assert_eq!(said, ["1,234,568", "123", "12.3", "1", "0.50", "-1,234"]);
    }

    #[test]
    fn lines_are_wrapped() {
        assert_eq!(wrap("two  words"), "two words\n");
        let long = wrap(&format!("- {}", "word ".repeat(30)));
        let lengths: Vec<_> = long.lines().map(str::len).collect();
        assert_eq!(lengths, [96, 56]);
        assert!(long.lines().nth(1).unwrap().starts_with("  word"), "{long}");
    }

    #[test]
    fn a_subject_has_a_line_and_its_ratio_to_raw() {
        let text = figures(&results(), &ALL[0], "");
        assert!(text.contains("a machine"), "{text}");
        assert_eq!(cells(&text, "default")[3..6], ["default", "18 [12..24]", "1.20"]);
        assert_eq!(cells(&text, "rslock")[5], "0.80");
    }

    #[test]
    fn ours_stands_beside_all_others() {
        let text = ratios(&results());
        let line = cells(&text, "| fresh");
        let said = [&line[1..6], &line[7..8], &line[11..12]].concat();
        assert_eq!(said, ["1", "1", "fresh", "time", "1.20", "1.50", "2"]);
        assert_eq!(line[6], "-");
    }
}
