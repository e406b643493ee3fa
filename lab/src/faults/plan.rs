//! Which faults befall a history, in what order and how: made from a seed.

use std::time::Duration;

use super::kind::Kind;
use super::random::Random;

/// What must be open when a fault begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// It begins at any moment.
    Any,
    /// A guarded transaction is open in a process that it befalls.
    Guard,
    /// The work of a round runs there.
    Round,
}

/// One fault to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Injection {
    /// Its kind.
    pub kind: Kind,
    /// How many of its kind come before it.
    pub nth: u64,
    /// Which worker it befalls, counted from 0; `None`: all. Without a meaning for what befalls the database.
    pub worker: Option<u32>,
    /// What must be open when it begins.
    pub moment: Moment,
    /// From the end of the fault before it to the moment from which on it may begin.
    pub after: Duration,
    /// From its begin to its end. Zero: it is over at once.
    pub lasts: Duration,
    /// Its size: of a step of the clock or of a delay.
    pub size: Duration,
    /// The message at which a connection is cut, counted from 1.
    pub message: u64,
}

/// The faults of a history, without an end. Every kind comes once before any comes again.
pub struct Plan {
    random: Random,
    kinds: Vec<Kind>,
    workers: u32,
    ttl: Duration,
    /// What is left of this time round.
    left: Vec<Kind>,
    time_round: u64,
}

/// How long faults last, in hundredths of the ttl: 1 s, 5 s, 12 s, 18 s and 30 s of the default 15 s, the short ones more often.
const LASTS: [u32; 7] = [7, 33, 7, 80, 33, 120, 200];

/// How much later messages come, in hundredths of the ttl, each way.
const DELAYS: [u32; 4] = [1, 3, 7, 20];

/// Steps of the clock, in fifteenths of the ttl: 1 s, 14 s and 16 s of the default.
const STEPS: [u32; 3] = [1, 14, 16];

/// The one step that is the same for every ttl.
const HOUR: Duration = Duration::from_secs(3_600);

/// A connection is cut at one of so many messages.
const MESSAGES: u64 = 48;

impl Plan {
    /// Of these kinds, for so many workers.
    pub fn new(seed: u64, kinds: &[Kind], workers: u32, ttl: Duration) -> Self {
        let random = Random(seed);
        Self { random, kinds: kinds.to_vec(), workers, ttl, left: Vec::new(), time_round: 0 }
    }

    fn of(&mut self, kind: Kind, nth: u64) -> Injection {
        // Each list from where the seed says, so that short histories of other seeds see other parts of it.
        let mut turn = |length: usize| {
            let offset = self.random.below(length as u64);
            // Two steps in three follow the order of the list, so that all of it comes up.
            let at = if offset == 0 { nth + 1 } else { nth };
            usize::try_from(at % length as u64).expect("an index")
        };
        let lasts = self.ttl * LASTS[turn(LASTS.len())] / 100;
        let size = match kind {
            Kind::Latency => self.ttl * DELAYS[turn(DELAYS.len())] / 100,
            Kind::ClockBack | Kind::ClockForward => match turn(STEPS.len() + 1) {
                3 => HOUR,
                step => self.ttl * STEPS[step] / 15,
            },
            _ => Duration::ZERO,
        };
        let lasts = match kind {
            Kind::ClockBack | Kind::ClockForward | Kind::IdleKill | Kind::HalfOpen => Duration::ZERO,
            // As long as it takes to have an effect, or for ever in the worst case.
            Kind::Cut => self.ttl,
            _ => lasts,
        };
        let all = self.random.below(4) == 0 && !matches!(kind, Kind::ClientKill | Kind::ClientStop);
        let worker = u32::try_from(self.random.below(self.workers.into())).expect("few workers");
        let moment = [Moment::Guard, Moment::Round, Moment::Any][usize::try_from(nth % 3).expect("an index")];
        Injection {
            kind,
            nth,
            worker: (!all).then_some(worker),
            moment,
            after: self.random.between(self.ttl / 10, self.ttl / 2),
            lasts,
            size,
            message: 1 + (nth * 7 + self.random.below(7)) % MESSAGES,
        }
    }
}

impl Iterator for Plan {
    type Item = Injection;

    fn next(&mut self) -> Option<Injection> {
        if self.left.is_empty() {
            self.left.clone_from(&self.kinds);
            self.time_round += 1;
        }
        if self.left.is_empty() {
            return None;
        }
        let at = usize::try_from(self.random.below(self.left.len() as u64)).expect("an index");
        let kind = self.left.swap_remove(at);
        Some(self.of(kind, self.time_round - 1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::backend::Backend;
    use super::*;

    const TTL: Duration = Duration::from_millis(1_500);

    fn plan(seed: u64, count: usize) -> Vec<Injection> {
        Plan::new(seed, &Kind::of(Backend::Postgres), 3, TTL).take(count).collect()
    }

    #[test]
    fn a_seed_repeats_its_plan_and_another_has_another() {
        assert_eq!(plan(7, 200), plan(7, 200));
        assert_ne!(plan(7, 200), plan(8, 200));
    }

    #[test]
    fn every_kind_comes_as_often_as_any_other_at_every_moment() {
        let kinds = Kind::of(Backend::Postgres);
        let mut counts = BTreeMap::<(Kind, Moment), usize>::new();
        for injection in plan(7, kinds.len() * 21) {
            *counts.entry((injection.kind, injection.moment)).or_default() += 1;
        }
        assert_eq!(counts.len(), kinds.len() * 3);
        assert!(counts.values().all(|count| *count == 7), "{counts:?}");
    }

    #[test]
    fn twenty_of_a_kind_have_every_length_and_size_and_befall_every_worker() {
        for seed in 0..20 {
            let twenty: Vec<_> = Plan::new(seed, &[Kind::ClockBack], 3, TTL).take(20).collect();
            let sizes: BTreeSet<_> = twenty.iter().map(|injection| injection.size).collect();
            assert_eq!(sizes.len(), 4, "{sizes:?}");
            let twenty: Vec<_> = Plan::new(seed, &[Kind::ClientStop], 3, TTL).take(20).collect();
            let lengths: BTreeSet<_> = twenty.iter().map(|injection| injection.lasts).collect();
            assert_eq!(lengths.len(), 5, "{lengths:?}");
            let workers: BTreeSet<_> = twenty.iter().map(|injection| injection.worker).collect();
            assert_eq!(workers, (0..3).map(Some).collect());
        }
    }

    #[test]
    fn over_time_a_connection_is_cut_at_every_message() {
        let cuts = Plan::new(7, &[Kind::Cut], 3, TTL).take(600);
        let messages: BTreeSet<_> = cuts.map(|injection| injection.message).collect();
        assert_eq!(messages, (1..=MESSAGES).collect());
    }
}
