//! When each client believed to hold the lock: one lane per client, faults shaded behind the lanes.

use std::time::Duration;

use maud::{Markup, html};

use super::super::words::time;
use crate::svg::{Entry, Figure, clean, key, linear, n, short};

/// The data of the lanes. All times are offsets from the beginning of the history.
#[derive(Debug, Default)]
pub(in crate::report) struct Lanes {
    /// The start of the part that is shown.
    pub(in crate::report) from: Duration,
    /// The end of the part that is shown.
    pub(in crate::report) until: Duration,
    /// The lanes, from top to bottom.
    pub(in crate::report) lanes: Vec<Lane>,
    /// The faults: shaded, and described below the lanes by number.
    pub(in crate::report) faults: Vec<Fault>,
    /// The times in which more than one client believed.
    pub(in crate::report) clashes: Vec<(Duration, Duration)>,
    /// What the figure leaves out, in words.
    pub(in crate::report) left_out: Vec<String>,
}

/// The lane of a client.
#[derive(Debug)]
pub(in crate::report) struct Lane {
    /// The client's name.
    pub(in crate::report) name: String,
    /// The client's beliefs.
    pub(in crate::report) spans: Vec<Span>,
    /// What the client did at an instant.
    pub(in crate::report) marks: Vec<Mark>,
}

/// A time in which the client believed to hold the lock.
#[derive(Debug, Clone)]
pub(in crate::report) struct Span {
    /// The start.
    pub(in crate::report) from: Duration,
    /// The end.
    pub(in crate::report) until: Duration,
    /// How it is drawn.
    pub(in crate::report) style: Style,
    /// A text inside or beside the bar.
    pub(in crate::report) label: Option<String>,
}

/// How a belief is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Style {
    /// The normal style.
    Held,
    /// The style of the second hold of a pair.
    Second,
}

/// Something that happened at an instant.
#[derive(Debug, Clone, Copy)]
pub(in crate::report) struct Mark {
    /// The instant.
    pub(in crate::report) at: Duration,
    /// The kind.
    pub(in crate::report) kind: MarkKind,
}

/// The kinds of marks. A greater kind is drawn over a smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::report) enum MarkKind {
    /// A write was accepted.
    Write,
    /// The holder was notified of the loss, or was killed.
    Lost,
    /// A write was refused.
    Refused,
    /// A stale write was accepted.
    Stale,
}

