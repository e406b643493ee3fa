//! Crews that are compared: each does the same job in turn.

use std::time::Duration;

use crate::crew::Crew;
use crate::figures::percentile;
use crate::party::{Job, Who};
use crate::{Outcome, Trial};

pub(crate) struct Crews {
    size: usize,
    crews: Vec<Crew>,
}

/// What one crew did in all rounds.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) times: Vec<Duration>,
    /// The median of each round, in seconds.
    pub(crate) medians: Vec<f64>,
    /// Of each round, per second.
    pub(crate) rates: Vec<f64>,
}

impl Crews {
    /// A crew of that size of each of these.
    pub(crate) fn gather(trial: &Trial<'_>, who: &[Who], size: usize) -> Self {
        Self { size, crews: who.iter().map(|who| Crew::gather(*who, trial.place, size)).collect() }
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// In interleaved rounds; answers in their order.
    pub(crate) fn measure(&self, trial: &Trial<'_>, job: Job, what: &str) -> Outcome<Vec<Measured>> {
        let (rounds, window) =
            (trial.count(15, 7), Duration::from_millis(if trial.quick { 60 } else { 300 }));
        for crew in &self.crews {
            crew.prepare(job)?;
            // Not counted: what is prepared and cached by the first.
            crew.work(job, window / 4)?;
        }
        let count = self.crews.len();
        let mut measured: Vec<Measured> = self.crews.iter().map(|_| Measured::default()).collect();
        for n in 0..rounds {
            // Each comes first, in the middle and last as often as the others.
            for which in (0..count).map(|place| (place + n) % count) {
                let work = self.crews[which].work(job, window)?;
                let of = &mut measured[which];
                of.medians.push(percentile(&work.times, 50).ok_or("nothing was done")?.as_secs_f64());
                of.rates.push(work.per_second);
                of.times.extend(work.times);
            }
            trial.progress.step(&format!("{what} at {}: rounds", self.size), n + 1, rounds);
        }
        Ok(measured)
    }
}
