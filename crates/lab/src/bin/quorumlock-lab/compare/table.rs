use std::fmt::Display;

use comfy_table::{CellAlignment, Table, presets};
use quorumlock_lab::compare::{Contended, Environment, Measured, Report, ServerKilled};

/// The results of both modes side by side, for people.
pub(super) fn of(report: &Report) -> String {
    let Report { environment, single, quorum } = report;
    let mut rows = Rows::new(single, quorum);
    rows.head("one task, a free lock (lock + unlock)");
    rows.row("median", |mode| us(mode.alone.p50_us));
    rows.row("99 of 100 within", |mode| us(mode.alone.p99_us));
    rows.head(&format!("{} tasks, a lock each", environment.tasks));
    rows.row("lock + unlock per second", |mode| number(mode.parallel.pairs_per_second));
    contended(&mut rows, environment, single);
    if single.server_killed.is_some() && quorum.server_killed.is_some() {
        killed(&mut rows);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "".to_owned(),
        "single".to_owned(),
        format!("quorum of {}", environment.nodes),
    ]);
    table.add_rows(rows.lines);
    for column in [1, 2] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{}\n\n{}", circumstances(environment), table.trim_fmt())
}

fn contended(rows: &mut Rows<'_>, environment: &Environment, single: &Measured) {
    let lockers = single.contended.lockers;
    rows.head(&format!("{} tasks of {lockers} lockers, one lock", environment.tasks));
    let mut row = |label, value: fn(&Contended) -> String| {
        rows.row(label, |mode| value(&mode.contended));
    };
    row("held for: median", |c| us(c.held_p50_us));
    row("handover to another task: median", |c| us(c.handover_p50_us));
    row("99 of 100 within", |c| us(c.handover_p99_us));
    row("handovers within a locker", |c| number(c.to_another_task));
    row("handovers to another locker", |c| number(c.to_another_locker));
    row("their median", |c| us(c.to_another_locker_p50_us));
    row("99 of 100 within", |c| us(c.to_another_locker_p99_us));
    row("same task again", |c| number(c.same_task_again));
    row("grants per locker, least / most", |c| {
        format!("{} / {}", number(c.grants_per_locker_min), number(c.grants_per_locker_max))
    });
    row("grants per task, least / most", |c| {
        format!("{} / {}", number(c.grants_per_task_min), number(c.grants_per_task_max))
    });
    row("longest wait", |c| ms(c.wait_max_ms));
    row("overtakings of 1000 grants", |c| {
        c.overtakings_per_1000.map_or_else(none, |rate| format!("{rate:.1}"))
    });
    row("overlaps seen", |c| number(c.overlaps));
}

fn killed(rows: &mut Rows<'_>) {
    rows.head("one server is killed and comes back empty");
    let mut row = |label, value: fn(&ServerKilled) -> String| {
        rows.row(label, |mode| mode.server_killed.as_ref().map(value).unwrap_or_default());
    };
    row("it was away for", |k| ms(Some(k.down_ms)));
    row("longest wait for a lock that nobody held", |k| ms(Some(k.longest_without_grant_ms)));
    row("attempts that failed", |k| number(k.failed_attempts));
    row("grants", |k| number(k.grants));
    row("holders told of loss", |k| number(k.lost));
    row("overlaps seen", |k| number(k.overlaps));
    row("the longest", |k| if k.overlaps == 0 { none() } else { ms(Some(k.overlap_longest_ms)) });
    row("fencing tokens", |k| match (k.tokens_unique, k.tokens_increasing) {
        (true, true) => "in order".to_owned(),
        (true, false) => "OUT OF ORDER".to_owned(),
        (false, _) => "REPEATED".to_owned(),
    });
}

fn circumstances(environment: &Environment) -> String {
    let Environment { version, build, server, cpus, seconds, seed, .. } = environment;
    let server = server.as_deref().unwrap_or("servers given by URL");
    let cpus = cpus.map(|cpus| format!(", {cpus} processors")).unwrap_or_default();
    let build = if build == "release" { "" } else { ", DEBUG BUILD: the times say little" };
    format!("quorumlock {version}, {server}{cpus}, {seconds} s per mode, seed {seed}{build}")
}

struct Rows<'a> {
    single: &'a Measured,
    quorum: &'a Measured,
    lines: Vec<[String; 3]>,
}

impl<'a> Rows<'a> {
    fn new(single: &'a Measured, quorum: &'a Measured) -> Self {
        Self { single, quorum, lines: Vec::new() }
    }

    fn head(&mut self, text: &str) {
        self.lines.push([text.to_owned(), String::new(), String::new()]);
    }

    fn row(&mut self, label: &str, value: impl Fn(&Measured) -> String) {
        self.lines.push([format!("  {label}"), value(self.single), value(self.quorum)]);
    }
}

fn us(value: Option<u64>) -> String {
    value.map_or_else(none, |us| format!("{} us", number(us)))
}

fn ms(value: Option<u64>) -> String {
    value.map_or_else(none, |ms| format!("{} ms", number(ms)))
}

fn none() -> String {
    "-".to_owned()
}

/// Formats 12345 as 12,345.
fn number(value: impl Display) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let grouped = [0, 999, 1_000, 1_234_567].map(number);
        assert_eq!(grouped, ["0", "999", "1,000", "1,234,567"]);
    }
}
