use std::time::Duration;

/// Measured times, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quantiles(Vec<Duration>);

impl Quantiles {
    /// Sorts the measured times.
    #[must_use]
    pub fn of(mut measured: Vec<Duration>) -> Self {
        measured.sort_unstable();
        Self(measured)
    }

    /// The number of measured times.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest measured time that at least `percent` % of all do not exceed (nearest rank, so
    /// always a measured one). `None` if nothing was measured.
    #[must_use]
    pub fn percent(&self, percent: usize) -> Option<Duration> {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.max(1) - 1).copied()
    }

    /// The longest measured time.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        self.0.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::ms;
    use super::*;

    #[test]
    fn nearest_rank() {
        let hundred = Quantiles::of((1..=100).rev().map(ms).collect());
        assert_eq!(hundred.percent(50), Some(ms(50)));
        assert_eq!(hundred.percent(99), Some(ms(99)));
        assert_eq!(hundred.percent(0), Some(ms(1)));
        assert_eq!((hundred.percent(100), hundred.max()), (Some(ms(100)), Some(ms(100))));
        let three = Quantiles::of(vec![ms(3), ms(1), ms(2)]);
        assert_eq!((three.percent(50), three.percent(99)), (Some(ms(2)), Some(ms(3))));
        assert_eq!(three.count(), 3);
    }

    #[test]
    fn nothing_measured_has_no_quantile() {
        assert_eq!(Quantiles::of(Vec::new()).percent(50), None);
        assert_eq!(Quantiles::default().max(), None);
    }
}
