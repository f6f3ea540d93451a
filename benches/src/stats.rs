//! Medians and ranges.

use std::time::Duration;

/// The median of several rounds, with the least and the largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The middle one; of an even number the mean of both in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Range {
    /// `None` of nothing.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, min, max })
    }
}

/// In microseconds.
#[must_use]
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The largest count over the least; infinite if somebody got nothing.
#[must_use]
pub fn unfairness(counts: &[usize]) -> Option<f64> {
    let (max, min) = (counts.iter().max()?, counts.iter().min()?);
    Some(*max as f64 / *min as f64).filter(|share| !share.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let range = |values: &[f64]| Range::of(values.to_vec());
        assert_eq!(range(&[3.0, 1.0, 2.0]), Some(Range { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(range(&[4.0, 1.0]), Some(Range { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(range(&[]), None);
    }

    #[test]
    fn who_got_nothing_was_treated_infinitely_unfairly() {
        assert_eq!(unfairness(&[10, 5, 8]), Some(2.0));
        assert_eq!(unfairness(&[10, 0]), Some(f64::INFINITY));
        assert_eq!(unfairness(&[0, 0]), None);
        assert_eq!(unfairness(&[]), None);
    }
}
