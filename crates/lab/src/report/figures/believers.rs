//! Which client believed to hold which lock when: a panel for each mode, a lane for each lock. A
//! client that believes beside another one has a bar of its own, in the colour of violations.

use std::time::Duration;

use maud::{Markup, html};

use super::super::words::time;
use crate::svg::{Entry, Figure, clean, key, linear, n, short};

/// One mode.
#[derive(Debug)]
pub(in crate::report) struct Panel {
    /// The mode in words.
    pub(in crate::report) heading: String,
    /// The end of the history.
    pub(in crate::report) length: Duration,
    /// The lasting faults, and what they were.
    pub(in crate::report) faults: Vec<(Duration, Duration, String)>,
    /// The locks.
    pub(in crate::report) lanes: Vec<LockLane>,
}

/// One lock.
#[derive(Debug)]
pub(in crate::report) struct LockLane {
    /// Its name.
    pub(in crate::report) name: String,
    /// The beliefs, in the order of the grants.
    pub(in crate::report) bars: Vec<Bar>,
}

/// The belief of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::report) struct Bar {
    /// The client.
    pub(in crate::report) who: String,
    /// The start.
    pub(in crate::report) from: Duration,
    /// The end.
    pub(in crate::report) until: Duration,
    /// Whether another client believed already.
    pub(in crate::report) beside: bool,
}

const COLUMNS: usize = 2;
const WIDTH: f64 = 480.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 14.0;
const HEAD: f64 = 44.0;
const LANE: f64 = 20.0;
const BAR: f64 = 8.0;
const FOOT: f64 = 28.0;

/// Draws the panels, two in a row.
pub(in crate::report) fn believers(
    id: String,
    title: String,
    desc: String,
    panels: &[Panel],
) -> Figure {
    let lanes = panels.iter().map(|panel| panel.lanes.len()).max().unwrap_or_default().max(1);
    let height = HEAD + LANE * lanes as f64 + FOOT;
    let rows = panels.len().div_ceil(COLUMNS).max(1) as f64;
    let width = WIDTH * panels.len().clamp(1, COLUMNS) as f64;
    let (key, key_height) = key(&signs(panels), LEFT, height * rows, width - LEFT);
    let body = html! {
        @for (index, panel) in panels.iter().enumerate() {
            @let (x, y) = ((index % COLUMNS) as f64 * WIDTH, (index / COLUMNS) as f64 * height);
            g transform={ "translate(" (n(x)) " " (n(y)) ")" } { (draw(panel)) }
        }
        (key)
    };
    Figure { id, title, desc, width, height: height * rows + key_height + 4.0, body }
}

fn draw(panel: &Panel) -> Markup {
    let bottom = HEAD + LANE * panel.lanes.len().max(1) as f64;
    let length = panel.length.as_secs_f64().max(1e-9);
    let at = |time: Duration| {
        LEFT + (time.as_secs_f64() / length).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    };
    let marks = linear(Duration::ZERO, panel.length);
    // Every second label has room in a narrow panel.
    let labelled = marks.iter().step_by(marks.len().div_ceil(5).max(1));
    html! {
        text.strong x=(n(LEFT)) y="14" { (short(&panel.heading, 60)) }
        @for mark in &marks {
            line.grid x1=(n(at(*mark))) x2=(n(at(*mark))) y1=(n(HEAD)) y2=(n(bottom)) {}
        }
        @for mark in labelled {
            text.minor.middle x=(n(at(*mark))) y=(n(bottom + 16.0)) { (time(*mark)) }
        }
        @for (from, until, words) in &panel.faults {
            @let (x, end) = (at(*from), at(*until));
            rect.fault x=(n(x)) y=(n(HEAD)) width=(n((end - x).max(1.0))) height=(n(bottom - HEAD)) {}
            path.fault-line d={ "M" (n(x)) " " (n(HEAD)) "H" (n(end)) } {}
            text.minor x=(n(x)) y=(n(HEAD - 6.0)) { (short(words, 30)) }
        }
        @for (index, lane) in panel.lanes.iter().enumerate() {
            (draw_lane(lane, at, HEAD + LANE * index as f64))
        }
        line.axis x1=(n(LEFT)) x2=(n(WIDTH - RIGHT)) y1=(n(bottom)) y2=(n(bottom)) {}
    }
}

fn draw_lane(lane: &LockLane, at: impl Fn(Duration) -> f64, y: f64) -> Markup {
    html! {
        text.end.minor x=(n(LEFT - 8.0)) y=(n(y + 10.0)) { (short(&lane.name, 7)) }
        @for bar in &lane.bars {
            @let (x, end) = (at(bar.from), at(bar.until));
            @let top = if bar.beside { y + 1.0 + BAR } else { y + 1.0 };
            g {
                title { (clean(&bar.who)) ": " (time(bar.from)) " to " (time(bar.until)) }
                @if bar.beside {
                    rect.clash-shade x=(n(x)) y=(n(y)) width=(n((end - x).max(1.5))) height=(n(LANE - 1.0)) {}
                }
                rect.(if bar.beside { "clash" } else { "held" })
                    x=(n(x)) y=(n(top)) width=(n((end - x).max(1.0))) height=(n(BAR)) rx="1" {}
            }
        }
    }
}

fn signs(panels: &[Panel]) -> Vec<Entry<'static>> {
    let bar = |class: &str| html! { rect.(class) x="-9" y="-4" width="18" height="8" rx="1" {} };
    let mut signs = vec![(bar("held"), "a client believes that it holds the lock")];
    if panels.iter().flat_map(|panel| &panel.lanes).flat_map(|lane| &lane.bars).any(|b| b.beside) {
        signs.push((bar("clash"), "another client believes the same: VIOLATION"));
    }
    signs.push((html! { (bar("fault")) path.fault-line d="M-9-4h18" {} }, "fault"));
    signs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::assert_well_formed;

    fn panel(bars: &[(u64, u64, bool)]) -> Panel {
        let ms = Duration::from_millis;
        let bar = |(from, until, beside): &(u64, u64, bool)| Bar {
            who: "a<b>".to_owned(),
            from: ms(*from),
            until: ms(*until),
            beside: *beside,
        };
        Panel {
            heading: "one server".to_owned(),
            length: ms(2_000),
            faults: vec![(ms(700), ms(1_000), "dead".to_owned())],
            lanes: vec![LockLane { name: "x/0".into(), bars: bars.iter().map(bar).collect() }],
        }
    }

    #[test]
    fn only_who_believes_beside_another_is_a_violation() {
        let bad = panel(&[(0, 900, false), (800, 1_000, true)]);
        let good = panel(&[(0, 900, false), (900, 1_000, false)]);
        let drawn = |panels: &[Panel]| {
            let figure = believers("b".into(), "t".into(), "d".into(), panels);
            assert_well_formed(&figure);
            figure.inline().into_string()
        };
        let both = drawn(&[bad, good]);
        assert_eq!(both.matches("\"held\"").count(), 4, "three bars and the key: {both}");
        assert_eq!(both.matches("\"clash\"").count(), 2, "one bar and the key: {both}");
        assert!(both.contains("VIOLATION") && both.contains("a&lt;b&gt;"), "{both}");
        assert!(!drawn(&[panel(&[(0, 900, false)])]).contains("VIOLATION"));
        drawn(&[]);
    }
}
