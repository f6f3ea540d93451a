use std::time::Duration;

/// Measured times in bounded memory. Each time is counted in one of 100 bins per decade, so a
/// quantile is at most 2.4 % too long, which is less than a figure can show.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram {
    /// Counts by bin; the first is for a nanosecond and less.
    counts: Vec<u64>,
    count: u64,
    least: Option<Duration>,
    longest: Option<Duration>,
}

const PER_DECADE: f64 = 100.0;

impl Histogram {
    /// Counts one time.
    pub(super) fn add(&mut self, time: Duration) {
        let bin = ((time.as_nanos().max(1) as f64).log10() * PER_DECADE).ceil() as usize;
        if self.counts.len() <= bin {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += 1;
        self.count += 1;
        self.least = Some(self.least.map_or(time, |least| least.min(time)));
        self.longest = self.longest.max(Some(time));
    }

    /// Adds the counts of another histogram.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.count += other.count;
        self.least = self.least.into_iter().chain(other.least).min();
        self.longest = self.longest.max(other.longest);
    }

    /// The number of times counted.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The shortest, exactly.
    pub(super) fn min(&self) -> Option<Duration> {
        self.least
    }

    /// The longest, exactly.
    pub(super) fn max(&self) -> Option<Duration> {
        self.longest
    }

    /// The time that `percent` % of all do not exceed, by nearest rank.
    pub(super) fn percent(&self, percent: u64) -> Option<Duration> {
        let rank = (self.count * percent).div_ceil(100).max(1) as f64;
        self.steps().find(|(_, share)| share * self.count as f64 > rank - 0.5).map(|(time, _)| time)
    }

    /// The steps of the distribution: a time, and the share of all times that do not exceed it.
    pub(super) fn steps(&self) -> impl Iterator<Item = (Duration, f64)> {
        let mut seen = 0;
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(bin, count)| {
            seen += count;
            let nanos = if bin == 0 { 0.0 } else { 10f64.powf(bin as f64 / PER_DECADE) };
            let end = Duration::from_nanos(nanos.round() as u64);
            let end = end.min(self.longest.unwrap_or(end)).max(self.least.unwrap_or(end));
            (end, seen as f64 / self.count as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(millis: impl IntoIterator<Item = u64>) -> Histogram {
        let mut bins = Histogram::default();
        millis.into_iter().for_each(|ms| bins.add(Duration::from_millis(ms)));
        bins
    }

    #[test]
    fn quantiles_are_right_within_a_bin() {
        let bins = of(1..=1_000);
        for (percent, exact) in [(1, 10.0), (50, 500.0), (99, 990.0)] {
            let found = bins.percent(percent).unwrap().as_secs_f64() * 1e3;
            assert!((exact..exact * 1.024).contains(&found), "{percent} %: {found}");
        }
        assert_eq!(bins.percent(100), Some(Duration::from_secs(1)));
        assert_eq!((bins.count(), bins.min()), (1_000, Some(Duration::from_millis(1))));
    }

    #[test]
    fn shares_rise_to_one() {
        let bins = of([5, 5, 5, 70]);
        let steps: Vec<_> = bins.steps().collect();
        assert_eq!(steps.iter().map(|(_, share)| *share).collect::<Vec<_>>(), [0.75, 1.0]);
        assert_eq!(steps[1].0, Duration::from_millis(70));
    }

    #[test]
    fn two_together_are_as_one_of_all() {
        let mut both = of([1, 2]);
        both.merge(&of([700]));
        both.merge(&of([]));
        assert!(both.steps().eq(of([1, 2, 700]).steps()));
        assert_eq!(both.percent(100), Some(Duration::from_millis(700)));
    }

    #[test]
    fn nothing_and_no_time_at_all() {
        assert_eq!(Histogram::default().percent(50), None);
        assert_eq!(of([0, 0, 7]).percent(50), Some(Duration::ZERO));
    }

    #[test]
    fn memory_is_bounded_by_the_longest() {
        let mut bins = of([]);
        bins.add(Duration::MAX);
        assert!(bins.counts.len() < 3_000, "{}", bins.counts.len());
    }
}
