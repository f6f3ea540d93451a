/// An observed share with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proportion {
    /// The observed share: hits divided by trials; 0 without trials.
    pub seen: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The Wilson score interval at 95 %. Unlike `p +- 1.96 s` it stays within 0 and 1, and it is
/// meaningful for few trials and for 0 % or 100 % hits. Without trials it is 0 to 1.
///
/// # Panics
///
/// If there are more hits than trials.
#[must_use]
pub fn wilson(hits: u64, trials: u64) -> Proportion {
    assert!(hits <= trials, "{hits} hits in {trials} trials");
    if trials == 0 {
        return Proportion { seen: 0.0, low: 0.0, high: 1.0 };
    }
    let (n, seen) = (trials as f64, hits as f64 / trials as f64);
    let square = Z * Z / n;
    let middle = (seen + square / 2.0) / (1.0 + square);
    let half = Z / (1.0 + square) * (seen * (1.0 - seen) / n + square / (4.0 * n)).sqrt();
    // For 0 % and 100 % hits the end is exact; rounding must not move it beyond.
    let low = if hits == 0 { 0.0 } else { (middle - half).max(0.0) };
    let high = if hits == trials { 1.0 } else { (middle + half).min(1.0) };
    Proportion { seen, low, high }
}

/// The upper end, at 95 %, of the probability of an event never seen in `trials` independent
/// trials: the rule of three, `3 / trials`. `None` without trials.
#[must_use]
pub fn rule_of_three(trials: u64) -> Option<f64> {
    (trials > 0).then(|| (3.0 / trials as f64).min(1.0))
}

/// The quantile of the normal distribution that leaves 2.5 % on each side.
const Z: f64 = 1.959_963_984_540_054;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_interval(hits: u64, trials: u64, low: f64, high: f64) {
        let found = wilson(hits, trials);
        assert!((found.low - low).abs() < 1e-4 && (found.high - high).abs() < 1e-4, "{found:?}");
        assert!(found.low <= found.seen && found.seen <= found.high, "{found:?}");
    }

    #[test]
    fn known_intervals() {
        // Newcombe 1998, table I, method 3.
        assert_interval(81, 263, 0.2553, 0.3662);
        assert_interval(15, 148, 0.0624, 0.1605);
        assert_interval(0, 20, 0.0, 0.1611);
        assert_interval(1, 29, 0.0061, 0.1718);
        assert_interval(29, 29, 0.8830, 1.0);
    }

    #[test]
    fn nothing_tried_says_nothing() {
        assert_interval(0, 0, 0.0, 1.0);
        assert_eq!(rule_of_three(0), None);
    }

    #[test]
    #[should_panic(expected = "3 hits in 2 trials")]
    fn more_hits_than_trials_are_a_bug() {
        let _ = wilson(3, 2);
    }

    #[test]
    fn three_in_so_many() {
        assert_eq!(rule_of_three(300), Some(0.01));
        assert_eq!(rule_of_three(1), Some(1.0), "a probability");
        // The rule approximates the solution of (1 - p)^n = 5 %.
        let bound = rule_of_three(1_000).unwrap();
        assert!(((1.0 - bound).powi(1_000) - 0.05).abs() < 0.001, "{bound}");
    }
}
