//! Time in whole units, small enough for every moment to be gone through.

use std::time::Duration;

use lease_core::{Moment, TimingParts, Timings};

/// The timings of a model, in units of time, under the rules of [`Timings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    /// How long a claim or renewal lasts by the database's clock.
    pub ttl: u8,
    /// From one renewal to the next.
    pub renew: u8,
    /// The longest wait for an answer.
    pub attempt: u8,
    /// How long after the start of the last good renewal the holder believes.
    pub deadline: u8,
    /// How long its work may go on after that.
    pub grace: u8,
    /// What is left of the ttl then.
    pub margin: u8,
}

impl Units {
    /// The shortest timings that keep the rules, with a grace and a margin of one unit.
    pub const SHORTEST: Self = Self { ttl: 6, renew: 1, attempt: 2, deadline: 4, grace: 1, margin: 1 };
    /// Renewals two units apart, so that an attempt given up and the next one overlap otherwise.
    pub const LONGER: Self = Self { ttl: 8, renew: 2, attempt: 3, deadline: 6, grace: 1, margin: 1 };

    /// As the library takes them: a unit is a second.
    ///
    /// # Panics
    ///
    /// When they break the rules.
    pub fn timings(self) -> Timings {
        // The library takes no margin of nothing, which a planted fault has: that little is none in whole units.
        let margin = seconds(self.margin).max(Duration::from_millis(1));
        let used = seconds(self.deadline) + seconds(self.grace) + margin;
        let parts = TimingParts {
            ttl: seconds(self.ttl).max(used),
            renew: seconds(self.renew),
            attempt: seconds(self.attempt),
            deadline: seconds(self.deadline),
            grace: seconds(self.grace),
            margin,
        };
        Timings::new(parts).expect("the timings of a model keep the rules")
    }

    /// How long a row has to stand still for its holder to be dead.
    pub fn patience(self) -> u8 {
        self.ttl + self.margin
    }

    /// How long work may run after the start of the last good renewal.
    pub fn work(self) -> u8 {
        self.deadline + self.grace
    }
}

/// The present, on every local clock: what is kept of the past is how long ago it was.
pub const NOW: Moment = Moment::new(Duration::from_secs(1_000));

/// Units as a time.
pub fn seconds(units: u8) -> Duration {
    Duration::from_secs(units.into())
}

/// The moment so long ago.
pub fn ago(units: u8) -> Moment {
    NOW - seconds(units)
}

/// How long ago a moment was.
///
/// # Panics
///
/// When it was longer ago than a model keeps.
pub fn units_since(moment: Moment) -> u8 {
    u8::try_from(NOW.since(moment).as_secs()).expect("a model keeps no moment that is so long ago")
}
