//! Many measurements made a few figures.

use std::time::Duration;

/// The value that so many hundredths of all are not above, by nearest rank. None of nothing.
pub(crate) fn percentile(samples: &[Duration], hundredths: usize) -> Option<Duration> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * hundredths).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Ratios of pairs that were measured side by side.
pub(crate) struct Ratios(Vec<f64>);

impl Ratios {
    /// Each of these over the one of the same round.
    pub(crate) fn new(of: &[f64], over: &[f64]) -> Self {
        let mut ratios: Vec<f64> = of.iter().zip(over).map(|(of, over)| of / over).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        Self(ratios)
    }

    pub(crate) fn median(&self) -> f64 {
        let (low, high) = (self.0.get((self.0.len().max(1) - 1) / 2), self.0.get(self.0.len() / 2));
        low.zip(high).map_or(f64::NAN, |(low, high)| f64::midpoint(*low, *high))
    }

    /// How far a ratio lies from 1, at most: of a pair of equals, what is mere chance.
    pub(crate) fn spread(&self) -> f64 {
        self.0.iter().map(|ratio| (ratio - 1.0).abs()).fold(0.0, f64::max)
    }

    /// Least and greatest.
    pub(crate) fn range(&self) -> (f64, f64) {
        let of = |ratio: Option<&f64>| ratio.copied().unwrap_or(f64::NAN);
        (of(self.0.first()), of(self.0.last()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let samples: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&samples, 50), Some(Duration::from_millis(100)));
        assert_eq!(percentile(&samples, 99), Some(Duration::from_millis(198)));
        assert_eq!(percentile(&samples, 100), Some(Duration::from_millis(200)));
        assert_eq!(percentile(&samples[..1], 1), Some(Duration::from_millis(200)));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn ratios_are_of_the_same_round_and_their_spread_counts_both_ways() {
        let ratios = Ratios::new(&[8.0, 9.0, 30.0], &[10.0, 10.0, 20.0]);
        assert!((ratios.median() - 0.9).abs() < 1e-9);
        assert!((ratios.spread() - 0.5).abs() < 1e-9);
        let even = Ratios::new(&[8.0, 10.0], &[10.0, 10.0]);
        assert!((even.median() - 0.9).abs() < 1e-9);
        assert!((even.spread() - 0.2).abs() < 1e-9);
        assert!(Ratios::new(&[], &[]).median().is_nan());
    }
}
