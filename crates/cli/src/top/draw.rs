//! The picture of a snapshot: lines of text for a terminal of a given size. Does no I/O.

use std::fmt;
use std::time::Duration;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::snapshot::{LockRow, NodeRow, Snapshot};
use crate::text::brief;

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) width: usize,
    pub(super) height: usize,
}

/// The first line before the nodes have answered for the first time.
pub(super) const ASKING: &str = "asking the nodes ...";

/// The text of a snapshot without a limit of lines or columns.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&draw(self, Size { width: usize::MAX, height: usize::MAX }).join("\n"))
    }
}

/// At most `height` lines of at most `width` columns each.
pub(super) fn draw(snapshot: &Snapshot, size: Size) -> Vec<String> {
    let mut lines = vec![summary(snapshot), String::new()];
    lines.extend(table(node_columns(&snapshot.nodes), size.width));
    if !snapshot.locks.is_empty() {
        lines.push(String::new());
        lines.extend(table(lock_columns(&snapshot.locks), size.width));
    }
    if lines.len() > size.height {
        let shown = size.height.saturating_sub(1);
        let hidden = lines.len() - shown;
        lines.truncate(shown);
        lines.push(format!("{hidden} more lines"));
        lines.truncate(size.height);
    }
    lines.iter().map(|line| cut(line.trim_end(), size.width)).collect()
}

fn summary(snapshot: &Snapshot) -> String {
    let Snapshot { nodes, reachable, votes, needed, .. } = snapshot;
    let votes = votes.map_or_else(String::new, |votes| format!(", {votes} vote"));
    let refuse = match snapshot.refuse() {
        0 => String::new(),
        refuse => format!(", {refuse} take no lock"),
    };
    format!("{reachable} of {} nodes answer{votes}{refuse}; a lock needs {needed}", nodes.len())
}

/// A column of a table.
struct Column {
    title: &'static str,
    cells: Vec<String>,
    importance: Importance,
}

/// Which columns a narrow terminal shows: the least go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Importance {
    Least,
    Low,
    Middle,
    High,
    Always,
}

/// The last column of a table is cut where the line ends. It is left so many columns at least, before
/// other columns go.
const LAST_COLUMN: usize = 16;

const GAP: &str = "  ";

fn column<T>(
    rows: &[T],
    title: &'static str,
    importance: Importance,
    cell: impl Fn(&T) -> String,
) -> Column {
    Column { title, importance, cells: rows.iter().map(|row| printable(&cell(row))).collect() }
}

fn node_columns(nodes: &[NodeRow]) -> Vec<Column> {
    use Importance::{Always, High, Least, Low, Middle};
    let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let number = |number: Option<u64>| number.as_ref().map_or_else(unknown, ToString::to_string);
    let ahead = |micros: i64| format!("+{:.1} ms", micros as f64 / 1_000.0);
    vec![
        column(nodes, "NODE", Always, |node| node.node.clone()),
        column(nodes, "ANSWERS", High, |node| yes_or_no(node.reachable)),
        column(nodes, "VOTES", High, |node| node.admitted.map_or_else(|| "-".into(), yes_or_no)),
        column(nodes, "ROLE", Least, |node| node.role.clone().unwrap_or_else(unknown)),
        column(nodes, "CLOCK", Middle, |node| node.clock_ahead_us.map_or_else(unknown, ahead)),
        column(nodes, "CONNECTIONS", Middle, |node| number(node.connections)),
        column(nodes, "MARKS", Low, |node| number(node.marks)),
        column(nodes, "WAITERS", High, |node| number(node.waiters)),
        column(nodes, "PROBLEM", Always, |node| node.problem.clone().unwrap_or_default()),
    ]
}

fn lock_columns(locks: &[LockRow]) -> Vec<Column> {
    use Importance::{Always, High, Middle};
    let seen = |seen: Duration| brief(Duration::from_secs(seen.as_secs()));
    let waiters = |lock: &LockRow| lock.waiters.as_ref().map_or_else(unknown, ToString::to_string);
    vec![
        column(locks, "LOCK", Always, |lock| lock.name.clone()),
        column(locks, "SEEN FOR", Middle, |lock| lock.seen_for.map_or_else(|| "-".into(), seen)),
        column(locks, "REMAINING", High, remaining),
        column(locks, "WAITERS", High, waiters),
        column(locks, "HOLDER", Always, holder),
    ]
}

fn remaining(lock: &LockRow) -> String {
    if lock.held != Some(true) {
        return "-".into();
    }
    let left = lock.holder.as_ref().map_or(lock.readers_remaining_ms, |held| held.remaining_ms);
    left.map_or_else(|| "no expiry".into(), |ms| brief(Duration::from_millis(ms)))
}

fn holder(lock: &LockRow) -> String {
    match (&lock.problem, &lock.holder, lock.readers) {
        // The other lines name the nodes, which have rows of their own.
        (Some(problem), ..) => format!("unknown: {}", problem.lines().next().unwrap_or_default()),
        (None, Some(held), _) => held.label.as_ref().unwrap_or(&held.id).clone(),
        (None, None, 0) => "free".into(),
        (None, None, 1) => "1 reader".into(),
        (None, None, readers) => format!("{readers} readers"),
    }
}

fn unknown() -> String {
    "?".into()
}

/// A line of titles and a line for each row. Leaves out columns until the rest fits, if it can.
fn table(mut columns: Vec<Column>, width: usize) -> Vec<String> {
    while needed(&columns) > width {
        let least = columns.iter().map(|column| column.importance).min();
        let Some(least) = least.filter(|least| *least < Importance::Always) else { break };
        let at = columns.iter().rposition(|column| column.importance == least);
        columns.remove(at.unwrap_or_default());
    }
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let line = |cell: &dyn Fn(&Column) -> String| {
        let padded = columns.iter().map(|column| {
            let text = cell(column);
            let padding = column.width().saturating_sub(text.width());
            text + &" ".repeat(padding)
        });
        padded.collect::<Vec<_>>().join(GAP)
    };
    let title = line(&|column| column.title.to_owned());
    let rows = (0..rows).map(|row| line(&|column| column.cells[row].clone()));
    std::iter::once(title).chain(rows).collect()
}

/// How wide a terminal shows these columns.
fn needed(columns: &[Column]) -> usize {
    let last = columns.len().saturating_sub(1);
    let widths = columns.iter().enumerate().map(|(i, column)| match i == last {
        true => column.width().min(LAST_COLUMN),
        false => column.width() + GAP.len(),
    });
    widths.sum()
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.width());
        cells.max().unwrap_or(0).max(self.title.width())
    }
}

/// Other programs choose names and labels: a terminal must not take a part of them for a command.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The text, or what fits of it and a mark that something is missing.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut left = width.saturating_sub(1);
    for c in text.chars() {
        let Some(rest) = left.checked_sub(c.width().unwrap_or(0)) else { break };
        left = rest;
        kept.push(c);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests;
