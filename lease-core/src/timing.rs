//! How long things may take, validated together.

use std::time::Duration;

use crate::ErrorKind;
use crate::store::StoreError;

/// The parts of a [`Timings`], to be checked together by [`Timings::new`].
///
/// The defaults are those of a service that can be without a holder for a quarter of a minute:
///
/// | part | default | meaning |
/// |---|---|---|
/// | `ttl` | 15 s | how long a claim or renewal lasts, by the database's clock; whole milliseconds |
/// | `renew` | 2 s | from the start of one renewal to the start of the next, failures included |
/// | `attempt` | 5 s | the longest wait for one statement, never past the deadline |
/// | `deadline` | 10 s | after the start of the last successful renewal the lease is lost |
/// | `grace` | 4.5 s | after the loss the work must have ended, or the process fails |
/// | `margin` | 0.5 s | allowance for clock rates: holder and successor cannot meet though their clocks drift 3 % apart |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimingParts {
    /// How long a claim or renewal lasts, by the database's clock. Whole milliseconds.
    pub ttl: Duration,
    /// From the start of one renewal attempt to the start of the next, by the local clock.
    pub renew: Duration,
    /// The longest wait for the answer to one statement, by the local clock.
    pub attempt: Duration,
    /// How long after the start of the last successful renewal the holder believes, by the local clock.
    pub deadline: Duration,
    /// How long the work may go on after the loss, by the local clock.
    pub grace: Duration,
    /// What is left between the end of the grace and the end of the ttl.
    pub margin: Duration,
}

/// Timings that keep their promise: `renew < attempt <= deadline / 2` and
/// `deadline + grace + margin <= ttl`, none of them zero.
///
/// ```
/// use std::time::Duration;
/// use lease_core::{TimingParts, Timings};
///
/// // Everything scaled to a shorter ttl: a crash is noticed in 3 s, a renewal goes out every 0.4 s.
/// let quick = Timings::from_ttl(Duration::from_secs(3))?;
/// assert_eq!(quick.renew(), Duration::from_millis(400));
///
/// // One part changed, all checked together.
/// let patient = Timings::new(TimingParts { ttl: Duration::from_secs(60), ..quick.parts() })?;
/// # Ok::<(), lease_core::InvalidTimings>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timings(TimingParts);

/// The longest ttl: a year. A lease abandoned with a longer one could only be freed by hand.
pub const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The least margin: a database clock read in whole milliseconds can be early by almost one.
const MARGIN_MIN: Duration = Duration::from_millis(1);

const RETRY_INTERVAL_MAX: Duration = Duration::from_secs(10);

const DEFAULTS: TimingParts = TimingParts {
    ttl: Duration::from_secs(15),
    renew: Duration::from_secs(2),
    attempt: Duration::from_secs(5),
    deadline: Duration::from_secs(10),
    grace: Duration::from_millis(4_500),
    margin: Duration::from_millis(500),
};

impl Default for Timings {
    fn default() -> Self {
        Self(DEFAULTS)
    }
}

