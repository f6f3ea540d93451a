use std::time::Duration;

use super::super::words::time;

/// The marks of a linear time axis, at round times: four to nine, unless the axis has no length.
pub(super) fn linear(from: Duration, until: Duration) -> Vec<Duration> {
    let length = until.saturating_sub(from).as_nanos();
    let power = 10u128.pow(length.max(10).ilog10() - 1);
    let steps = [1, 2, 5, 10, 20].map(|by| by * power);
    let step = steps.into_iter().find(|step| length / step <= 8).unwrap_or(power);
    let first = from.as_nanos().div_ceil(step) * step;
    let marks = (first..=until.as_nanos()).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    marks.map(|at| Duration::from_nanos(u64::try_from(at).unwrap_or(u64::MAX))).collect()
}

/// A logarithmic axis of time: 0 at its low end, 1 at its high end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    low: i32,
    high: i32,
}

impl Log {
    /// The whole decades that contain all of these seconds; one decade of milliseconds if there are
    /// none.
    pub(super) fn of(seconds: impl Iterator<Item = f64>) -> Self {
        let fit = seconds.filter(|s| s.is_finite() && *s > 0.0);
        let (low, high) =
            fit.fold((f64::MAX, 0.0), |(low, high): (f64, f64), s| (low.min(s), high.max(s)));
        if high == 0.0 {
            return Self { low: -3, high: 0 };
        }
        let low = low.log10().floor() as i32;
        Self { low, high: (high.log10().ceil() as i32).max(low + 1) }
    }

    pub(super) fn at(self, seconds: f64) -> f64 {
        if seconds <= 0.0 {
            return 0.0;
        }
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        ((seconds.log10() - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// A mark for each decade, in seconds.
    pub(super) fn decades(self) -> impl Iterator<Item = f64> {
        (self.low..=self.high).map(|power| 10f64.powi(power))
    }

    /// The minor lines: 2 to 9 times each decade.
    pub(super) fn between(self) -> impl Iterator<Item = f64> {
        (self.low..self.high)
            .flat_map(|power| (2..10).map(move |by| f64::from(by) * 10f64.powi(power)))
    }
}

/// The label of a mark, in the unit that gives a whole number.
pub(super) fn label(seconds: f64) -> String {
    time(Duration::from_nanos((seconds * 1e9).round() as u64))
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
    }

    #[test]
    fn no_length_is_no_loop_without_an_end() {
        assert_eq!(linear(Duration::ZERO, Duration::ZERO).len(), 1);
        assert!(linear(Duration::from_secs(5), Duration::ZERO).is_empty());
    }

    #[test]
    fn decades_hold_all_values() {
        let log = Log::of([0.000_3, 0.7, 0.0, f64::NAN].into_iter());
        assert_eq!(log.decades().count(), 5, "0.1 ms to 1 s");
        assert!(log.at(0.000_3) > 0.0 && log.at(0.7) < 1.0 && log.at(0.0) == 0.0);
        assert!((log.at(0.01) - 0.5).abs() < 1e-9);
        assert!(Log::of([1.0].into_iter()).at(1.0).is_finite(), "one value, at a decade");
        assert!(Log::of(std::iter::empty()).at(1.0).is_finite());
    }

    #[test]
    fn decades_are_labelled_with_the_unit_that_fits() {
        let labels = [1e-6, 1e-5, 1e-4, 1e-3, 1.0, 10.0].map(|s| label(s).replace('\u{a0}', " "));
        assert_eq!(labels, ["1 µs", "10 µs", "0.1 ms", "1 ms", "1 s", "10 s"]);
    }
}
