//! What the figures should be.

use crate::book::{Book, Key, RAW};
use crate::stats::Range;
use crate::work::{contended, crowd, faults, held, layers, pairs, processes};

/// A bound for one figure.
#[derive(Debug, Clone)]
pub struct Target {
    /// Of what; its unit is not compared.
    pub key: Key,
    /// Whether the figure itself counts, or its ratio to this subject's.
    pub to: Option<&'static str>,
    /// How far it may go.
    pub bound: Bound,
}

/// How far a figure may go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// Less is better.
    AtMost(f64),
    /// More is better.
    AtLeast(f64),
}

/// A target beside what was measured.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The target.
    pub target: Target,
    /// The median decides.
    pub found: Range,
    /// Whether it was reached.
    pub ok: bool,
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

/// All targets of which something was measured.
#[must_use]
pub fn judge(book: &Book) -> Vec<Verdict> {
    all().into_iter().filter_map(|target| target.judge(book)).collect()
}

impl Target {
    fn judge(mut self, book: &Book) -> Option<Verdict> {
        self.key.unit = book.unit(&self.key)?;
        let values = match self.to {
            None => book.values(&self.key),
            Some(to) => book.ratios(&self.key, to),
        };
        let found = Range::of(values)?;
        let ok = self.bound.holds(found.median);
        Some(Verdict { target: self, found, ok })
    }
}

const DEFAULT: &str = "default";
const LIKE: &str = "like for like";
const BUMP: &str = "default, bump";
const LIKE_BUMP: &str = "like for like, bump";
const RSLOCK: &str = "rslock";

fn all() -> Vec<Target> {
    let mut all = free();
    for subject in [DEFAULT, LIKE] {
        all.extend(contended(subject));
        all.extend(between_processes(subject));
        all.extend(under_faults(subject));
    }
    // Bumped is on one server only: the targets are those of all.
    all.extend([BUMP, LIKE_BUMP].into_iter().flat_map(between_processes));
    all.extend(held_and_layers());
    all
}

/// P1 to P4.
fn free() -> Vec<Target> {
    use Bound::{AtLeast, AtMost};
    use pairs::{P50, RATE};
    let p50 =
        |id, subject, nodes, to, most| target(id, subject, nodes, 1, P50, Some(to), AtMost(most));
    let rate = |id, subject, nodes, tasks, to, least| {
        target(id, subject, nodes, tasks, RATE, Some(to), AtLeast(least))
    };
    vec![
        p50("P1", DEFAULT, 1, RAW, 1.0),
        p50("P1", LIKE, 1, RAW, 0.85),
        p50("P1", LIKE, 1, RSLOCK, 1.0),
        rate("P2", DEFAULT, 1, 64, RAW, 1.1),
        rate("P2", DEFAULT, 1, 1_024, RAW, 1.15),
        rate("P2", LIKE, 1, 64, RSLOCK, 1.2),
        rate("P2", LIKE, 1, 1_024, RSLOCK, 2.0),
        p50("P3", DEFAULT, 5, RAW, 1.0),
        p50("P3", LIKE, 5, RAW, 0.9),
        rate("P4", DEFAULT, 5, 64, RAW, 1.2),
        rate("P4", DEFAULT, 5, 1_024, RAW, 3.0),
        rate("P4", LIKE, 5, 64, RAW, 1.7),
        rate("P4", LIKE, 5, 1_024, RAW, 4.0),
        rate("P4", LIKE, 5, 64, RSLOCK, 2.3),
        rate("P4", LIKE, 5, 1_024, RSLOCK, 5.0),
    ]
}

/// P5.
fn contended(subject: &'static str) -> Vec<Target> {
    use contended::{COMMANDS, FAIRNESS, HANDOVER, LONGEST};
    let mut all = Vec::new();
    // The commands of an acquisition are those of every server.
    for (nodes, commands) in [(1, 0.2), (5, 1.0)] {
        let bounds = [(HANDOVER, 10.0), (COMMANDS, commands), (FAIRNESS, 1.1), (LONGEST, 2.0)];
        for tasks in [16, 64] {
            all.extend(bounds.map(|(metric, most)| {
                target("P5", subject, nodes, tasks, metric, None, Bound::AtMost(most))
            }));
        }
    }
    all
}

