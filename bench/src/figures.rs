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

/// A count to reckon with.
#[expect(clippy::cast_precision_loss, reason = "nothing is counted up to 2^53")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

/// The one in the middle; of an even number the mean of the two. NaN of nothing.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (sorted.get((sorted.len().max(1) - 1) / 2), sorted.get(sorted.len() / 2));
    low.zip(high).map_or(f64::NAN, |(low, high)| f64::midpoint(*low, *high))
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
        median(&self.0)
    }

    /// All of them, from the least.
    pub(crate) fn all(&self) -> &[f64] {
        &self.0
    }

    /// Between which of them the true median lies with 95 % or more, whatever their distribution is: that so many of them lie on one
    /// side of it is as likely as with so many tosses of a coin (Hahn and Meeker, *Statistical Intervals*, section 5.3).
    pub(crate) fn of_the_median(&self) -> (f64, f64) {
        let count = self.0.len();
        let tosses = u32::try_from(count).unwrap_or(u32::MAX);
        let (mut likely, mut below, mut outside) = (0.5_f64.powf(tosses.into()), 0.0, 0);
        while outside < tosses / 2 {
            below += likely;
            if 2.0 * below > 0.05 {
                break;
            }
            outside += 1;
            likely *= f64::from(tosses - outside + 1) / f64::from(outside);
        }
        let of = |at: usize| self.0.get(at).copied().unwrap_or(f64::NAN);
        let outside = usize::try_from(outside.max(1)).unwrap_or(count);
        (of(outside - 1), of(count.saturating_sub(outside)))
    }

    /// Of a pair of equals: how far their ratio may seem to lie from 1 by mere chance.
    pub(crate) fn chance(&self) -> f64 {
        let (low, high) = self.of_the_median();
        (low - 1.0).abs().max((high - 1.0).abs())
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
    fn ratios_are_of_the_same_round_and_chance_counts_both_ways() {
        let ratios = Ratios::new(&[8.0, 9.0, 30.0], &[10.0, 10.0, 20.0]);
        assert!((ratios.median() - 0.9).abs() < 1e-9);
        assert!((ratios.chance() - 0.5).abs() < 1e-9);
        let even = Ratios::new(&[8.0, 10.0], &[10.0, 10.0]);
        assert!((even.median() - 0.9).abs() < 1e-9);
        assert!((even.chance() - 0.2).abs() < 1e-9);
        let none = Ratios::new(&[], &[]);
        assert!(none.median().is_nan() && none.chance().is_nan());
    }

    /// By the table of the sign test: of 7 all, of 9 all but one on each side, of 15 all but three, of 100 from the 40th to the 61st.
    #[test]
    fn a_median_lies_between_the_ranks_of_the_table() {
        for (count, low, high) in [(7_u8, 1.0, 7.0), (9, 2.0, 8.0), (15, 4.0, 12.0), (100, 40.0, 61.0)] {
            let numbers: Vec<f64> = (1..=count).map(f64::from).collect();
            let ones = vec![1.0; count.into()];
            assert_eq!(Ratios::new(&numbers, &ones).of_the_median(), (low, high), "{count}");
        }
    }
}