impl Timings {
    /// Checks the parts together.
    ///
    /// # Errors
    ///
    /// [`InvalidTimings`] says which rule is broken and by what.
    pub fn new(parts: TimingParts) -> Result<Self, InvalidTimings> {
        let TimingParts { ttl, renew, attempt, deadline, grace, margin } = parts;
        let all =
            [("ttl", ttl), ("renew", renew), ("attempt", attempt), ("deadline", deadline), ("grace", grace)];
        for (part, value) in all {
            if value.is_zero() {
                return Err(InvalidTimings(format!("{part} is zero; give it a positive duration")));
            }
        }
        if ttl > TTL_MAX {
            return Err(InvalidTimings(format!("ttl {ttl:?} is above the most, {TTL_MAX:?}")));
        }
        if ttl.subsec_nanos() % 1_000_000 != 0 {
            return Err(InvalidTimings(format!("ttl {ttl:?} is not in whole milliseconds")));
        }
        if margin < MARGIN_MIN {
            return Err(InvalidTimings(format!("margin {margin:?} is below the least, {MARGIN_MIN:?}")));
        }
        if renew >= attempt {
            return Err(InvalidTimings(format!("renew {renew:?} must be below attempt {attempt:?}")));
        }
        if attempt > deadline / 2 {
            return Err(InvalidTimings(format!(
                "attempt {attempt:?} must be at most half of deadline {deadline:?}, so that one hung attempt leaves room for another"
            )));
        }
        let used = deadline.checked_add(grace).and_then(|sum| sum.checked_add(margin));
        if used.is_none_or(|used| used > ttl) {
            return Err(InvalidTimings(format!(
                "deadline {deadline:?} + grace {grace:?} + margin {margin:?} must be at most ttl {ttl:?}, so that work ends before a successor can begin"
            )));
        }
        Ok(Self(parts))
    }

    /// The default timings scaled to another ttl, rounded down to whole milliseconds of ttl.
    ///
    /// # Errors
    ///
    /// A ttl below 30 ms (its margin would be below 1 ms) or above a year.
    pub fn from_ttl(ttl: Duration) -> Result<Self, InvalidTimings> {
        if ttl > TTL_MAX {
            return Err(InvalidTimings(format!("ttl {ttl:?} is above the most, {TTL_MAX:?}")));
        }
        let ttl = Duration::from_millis(millis(ttl).unsigned_abs());
        // Thirtieths of the ttl: all the defaults are whole multiples of half a second.
        let thirtieth = ttl / 30;
        Self::new(TimingParts {
            ttl,
            renew: thirtieth * 4,
            attempt: thirtieth * 10,
            deadline: thirtieth * 20,
            grace: thirtieth * 9,
            margin: thirtieth,
        })
        .map_err(|InvalidTimings(problem)| {
            InvalidTimings(format!("ttl {ttl:?} is too short, give at least 30ms: {problem}"))
        })
    }

    /// The parts, to change some and check again.
    pub fn parts(&self) -> TimingParts {
        self.0
    }

    /// How long a claim or renewal lasts, by the database's clock.
    pub fn ttl(&self) -> Duration {
        self.0.ttl
    }

    /// From the start of one renewal attempt to the start of the next.
    pub fn renew(&self) -> Duration {
        self.0.renew
    }

    /// The longest wait for the answer to one statement.
    pub fn attempt(&self) -> Duration {
        self.0.attempt
    }

    /// How long after the start of the last successful renewal the holder believes.
    pub fn deadline(&self) -> Duration {
        self.0.deadline
    }

    /// How long the work may go on after the loss.
    pub fn grace(&self) -> Duration {
        self.0.grace
    }

    /// What is left between the end of the grace and the end of the ttl.
    pub fn margin(&self) -> Duration {
        self.0.margin
    }

    /// The grid on which renewals are due, a twentieth of `renew`: leases due in one tick go out in one statement.
    pub fn tick(&self) -> Duration {
        self.0.renew / 20
    }

    /// How long callers that wait on the same database should leave between attempts that fail: the renew cadence, and ten seconds
    /// at most, so that a moment's failure costs who waits under a long ttl no more than that.
    pub fn retry_interval(&self) -> Duration {
        self.0.renew.min(RETRY_INTERVAL_MAX)
    }

    /// How long a candidate waits between two looks at a held name where the store hears of releases, a third of the
    /// ttl (5 s by default); up to a fifth of it more is added at random. Where it hears nothing, it is [`renew`](Self::renew).
    pub fn campaign_interval(&self) -> Duration {
        self.0.ttl / 3
    }
}

/// A duration as the milliseconds that a statement carries, rounded down and cut at the column's limit.
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The longest ttl in milliseconds that is added to a clock without overflow.
const TTL_MS_MAX: i64 = i64::MAX / 2;