/// A fault with a duration.
#[derive(Debug, Clone)]
pub(in crate::report) struct Fault {
    /// The start.
    pub(in crate::report) from: Duration,
    /// The end; equal to the start if the fault took no time.
    pub(in crate::report) until: Duration,
    /// What the fault was, in words.
    pub(in crate::report) words: String,
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 86.0;
const RIGHT: f64 = 20.0;
const STRIP: f64 = 22.0;
const LANE: f64 = 30.0;
const BAR: f64 = 16.0;
/// The number of faults that are shaded and described. If there are more, the figure gives their
/// number.
const FAULTS: usize = 24;
/// The number of overlaps that are shaded across all lanes.
const CLASHES: usize = 200;

/// Draws the lanes.
pub(in crate::report) fn lanes(id: String, title: String, desc: String, data: &Lanes) -> Figure {
    let scale = Scale { from: data.from, until: data.until };
    let bottom = STRIP + LANE * data.lanes.len().max(1) as f64;
    let shown = &data.faults[..data.faults.len().min(FAULTS)];
    let (key, key_height) = key(&signs(data), LEFT, bottom + 26.0, WIDTH - LEFT - RIGHT);
    let mut lines: Vec<_> =
        shown.iter().enumerate().map(|(index, fault)| Line::of(index + 1, fault)).collect();
    if data.faults.len() > FAULTS {
        let more = data.faults.len() - FAULTS;
        lines.push(Line::plain(format!("and {more} more faults, which are not drawn")));
    }
    lines.extend(data.left_out.iter().cloned().map(Line::plain));
    let top_of_lines = bottom + 26.0 + key_height + 8.0;
    let body = html! {
        (background(data, &scale, bottom))
        @for (index, fault) in shown.iter().enumerate() { (shade(index, fault, shown, &scale, bottom)) }
        @for (from, until) in data.clashes.iter().take(CLASHES) {
            (clash(*from, *until, &scale, bottom))
        }
        @for (index, lane) in data.lanes.iter().enumerate() {
            (draw(lane, &scale, STRIP + LANE * index as f64))
        }
        (key)
        @for (index, line) in lines.iter().enumerate() {
            (line.at(top_of_lines + 19.0 * index as f64 + 12.0))
        }
    };
    let height = top_of_lines + 19.0 * lines.len() as f64 + 6.0;
    Figure { id, title, desc, width: WIDTH, height, body }
}

struct Scale {
    from: Duration,
    until: Duration,
}

impl Scale {
    fn at(&self, time: Duration) -> f64 {
        let length = self.until.saturating_sub(self.from).as_secs_f64().max(1e-9);
        let share = time.saturating_sub(self.from).as_secs_f64() / length;
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn shows(&self, from: Duration, until: Duration) -> bool {
        from <= self.until && until >= self.from
    }
}

fn background(data: &Lanes, scale: &Scale, bottom: f64) -> Markup {
    let right = WIDTH - RIGHT;
    html! {
        @for (index, lane) in data.lanes.iter().enumerate() {
            @let y = STRIP + LANE * index as f64;
            @if index % 2 == 0 {
                rect.band x=(n(LEFT)) y=(n(y)) width=(n(right - LEFT)) height=(n(LANE)) {}
            }
            text.end x=(n(LEFT - 10.0)) y=(n(y + LANE / 2.0 + 4.0)) { (short(&lane.name, 11)) }
        }
        @for mark in linear(data.from, data.until) {
            @let x = scale.at(mark);
            line.grid x1=(n(x)) x2=(n(x)) y1=(n(STRIP)) y2=(n(bottom)) {}
            text.minor.middle x=(n(x)) y=(n(bottom + 16.0)) { (time(mark)) }
        }
        line.axis x1=(n(LEFT)) x2=(n(right)) y1=(n(bottom)) y2=(n(bottom)) {}
    }
}

fn shade(index: usize, fault: &Fault, all: &[Fault], scale: &Scale, bottom: f64) -> Markup {
    let (x, end) = (scale.at(fault.from), scale.at(fault.until));
    // Badges of faults that are close together are placed side by side.
    let badge =
        all[..index].iter().fold(f64::MIN, |last, before| (last + 19.0).max(scale.at(before.from)));
    let badge = if index == 0 { x } else { x.max(badge + 19.0) };
    html! {
        @if scale.shows(fault.from, fault.until) {
            g {
                title { (clean(&fault.words)) }
                rect.fault x=(n(x)) y=(n(STRIP)) width=(n((end - x).max(0.0))) height=(n(bottom - STRIP)) {}
                path.fault-line d={ "M" (n(x)) " " (n(STRIP - 3.0)) "V" (n(bottom)) } {}
                @if end - x > 1.0 {
                    path.fault-line d={ "M" (n(x)) " " (n(STRIP - 1.0)) "H" (n(end)) } {}
                }
                circle.badge cx=(n(badge.min(WIDTH - 10.0))) cy="10" r="8.5" {}
                text.badge-text x=(n(badge.min(WIDTH - 10.0))) y="13.5" { (index + 1) }
            }
        }
    }
}

fn clash(from: Duration, until: Duration, scale: &Scale, bottom: f64) -> Markup {
    let (x, end) = (scale.at(from), scale.at(until));
    html! {
            @if scale.shows(from, until) {
    rect.clash-shade x=(n(x)) y=(n(STRIP)) width=(n((end - x).max(1.5))) height=(n(bottom - STRIP)) {}
                rect.clash x=(n(x)) y=(n(bottom - 4.0)) width=(n((end - x).max(3.0))) height="4" {}
            }
        }
}

fn draw(lane: &Lane, scale: &Scale, y: f64) -> Markup {
    let bar = y + (LANE - BAR) / 2.0;
    let mut marks: Vec<_> =
        lane.marks.iter().filter(|mark| scale.shows(mark.at, mark.at)).collect();
    marks.sort_by_key(|mark| (mark.kind, mark.at));
    html! {
        @for span in lane.spans.iter().filter(|span| scale.shows(span.from, span.until)) {
            @let (x, end) = (scale.at(span.from), scale.at(span.until));
            rect.(class(span.style)) x=(n(x)) y=(n(bar)) width=(n((end - x).max(1.0))) height=(n(BAR)) rx="1.5" {}
            @if let Some(label) = &span.label {
                (label_of(label, x, end, bar))
            }
        }
        @for mark in marks { (sign(mark.kind, scale.at(mark.at), bar + BAR / 2.0)) }
    }
}

/// Placed inside the bar if it fits, otherwise to the right of it.
fn label_of(label: &str, x: f64, end: f64, bar: f64) -> Markup {
    let room = 6.5 * label.chars().count() as f64 + 10.0;
    let inside = end - x > room;
    let y = bar + BAR / 2.0 + 4.0;
    html! {
        @if inside { text.inside x=(n(x + 6.0)) y=(n(y)) { (clean(label)) } }
        @else if end + room < WIDTH { text x=(n(end + 6.0)) y=(n(y)) { (clean(label)) } }
        @else { text.end x=(n(x - 6.0)) y=(n(y)) { (clean(label)) } }
    }
}

fn class(style: Style) -> &'static str {
    match style {
        Style::Held => "held",
        Style::Second => "second",
    }
}

fn sign(kind: MarkKind, x: f64, y: f64) -> Markup {
    let at = |x: f64, y: f64| html! { (n(x)) " " (n(y)) };
    match kind {
        MarkKind::Write => {
            html! { path.write d={ "M" (at(x, y - BAR / 2.0)) "v" (n(BAR)) } {} }
        }
        MarkKind::Lost => html! {
            path.lost d={ "M" (at(x, y - 6.5)) "l6.5 6.5-6.5 6.5-6.5-6.5Z" } {}
        },
        MarkKind::Refused => html! {
            path.refused d={ "M" (at(x - 5.0, y - 5.0)) "l10 10m0-10l-10 10" } {}
        },
        MarkKind::Stale => html! {
            path.stale d={ "M" (at(x, y - 7.5)) "l7.5 13h-15Z" } {}
        },
    }
}

/// The signs that occur in the figure, with their meanings.
fn signs(data: &Lanes) -> Vec<Entry<'static>> {
    let spans = || data.lanes.iter().flat_map(|lane| &lane.spans);
    let marked =
        |kind| data.lanes.iter().flat_map(|lane| &lane.marks).any(|mark| mark.kind == kind);
    let bar = |class: &str| html! { rect.(class) x="-9" y="-6" width="18" height="12" rx="1.5" {} };
    let mut signs = Vec::new();
    let paired = spans().any(|span| span.style == Style::Second);
    if paired {
        signs.push((bar("held"), "believed first"));
        signs.push((bar("second"), "believed as well"));
    } else {
        signs.push((bar("held"), "believed to hold the lock"));
    }
    if !data.clashes.is_empty() {
        let sign = html! { (bar("clash-shade")) rect.clash x="-9" y="2" width="18" height="4" {} };
        signs.push((sign, "VIOLATION: two believed"));
    }
    if !data.faults.is_empty() {
        signs.push((html! { (bar("fault")) path.fault-line d="M-9-6v12" {} }, "fault, by number"));
    }
    for (kind, words) in [
        (MarkKind::Write, "write accepted"),
        (MarkKind::Stale, "STALE write accepted"),
        (MarkKind::Refused, "write refused"),
        (MarkKind::Lost, "holder told of loss, or killed"),
    ] {
        if marked(kind) {
            signs.push((
                html! {
                    @if kind == MarkKind::Write { (bar("held")) }
                    (sign(kind, 0.0, 0.0))
                },
                words,
            ));
        }
    }
    signs
}

/// A line of text below the lanes.
struct Line {
    badge: Option<usize>,
    words: String,
}

impl Line {
    fn of(number: usize, fault: &Fault) -> Self {
        let words = short(&fault.words, 110);
        let words = match fault.until > fault.from {
            true => format!("{} to {}: {words}", time(fault.from), time(fault.until)),
            false => format!("{}: {words}", time(fault.from)),
        };
        Self { badge: Some(number), words }
    }

    fn plain(words: String) -> Self {
        Self { badge: None, words }
    }

    fn at(&self, y: f64) -> Markup {
        html! {
            @if let Some(number) = self.badge {
                circle.badge cx=(n(LEFT + 9.0)) cy=(n(y - 4.0)) r="8" {}
                text.badge-text x=(n(LEFT + 9.0)) y=(n(y - 0.5)) { (number) }
            }
            text.minor x=(n(LEFT + 24.0)) y=(n(y)) { (clean(&self.words)) }
        }
    }
}

#[cfg(test)]
mod tests;
