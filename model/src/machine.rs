//! The library's renewal machine as a state of a model keeps it: relative to the present, and small.
//!
//! Every step is the library's own. A machine is made anew from what is kept, by its public methods, plays the step,
//! and is kept again; that nothing is lost by this is checked at every step, by comparing the two. What came of a step is
//! remembered, for there are few, and each is taken a million times.

use std::sync::OnceLock;

use lease_core::Timings;
use lease_core::renewal::{Loss, Next, Renewal};

use crate::units::{NOW, Units, ago, units_since};

/// A machine that has not lost its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Machine {
    /// How long ago the last good attempt started.
    good: u8,
    /// How long ago the last attempt started; no longer than until the next is due.
    started: u8,
    asking: bool,
}

/// What a step leaves.
pub type Kept = Result<Machine, Loss>;

/// What a machine is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// So many units have passed by its clock.
    After(u8),
    /// It is asked what to do.
    Poll,
    /// The attempt that started so long ago succeeded.
    Renewed(u8),
    /// The same, by a planted fault: the deadline counts from the answer.
    RenewedByItsAnswer(u8),
    /// The attempt that started so long ago failed.
    Failed(u8),
    /// The database said that the lease is no longer held.
    Refused,
}

/// Plays machines of the same timings.
pub struct Player {
    timings: Timings,
    units: Units,
    known: Vec<OnceLock<Option<Kept>>>,
}

/// More than any moment that is kept is old.
const OLD: usize = 16;
const STEPS: usize = 6;

impl Player {
    /// Of these timings.
    pub fn new(units: Units) -> Self {
        let known = std::iter::repeat_with(OnceLock::new).take(STEPS * OLD * OLD * OLD * 2).collect();
        Self { timings: units.timings(), units, known }
    }

    /// That of a claim which started so long ago and is granted now.
    ///
    /// # Errors
    ///
    /// The deadline has passed already.
    pub fn claimed(&self, claim_started: u8) -> Kept {
        self.keep(&Renewal::new(&self.timings, ago(claim_started)), claim_started)
    }

    /// Tells it. `None`: it has nothing to do.
    pub fn tell(&self, machine: Machine, told: Told) -> Option<Kept> {
        let (step, units) = match told {
            Told::After(units) => (0, units),
            Told::Poll => (1, 0),
            Told::Renewed(started) => (2, started),
            Told::RenewedByItsAnswer(started) => (3, started),
            Told::Failed(started) => (4, started),
            Told::Refused => (5, 0),
        };
        let Machine { good, started, asking } = machine;
        let index =
            [good, started, units].iter().fold(step, |index, units| index * OLD + usize::from(*units));
        *self.known[index * 2 + usize::from(asking)].get_or_init(|| self.play(machine, told))
    }

    fn play(&self, machine: Machine, told: Told) -> Option<Kept> {
        let mut renewal = self.renewal(machine);
        let mut started = machine.started;
        match told {
            Told::After(units) => {
                started += units;
                renewal = self.renewal(Machine { good: machine.good + units, started, ..machine });
            }
            Told::Poll => {
                if !matches!(renewal.poll(NOW), Next::Renew { .. }) {
                    return None;
                }
                started = 0;
            }
            Told::Renewed(attempt) => renewal.renewed(ago(attempt), NOW),
            Told::RenewedByItsAnswer(attempt) => {
                renewal.renewed(ago(attempt), NOW);
                renewal.carried(NOW, NOW);
            }
            Told::Failed(attempt) => renewal.failed(ago(attempt), NOW),
            Told::Refused => renewal.refused(NOW),
        }
        Some(self.keep(&renewal, started))
    }

    /// Made anew: a claim, an attempt after it where there was one, its end where it has ended, and what has counted since.
    fn renewal(&self, machine: Machine) -> Renewal {
        let (good, started) = (ago(machine.good), ago(machine.started));
        if good == started && !machine.asking {
            return Renewal::new(&self.timings, good);
        }
        // An attempt is due a while after the one before. Only a planted fault counts from later than that.
        let mut renewal = Renewal::new(&self.timings, good.min(started - self.timings.renew()));
        renewal.poll(started);
        if !machine.asking {
            renewal.failed(started, started);
        }
        renewal.carried(good, started);
        renewal
    }

    fn keep(&self, renewal: &Renewal, started: u8) -> Kept {
        if let Next::Lost(loss) = renewal.clone().poll(NOW) {
            return Err(loss);
        }
        let good = units_since(renewal.deadline() - self.timings.deadline());
        let kept = |asking| Machine { good, started, asking };
        let asking = self.renewal(kept(true)) == *renewal;
        assert!(
            asking || self.renewal(kept(false)) == *renewal,
            "what is kept of a machine is not all that there is to it: {renewal:?}"
        );
        Ok(self.tidied(kept(asking)))
    }

    /// An attempt that has timed out is none, and what is due is due, since when ever.
    fn tidied(&self, machine: Machine) -> Machine {
        let Units { renew, attempt, .. } = self.units;
        let asking = machine.asking && machine.started < attempt;
        let started = if asking { machine.started } else { machine.started.min(renew) };
        Machine { started, asking, ..machine }
    }
}

impl Machine {
    /// How long ago the last good attempt started.
    pub fn good(self) -> u8 {
        self.good
    }

    /// All that there is to it.
    pub fn bytes(self) -> [u8; 3] {
        [self.good, self.started, self.asking.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units::SHORTEST;

    #[test]
    fn an_attempt_is_due_once_its_time_has_come_and_not_before() {
        let player = Player::new(UNITS);
        let fresh = player.claimed(0).unwrap();
        assert_eq!(player.tell(fresh, Told::Poll), None);
        let due = player.tell(fresh, Told::After(UNITS.renew)).unwrap().unwrap();
        let asking = player.tell(due, Told::Poll).unwrap().unwrap();
        assert_eq!(player.tell(asking, Told::Poll), None, "one attempt at a time");
    }

    #[test]
    fn a_renewal_counts_from_the_start_of_its_attempt() {
        let player = Player::new(UNITS);
        let due = player.claimed(1).unwrap();
        let asking = player.tell(due, Told::Poll).unwrap().unwrap();
        let later = player.tell(asking, Told::After(1)).unwrap().unwrap();
        assert_eq!(later.good(), 2);
        assert_eq!(player.tell(later, Told::Renewed(1)).unwrap().unwrap().good(), 1);
    }

    #[test]
    fn a_lease_is_lost_at_its_deadline_or_when_it_is_refused() {
        let player = Player::new(UNITS);
        let last = player.claimed(UNITS.deadline - 1).unwrap();
        assert!(player.claimed(UNITS.deadline).is_err());
        assert!(player.tell(last, Told::After(1)).unwrap().is_err());
        assert!(player.tell(last, Told::Refused).unwrap().is_err());
    }
}