/// A ttl as a statement carries it.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) below a millisecond and beyond what can be added to a clock.
pub fn ttl_ms(ttl: Duration) -> Result<i64, StoreError> {
    let ms = millis(ttl);
    if (1..=TTL_MS_MAX).contains(&ms) {
        return Ok(ms);
    }
    let message = format!("ttl {ttl:?} is not between 1 ms and {TTL_MS_MAX} ms");
    Err(StoreError::new(ErrorKind::Invalid, message).without_effect())
}

/// Timings that could not keep their promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid timings: {0}")]
pub struct InvalidTimings(String);

impl InvalidTimings {
    pub(crate) fn below(ttl: Duration, least: Duration, database: &str) -> Self {
        Self(format!("ttl {ttl:?} is below the least that {database} supports, {least:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut TimingParts)) -> String {
        let mut parts = DEFAULTS;
        change(&mut parts);
        Timings::new(parts).unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_keep_the_rules() {
        assert_eq!(Timings::new(DEFAULTS), Ok(Timings::default()));
    }

    #[test]
    fn zero_inverted_and_overflowing_parts_are_refused() {
        let zeroed: [fn(&mut TimingParts); 5] = [
            |p| p.ttl = Duration::ZERO,
            |p| p.renew = Duration::ZERO,
            |p| p.attempt = Duration::ZERO,
            |p| p.deadline = Duration::ZERO,
            |p| p.grace = Duration::ZERO,
        ];
        for change in zeroed {
            assert!(refused(change).contains("is zero"));
        }
        assert!(refused(|p| p.margin = Duration::ZERO).contains("margin"));
        assert!(refused(|p| p.renew = p.attempt).contains("below attempt"));
        assert!(refused(|p| p.attempt = p.deadline).contains("half of deadline"));
        assert!(refused(|p| p.grace += Duration::from_millis(1)).contains("at most ttl"));
        assert!(refused(|p| p.grace = Duration::MAX).contains("at most ttl"));
        assert!(refused(|p| p.deadline = Duration::MAX).contains("at most ttl"));
        assert!(refused(|p| p.ttl = Duration::MAX).contains("above the most"));
        assert!(refused(|p| p.ttl += Duration::from_micros(1)).contains("whole milliseconds"));
    }

    #[test]
    fn scaling_by_the_ttl_keeps_the_proportions() {
        assert_eq!(Timings::from_ttl(Duration::from_secs(15)), Ok(Timings::default()));
        let quick = Timings::from_ttl(Duration::from_secs(3)).unwrap();
        assert_eq!(quick.parts().deadline, Duration::from_secs(2));
        assert_eq!(quick.parts().grace, Duration::from_millis(900));
    }

    #[test]
    fn who_waits_under_a_long_ttl_tries_again_soon_after_a_failure() {
        let hour = Timings::from_ttl(Duration::from_secs(3600)).unwrap();
        assert_eq!((hour.renew(), hour.retry_interval()), (Duration::from_secs(480), RETRY_INTERVAL_MAX));
        assert_eq!(Timings::default().retry_interval(), Timings::default().renew());
    }

    #[test]
    fn every_ttl_from_the_least_to_a_year_scales() {
        for ms in (30..5_000).chain([1_000_000, 31_622_400_000]) {
            assert!(Timings::from_ttl(Duration::from_millis(ms)).is_ok(), "{ms} ms");
        }
        for ttl in
            [Duration::ZERO, Duration::from_millis(29), TTL_MAX + Duration::from_secs(1), Duration::MAX]
        {
            assert!(Timings::from_ttl(ttl).is_err(), "{ttl:?}");
        }
    }

    #[test]
    fn a_holder_and_its_successor_cannot_meet_though_clocks_drift_three_percent() {
        let timings = Timings::default();
        // The holder's clock runs slow: its deadline and grace last longer in true time.
        let ends = (timings.deadline() + timings.grace()).mul_f64(1.03);
        assert!(ends <= timings.ttl());
    }
}
