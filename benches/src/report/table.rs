//! Tables in Markdown, aligned, so that they can be read on a terminal as well.

use crate::book::Row;
use crate::target::{Bound, Verdict};

/// Targets beside what was measured.
#[must_use]
pub fn verdicts(verdicts: &[Verdict]) -> String {
    let head = ["id", "nodes", "tasks", "subject", "figure", "target", "median [min..max]", ""];
    let lines = verdicts.iter().map(|verdict| {
        let key = &verdict.target.key;
        let (sign, bound) = match verdict.target.bound {
            Bound::AtMost(most) => ("<=", most),
            Bound::AtLeast(least) => (">=", least),
        };
        let found = verdict.found;
        let (of, unit) = match verdict.target.to {
            Some(to) => (format!("{} / {to}", key.metric), ""),
            None => (key.metric.clone(), key.unit.as_str()),
        };
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        vec![
            key.id.clone(),
            key.nodes.to_string(),
            key.tasks.to_string(),
            key.subject.clone(),
            of,
            format!("{sign} {}{unit}", number(bound)),
            format!("{} [{}..{}]", number(found.median), number(found.min), number(found.max)),
            if verdict.ok { "ok" } else { "short" }.to_owned(),
        ]
    });
    markdown(&head, lines.collect())
}

/// All that was measured.
#[must_use]
pub fn rows(rows: &[Row]) -> String {
    let head = ["id", "nodes", "tasks", "figure", "subject", "median [min..max]", "ratio to raw"];
    let range = |values: [Option<f64>; 3]| match values {
        [Some(median), Some(min), Some(max)] => {
            format!("{} [{}..{}]", number(median), number(min), number(max))
        }
        _ => String::new(),
    };
    let lines = rows.iter().map(|row| {
        let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
        vec![
            row.id.clone(),
            row.nodes.to_string(),
            row.tasks.to_string(),
            format!("{}{unit}", row.metric),
            row.subject.clone(),
            range([row.median, row.min, row.max]),
            range([row.ratio_to_raw, row.ratio_min, row.ratio_max]),
        ]
    });
    markdown(&head, lines.collect())
}

/// Three digits that count, without an exponent.
#[must_use]
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        _ if value.is_infinite() => return "none".to_owned(),
        size if size >= 100.0 || value.fract() == 0.0 => 0,
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

fn markdown(head: &[&str], lines: Vec<Vec<String>>) -> String {
    let head: Vec<_> = head.iter().map(|&word| word.to_owned()).collect();
    let mut widths: Vec<_> = head.iter().map(String::len).collect();
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.len());
        }
    }
    let print = |line: &[String]| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!(" {cell:width$} "));
        format!("|{}|\n", cells.collect::<Vec<_>>().join("|"))
    };
    let rule: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let lines = lines.iter().map(|line| print(line)).collect::<String>();
    print(&head) + &print(&rule) + &lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Key;
    use crate::stats::Range;
    use crate::target::Target;

    #[test]
    fn numbers_have_three_digits() {
        let said = [1234567.8, 123.4, 12.34, 1.0, 0.5, -1234.0, f64::INFINITY].map(number);
        assert_eq!(said, ["1,234,568", "123", "12.3", "1", "0.50", "-1,234", "none"]);
    }

    #[test]
    fn a_target_stands_beside_its_figure() {
        let key = Key {
            id: "P1".into(),
            subject: "default".into(),
            nodes: 1,
            tasks: 1,
            metric: "pair p50".into(),
            unit: "us".into(),
        };
        let target = Target { key, to: Some("raw"), bound: Bound::AtMost(1.0) };
        let found = Range { median: 1.25, min: 1.0, max: 2.0 };
        let table = verdicts(&[Verdict { target, found, ok: false }]);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with("| --"), "{table}");
        let cells: Vec<_> = lines[2].split('|').map(str::trim).collect();
        assert_eq!(cells[5..9], ["pair p50 / raw", "<= 1", "1.25 [1..2]", "short"]);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{table}");
    }
}
