use std::time::Duration;

use maud::{Markup, html};

use super::figure::n;

/// The marks of a linear time axis, at round times: four to nine, unless the axis has no length.
#[must_use]
pub fn linear(from: Duration, until: Duration) -> Vec<Duration> {
    let marks = round(from.as_nanos(), until.as_nanos());
    marks.map(|at| Duration::from_nanos(u64::try_from(at).unwrap_or(u64::MAX))).collect()
}

/// The marks of an axis of counts from 0 on, at round numbers.
#[must_use]
pub fn counts(until: u32) -> Vec<f64> {
    round(0, until.into()).map(|count| count as f64).collect()
}

fn round(from: u128, until: u128) -> impl Iterator<Item = u128> {
    let length = until.saturating_sub(from);
    let power = 10u128.pow(length.max(10).ilog10() - 1);
    let steps = [1, 2, 5, 10, 20].map(|by| by * power);
    let step = steps.into_iter().find(|step| length / step <= 8).unwrap_or(power);
    let first = from.div_ceil(step) * step;
    (first..=until).step_by(usize::try_from(step).unwrap_or(usize::MAX))
}

/// A logarithmic axis: 0 at its low end, 1 at its high end.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    low: f64,
    high: f64,
}

impl Log {
    /// The whole decades that contain all positive values; 0.001 to 1 if there are none.
    #[must_use]
    pub fn decades(values: impl Iterator<Item = f64>) -> Self {
        let exact = Self::exact(values);
        let low = exact.low.floor();
        Self { low, high: exact.high.ceil().max(low + 1.0) }
    }

    /// From the least positive value to the largest; 0.001 to 1 if there are none.
    #[must_use]
    pub fn exact(values: impl Iterator<Item = f64>) -> Self {
        let fit = values.filter(|value| value.is_finite() && *value > 0.0).map(f64::log10);
        let ends = fit.fold(None, |ends, value| {
            let (low, high) = ends.unwrap_or((value, value));
            Some((value.min(low), value.max(high)))
        });
        let (low, high) = ends.unwrap_or((-3.0, 0.0));
        Self { low, high }
    }

    /// The same axis, longer at each end by this share of its length.
    #[must_use]
    pub fn longer(self, share: f64) -> Self {
        let more = share * (self.high - self.low).max(0.5);
        Self { low: self.low - more, high: self.high + more }
    }

