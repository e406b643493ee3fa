//! What was measured, in a few numbers.

use serde::Serialize;

/// How some durations are spread, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Figures {
    /// How many there are.
    pub count: usize,
    /// Half of them are at most this.
    pub p50_ms: f64,
    /// Of a hundred, ninety-nine are at most this.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Figures {
    /// Of durations in nanoseconds; below zero: early.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds for people")]
    pub(super) fn of(mut nanos: Vec<i64>) -> Self {
        nanos.sort_unstable();
        let Some(last) = nanos.len().checked_sub(1) else { return Self::default() };
        let at = |percent: usize| nanos[(last * percent).div_ceil(100)] as f64 / 1e6;
        Self { count: nanos.len(), p50_ms: at(50), p99_ms: at(99), max_ms: at(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_the_sorted_durations() {
        let figures = Figures::of((1..=200).rev().map(|ms| ms * 1_000_000).collect());
        assert_eq!(
            (figures.count, figures.p50_ms, figures.p99_ms, figures.max_ms),
            (200, 101.0, 199.0, 200.0)
        );
        assert_eq!(Figures::of(Vec::new()), Figures::default());
    }
}
