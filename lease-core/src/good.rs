//! When the last successful renewal of a lease was sent.

use std::time::Duration;

use crate::Moment;
use crate::sync::atomic::{AtomicU64, Ordering};

/// That moment, and whether somebody has seen the deadline that follows from it pass: in one word, so that of a renewal
/// that lands at the deadline and a look that finds it passed only one counts. A lease that was seen lost would come back
/// for a moment otherwise.
pub(crate) struct Good(AtomicU64);

/// The lowest bit. The others are nanoseconds on the clock, enough for 292 years.
const SEEN_PASSED: u64 = 1;

impl Good {
    pub(crate) fn new(started: Moment) -> Self {
        Self(AtomicU64::new(word(started)))
    }

    pub(crate) fn started(&self) -> Moment {
        moment(self.0.load(Ordering::Acquire))
    }

    /// Whether the deadline, this long after the moment, has not passed at `now`. Never again once it had.
    pub(crate) fn lasts(&self, deadline: Duration, now: Moment) -> bool {
        let mark = |word| {
            let lasts = word & SEEN_PASSED == 0 && now < moment(word) + deadline;
            (!lasts).then_some(word | SEEN_PASSED)
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, mark).is_err()
    }

    /// A renewal begun at `started` counts, unless somebody has seen the deadline pass. Answers whether it does.
    pub(crate) fn renewed(&self, started: Moment) -> bool {
        let count = |present| (present & SEEN_PASSED == 0).then_some(word(started).max(present));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, count).is_ok()
    }

    /// The same, whoever has seen what: of a lease that stays lost.
    pub(crate) fn kept(&self, started: Moment) {
        let keep = |present| Some(word(started).max(present & !SEEN_PASSED) | present & SEEN_PASSED);
        // It always is kept.
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, keep);
    }
}

fn word(moment: Moment) -> u64 {
    u64::try_from(moment.since_zero().as_nanos()).unwrap_or(u64::MAX).min(u64::MAX >> 1) << 1
}

fn moment(word: u64) -> Moment {
    Moment::new(Duration::from_nanos(word >> 1))
}