    /// The place of a value.
    #[must_use]
    pub fn at(self, value: f64) -> f64 {
        // An axis of one value has no length.
        if value <= 0.0 || self.high <= self.low {
            return 0.0;
        }
        ((value.log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Each decade; on a short axis also 2 and 5 times each decade.
    pub fn marks(self) -> impl Iterator<Item = f64> {
        let short = self.high - self.low < 1.6;
        self.multiples(if short { &[1.0, 2.0, 5.0] } else { &[1.0] })
    }

    /// These multiples of all decades, as far as they are on the axis.
    fn multiples(self, by: &[f64]) -> impl Iterator<Item = f64> {
        let decades = (self.low.floor() as i32..=self.high.ceil() as i32).map(|n| 10f64.powi(n));
        let all = decades.flat_map(move |decade| by.iter().map(move |by| by * decade));
        // The ends are on the axis, in spite of rounding.
        let ends = self.low - 1e-9..=self.high + 1e-9;
        all.filter(move |value| ends.contains(&value.log10()))
    }

    /// A horizontal axis: a line for each mark, its label below, and small marks between them.
    #[must_use]
    pub fn across(self, place: Place, label: impl Fn(f64) -> String) -> Markup {
        let Place { left, top, width, height } = place;
        let (at, bottom) = (|value| left + self.at(value) * width, top + height);
        html! {
            @for value in self.marks() {
                @let x = at(value);
                line.grid x1=(n(x)) x2=(n(x)) y1=(n(top)) y2=(n(bottom)) {}
                text.minor.middle x=(n(x)) y=(n(bottom + 16.0)) { (label(value)) }
            }
            @for value in self.multiples(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]) {
                @let x = at(value);
                line.grid x1=(n(x)) x2=(n(x)) y1=(n(bottom)) y2=(n(bottom + 4.0)) {}
            }
        }
    }

    /// A vertical axis: a line for each mark, its label to the left.
    #[must_use]
    pub fn up(self, place: Place, label: impl Fn(f64) -> String) -> Markup {
        let Place { left, top, width, height } = place;
        html! {
            @for value in self.marks() {
                @let y = top + (1.0 - self.at(value)) * height;
                line.grid x1=(n(left)) x2=(n(left + width)) y1=(n(y)) y2=(n(y)) {}
                text.minor.end x=(n(left - 8.0)) y=(n(y + 4.0)) { (label(value)) }
            }
        }
    }
}

/// Where the curves or bars of a figure are drawn.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The left end.
    pub left: f64,
    /// The upper end.
    pub top: f64,
    /// The width.
    pub width: f64,
    /// The height.
    pub height: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_marks_are_round_and_neither_few_nor_many() {
        for (from, until) in
            [(0, 10), (0, 1_000), (3, 17), (120, 9_876), (0, 1), (999, 1_001), (0, 37)]
        {
            let (from, until) = (Duration::from_millis(from), Duration::from_millis(until));
            let marks = linear(from, until);
            assert!((4..=9).contains(&marks.len()), "{from:?} to {until:?}: {marks:?}");
            assert!(marks.iter().all(|mark| (from..=until).contains(mark)), "{marks:?}");
        }
        let ms = |ms| Duration::from_millis(ms);
        assert_eq!(linear(ms(0), ms(10)), [0, 2, 4, 6, 8, 10].map(ms));
        assert_eq!(counts(1), [0.0, 1.0]);
        assert_eq!(counts(70), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0]);
    }

    #[test]
    fn no_length_is_no_loop_without_an_end() {
        assert_eq!(linear(Duration::ZERO, Duration::ZERO).len(), 1);
        assert!(linear(Duration::from_secs(5), Duration::ZERO).is_empty());
    }

    #[test]
    fn decades_hold_all_values() {
        let log = Log::decades([0.000_3, 0.7, 0.0, f64::NAN].into_iter());
        assert_eq!(log.marks().count(), 5, "0.0001 to 1");
        assert!(log.at(0.000_3) > 0.0 && log.at(0.7) < 1.0 && log.at(0.0) == 0.0);
        assert!((log.at(0.01) - 0.5).abs() < 1e-9);
        assert!(Log::decades([1.0].into_iter()).at(1.0).is_finite(), "one value, at a decade");
        assert!(Log::decades(std::iter::empty()).at(1.0).is_finite());
    }

    #[test]
    fn an_exact_axis_ends_at_its_values() {
        let log = Log::exact([4.0, 1_024.0, 64.0].into_iter());
        assert!(log.at(4.0) == 0.0 && (log.at(64.0) - 0.5).abs() < 1e-9 && log.at(1_024.0) == 1.0);
        assert_eq!(log.marks().collect::<Vec<_>>(), [10.0, 100.0, 1_000.0]);
        let short = Log::exact([2.0, 30.0].into_iter());
        assert_eq!(short.marks().collect::<Vec<_>>(), [2.0, 5.0, 10.0, 20.0]);
        let longer = log.longer(0.25);
        let [low, middle, high] = [4.0, 64.0, 1_024.0].map(|value| 6.0 * longer.at(value));
        assert!((low - 1.0).abs() < 1e-9 && (middle - 3.0).abs() < 1e-9, "{low} {middle}");
        assert!((high - 5.0).abs() < 1e-9, "{high}");
        let one = Log::exact([7.0].into_iter());
        assert!(one.at(7.0) == 0.0 && (one.longer(0.1).at(7.0) - 0.5).abs() < 1e-9);
    }
}
