//! When to renew, and when to stop believing: a state machine with no clock and no I/O.
//!
//! ```text
//!              renewed (counts from the attempt's start)
//!            ┌───────────────────────────────────────────┐
//!            ▼                                           │
//!   ┌──── resting ──── due ────▶ asking ── failed, ──▶ resting, due again one `renew`
//!   │        │                     │      timed out    after the attempt began
//!   │        │ deadline            │ deadline
//!   │        │ passed              │ passed, or refused
//!   │        ▼                     ▼
//!   └──────▶ lost ◀────────────────┘        (final)
//! ```
//!
//! Every method takes the present [`Moment`] on a clock of the caller's, so the machine can be
//! copied, compared and run by a model checker. [`Renewal::poll`] may be called at any time and any
//! number of times: a spurious call changes nothing that time itself has not changed.
//!
//! The trust window opens when an attempt *starts*, not when its answer arrives: the database
//! counted its ttl from some moment between the two, so counting from the start is never late
//! (Gray and Cheriton, "Leases", 1989, section 2).

use std::time::Duration;

use crate::{Moment, Timings};

/// The renewal of one lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Renewal {
    pace: Pace,
    /// When the last successful attempt started. The deadline counts from here.
    good: Moment,
    /// When the last attempt started, whatever became of it. The next is due from here.
    started: Moment,
    asking: bool,
    lost: Option<Loss>,
}

/// What [`Renewal`] needs of [`Timings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pace {
    renew: Duration,
    attempt: Duration,
    deadline: Duration,
    tick: Duration,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// Send a renewal now; it counts as begun at the moment given to [`Renewal::poll`]. Give it up at `timeout_at`.
    Renew {
        /// One `attempt` from now, never past the deadline.
        timeout_at: Moment,
    },
    /// Nothing until then, unless an answer arrives.
    Wait(Moment),
    /// The lease is lost, for good.
    Lost(Loss),
}

/// Why a lease is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// No renewal succeeded in time.
    Deadline,
    /// The database said that the lease is no longer held.
    Refused,
}

impl Renewal {
    /// The renewal of a lease whose claim started at `claim_started` and was granted.
    pub fn new(timings: &Timings, claim_started: Moment) -> Self {
        let pace = Pace {
            renew: timings.renew(),
            attempt: timings.attempt(),
            deadline: timings.deadline(),
            tick: timings.tick(),
        };
        Self { pace, good: claim_started, started: claim_started, asking: false, lost: None }
    }

    /// What to do at `now`. Changes the machine only when it answers [`Next::Renew`], when the
    /// deadline has passed, or when the attempt under way has timed out.
    pub fn poll(&mut self, now: Moment) -> Next {
        self.pass_time(now);
        if let Some(loss) = self.lost {
            return Next::Lost(loss);
        }
        if self.asking {
            return Next::Wait(self.timeout_at());
        }
        let due = self.due();
        if now < due {
            return Next::Wait(due.min(self.deadline()));
        }
        self.asking = true;
        self.started = now;
        Next::Renew { timeout_at: self.timeout_at() }
    }

    /// The attempt begun at `started` succeeded. A late answer of an attempt given up counts too:
    /// it is no less true.
    pub fn renewed(&mut self, started: Moment, now: Moment) {
        self.pass_time(now);
        if self.lost.is_none() {
            self.good = self.good.max(started);
        }
        self.end_attempt(started);
    }

    /// A renewal begun at `started` succeeded that was none of this machine's attempts: a guarded transaction carried it.
    pub fn carried(&mut self, started: Moment, now: Moment) {
        // Whoever tells has seen that it came before the deadline there was then.
        self.good = self.good.max(started);
        self.pass_time(now);
    }

    /// The attempt begun at `started` failed, or nobody knows what became of it.
    pub fn failed(&mut self, started: Moment, now: Moment) {
        self.pass_time(now);
        self.end_attempt(started);
    }

    /// The database said that the lease is no longer held. Final whichever attempt asked: a token
    /// that matched no row never matches one again.
    pub fn refused(&mut self, now: Moment) {
        self.pass_time(now);
        self.lost.get_or_insert(Loss::Refused);
        self.asking = false;
    }

    /// The moment at which the lease is lost unless a renewal succeeds.
    pub fn deadline(&self) -> Moment {
        self.good + self.pace.deadline
    }

    /// When the next attempt is due: one `renew` after the last one started, on the grid of ticks.
    /// Rounded down, so that an attempt sent a little after its tick does not slip to the next one.
    fn due(&self) -> Moment {
        (self.started + self.pace.renew).floor_to(self.pace.tick)
    }

    fn timeout_at(&self) -> Moment {
        (self.started + self.pace.attempt).min(self.deadline())
    }

    fn pass_time(&mut self, now: Moment) {
        if self.lost.is_none() && now >= self.deadline() {
            self.lost = Some(Loss::Deadline);
            self.asking = false;
        } else if self.asking && now >= self.timeout_at() {
            self.asking = false;
        }
    }

    fn end_attempt(&mut self, started: Moment) {
        if self.started == started {
            self.asking = false;
        }
    }
}

#[cfg(test)]
mod tests;
