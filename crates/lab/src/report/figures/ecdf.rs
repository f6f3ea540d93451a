//! Empirical distribution functions over a logarithmic time: the share of times that are not
//! longer.

use maud::{Markup, html};

use super::super::histogram::Histogram;
use super::super::words::{count, seconds, time};
use crate::svg::{Figure, Log, Place, curve, n, short};

/// One distribution.
#[derive(Debug)]
pub(in crate::report) struct Curve {
    /// The label of the curve.
    pub(in crate::report) name: String,
    /// The measured times.
    pub(in crate::report) bins: Histogram,
}

const LEFT: f64 = 64.0;
const TOP: f64 = 12.0;
const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 290.0;
const KEY: f64 = LEFT + WIDTH + 24.0;
const PLACE: Place = Place { left: LEFT, top: TOP, width: WIDTH, height: HEIGHT };

/// Draws the curves that have data.
pub(in crate::report) fn ecdf(
    id: String,
    title: String,
    desc: String,
    x_name: &str,
    curves: &[Curve],
) -> Figure {
    let curves: Vec<_> = curves.iter().filter(|curve| curve.bins.count() > 0).collect();
    let ends = curves.iter().flat_map(|curve| [curve.bins.min(), curve.bins.max()]).flatten();
    let scale = Log::decades(ends.map(|time| time.as_secs_f64()));
    let height = (TOP + HEIGHT + 44.0).max(TOP + 26.0 + 34.0 * curves.len() as f64);
    let body = html! {
        (background(scale, x_name))
        @for (index, curve) in curves.iter().enumerate() { (draw(index, curve, scale)) }
        @if curves.is_empty() {
            text.middle.minor x=(n(LEFT + WIDTH / 2.0)) y=(n(TOP + HEIGHT / 2.0)) { "nothing was measured" }
        }
    };
    Figure { id, title, desc, width: KEY + 300.0, height, body }
}

fn background(scale: Log, x_name: &str) -> Markup {
    let bottom = TOP + HEIGHT;
    html! {
        rect.band x=(n(LEFT)) y=(n(TOP)) width=(n(WIDTH)) height=(n(HEIGHT)) {}
        (scale.across(PLACE, seconds))
        @for share in [0.0, 0.25, 0.5, 0.75, 0.99, 1.0] {
            @let y = TOP + (1.0 - share) * HEIGHT;
            line.grid x1=(n(LEFT)) x2=(n(LEFT + WIDTH)) y1=(n(y)) y2=(n(y)) {}
            // 0.99 and 1 are too close to each other for two labels.
            @if share != 1.0 { text.minor.end x=(n(LEFT - 8.0)) y=(n(y + 4.0)) { (share) } }
        }
        path.axis d={ "M" (n(LEFT)) " " (n(TOP)) "V" (n(bottom)) "H" (n(LEFT + WIDTH)) } {}
        text.strong.middle x=(n(LEFT + WIDTH / 2.0)) y=(n(bottom + 38.0)) { (x_name) }
        text.minor transform={ "translate(16 " (n(TOP + HEIGHT / 2.0)) ") rotate(-90)" } text-anchor="middle" {
            "share that was not longer"
        }
    }
}

fn draw(index: usize, data: &Curve, scale: Log) -> Markup {
    let mut path = String::new();
    for (step, (until, share)) in data.bins.steps().enumerate() {
        let x = n(LEFT + scale.at(until.as_secs_f64()) * WIDTH);
        let y = n(TOP + (1.0 - share) * HEIGHT);
        let begin = html! { "M" (x) " " (n(TOP + HEIGHT)) };
        let step = html! { @if step == 0 { (begin) } @else { "H" (x) } "V" (y) };
        path.push_str(&step.into_string());
    }
    let to_the_right = html! { "H" (n(LEFT + WIDTH)) };
    path.push_str(&to_the_right.into_string());
    let y = TOP + 14.0 + 34.0 * index as f64;
    let sample = html! { "M" (n(KEY)) " " (n(y - 4.0)) "h30" }.into_string();
    let quantile = |percent| data.bins.percent(percent).map(time).unwrap_or_default();
    html! {
        (curve(index, &path))
        (curve(index, &sample))
        text.strong x=(n(KEY + 38.0)) y=(n(y)) { (short(&data.name, 24)) }
        text.minor x=(n(KEY + 38.0)) y=(n(y + 15.0)) {
            "n " (count(data.bins.count())) ", p50 " (quantile(50)) ", p99 " (quantile(99))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::svg::assert_well_formed;

    fn curve(name: &str, millis: &[u64]) -> Curve {
        let mut bins = Histogram::default();
        millis.iter().for_each(|ms| bins.add(Duration::from_millis(*ms)));
        Curve { name: name.to_owned(), bins }
    }

    fn drawn(curves: &[Curve]) -> String {
        let figure = ecdf("e".into(), "t".into(), "d".into(), "handover", curves);
        assert_well_formed(&figure);
        figure.inline().into_string()
    }

    #[test]
    fn a_curve_rises_to_the_top_and_stays() {
        let svg = drawn(&[curve("S", &[1, 10, 100, 1_000])]);
        let (_, path) = svg.split_once(r#"class="curve c0" d=""#).unwrap();
        let (path, _) = path.split_once('"').unwrap();
        assert_eq!(path.matches('V').count(), 4, "a step for each: {path}");
        assert!(path.starts_with("M64") && path.ends_with("V12H604"), "{path}");
        assert!(svg.contains("n 4, p50 10"), "{svg}");
    }

    #[test]
    fn each_has_its_line_and_those_without_a_measurement_have_none() {
        let svg = drawn(&[curve("S", &[1]), curve("R", &[]), curve("Q<5>", &[2, 3])]);
        assert_eq!(svg.matches("class=\"curve").count(), 4, "two curves and two samples");
        assert!(svg.contains("Q&lt;5&gt;") && !svg.contains(">R<"), "{svg}");
        assert!(drawn(&[]).contains("nothing was measured"));
    }
}