/// P6 and P7.
fn between_processes(subject: &'static str) -> Vec<Target> {
    use processes::{COMMANDS, FAIRNESS, HANDOVER, Scene};
    let mut all = Vec::new();
    for (nodes, round_trips, commands) in [(1, 4.0, 1.5), (5, 6.0, 20.0)] {
        for (shape, far) in [((4, 4), false), ((16, 1), false), ((16, 1), true)] {
            for (what, most) in [(HANDOVER, round_trips), (COMMANDS, commands), (FAIRNESS, 1.3)] {
                let metric = Scene { shape, far }.metric(what);
                all.push(target("P6", subject, nodes, 16, &metric, None, Bound::AtMost(most)));
            }
        }
    }
    let crowd = |metric, bound| target("P7", subject, 5, crowd::CONTENDERS, metric, None, bound);
    all.push(crowd(crowd::REQUESTS, Bound::AtMost(70.0)));
    all.push(crowd(crowd::SHARE, Bound::AtLeast(90.0)));
    all
}

/// P8.
fn under_faults(subject: &'static str) -> Vec<Target> {
    let mut all = Vec::new();
    for fault in ["stopped", "killed"] {
        for (percent, most) in [(50, 1.15), (99, 1.5)] {
            let metric = faults::metric(percent, fault);
            all.push(target("P8", subject, 5, 1, &metric, None, Bound::AtMost(most)));
        }
    }
    all
}

/// P9 and P10.
fn held_and_layers() -> Vec<Target> {
    let bounds = [(held::CALLS, 110.0), (held::MEMORY, 1_024.0), (held::CPU, 1.0)];
    let mut all = Vec::new();
    for nodes in [1, 5] {
        all.extend(bounds.map(|(metric, most)| {
            target("P9", DEFAULT, nodes, held::LOCKS, metric, None, Bound::AtMost(most))
        }));
    }
    all.push(target("P10", DEFAULT, 5, 1, layers::LAYERS, None, Bound::AtMost(15.0)));
    all
}

fn target(
    id: &str,
    subject: &str,
    nodes: usize,
    tasks: usize,
    metric: &str,
    to: Option<&'static str>,
    bound: Bound,
) -> Target {
    let key = Key {
        id: id.to_owned(),
        subject: subject.to_owned(),
        nodes,
        tasks,
        metric: metric.to_owned(),
        unit: String::new(),
    };
    Target { key, to, bound }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(book: &mut Book, subject: &str, tasks: usize, values: [f64; 3]) {
        let id = if tasks == 1 { "P1" } else { "P2" };
        let metric = if tasks == 1 { pairs::P50 } else { pairs::RATE };
        let key = target(id, subject, 1, tasks, metric, None, Bound::AtMost(0.0)).key;
        let key = Key { unit: "u".into(), ..key };
        for (round, value) in values.into_iter().enumerate() {
            book.enter(round, key.clone(), value);
        }
    }

    #[test]
    fn the_median_of_the_ratios_decides() {
        let mut book = Book::default();
        enter(&mut book, RAW, 1, [10.0, 10.0, 10.0]);
        enter(&mut book, DEFAULT, 1, [9.0, 9.9, 90.0]);
        enter(&mut book, LIKE, 1, [9.0, 9.0, 9.0]);
        let verdicts = judge(&book);
        let said: Vec<_> = verdicts.iter().map(|v| (v.found.median, v.ok)).collect();
        assert_eq!(said, [(0.99, true), (0.9, false)]);
    }

    #[test]
    fn more_is_better_where_the_target_says_so() {
        let mut book = Book::default();
        enter(&mut book, RAW, 64, [100.0, 100.0, 100.0]);
        enter(&mut book, DEFAULT, 64, [120.0, 105.0, 115.0]);
        let verdicts = judge(&book);
        assert_eq!(verdicts.len(), 1);
        assert!(verdicts[0].ok && verdicts[0].found.median == 1.15);
    }

    #[test]
    fn of_what_was_not_measured_nothing_is_said() {
        assert!(judge(&Book::default()).is_empty());
    }
}
