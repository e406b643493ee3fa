//! Leaving the file to others now and then.

use std::time::{Duration, Instant};

use crate::queue::LOCK_POLL;

/// A thread with much to write takes the lock again a few microseconds after each commit. Others, who
/// can only ask for it from time to time, would find it locked for as long as that goes on, and
/// their leases would expire. So it pauses now and then, for longer than two askings are apart.
pub(crate) struct Courtesy {
    /// Since when one write has followed on another.
    since: Instant,
    /// When the last one ended.
    last: Instant,
}

/// How long writes may follow on one another.
const STREAK: Duration = Duration::from_millis(20);

const PAUSE: Duration = LOCK_POLL.saturating_mul(3);

impl Courtesy {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, last: now }
    }

    /// How long to leave the lock alone before a write that is due now.
    pub(crate) fn pause(&mut self, now: Instant) -> Duration {
        if now.duration_since(self.last) >= PAUSE {
            self.since = now;
        } else if now.duration_since(self.since) >= STREAK {
            self.since = now + PAUSE;
            return PAUSE;
        }
        Duration::ZERO
    }

    /// To be told of each write.
    pub(crate) fn wrote(&mut self, now: Instant) {
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_streak_of_writes_is_broken_by_pauses_and_single_writes_are_not_delayed() {
        let start = Instant::now();
        let mut courtesy = Courtesy::new(start);
        let mut now = start;
        let mut paused = Vec::new();
        // Writes of 7 ms that follow at once.
        for _ in 0..8 {
            let pause = courtesy.pause(now);
            paused.push(!pause.is_zero());
            now += pause + Duration::from_millis(7);
            courtesy.wrote(now);
        }
        assert_eq!(paused, [false, false, false, true, false, false, true, false]);
        // Writes that come apart by themselves.
        for _ in 0..8 {
            now += PAUSE;
            assert_eq!(courtesy.pause(now), Duration::ZERO);
            now += Duration::from_millis(30);
            courtesy.wrote(now);
        }
    }
}
