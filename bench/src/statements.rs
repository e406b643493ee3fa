//! What each statement costs, against the shortest one that does the job.

use std::time::Duration;

use crate::crew::Crew;
use crate::engine::Engine;
use crate::figures::{Ratios, median, percentile};
use crate::party::{Job, Who};
use crate::report::{Figure, Goal};
use crate::{Outcome, Trial};

const JOBS: [(Job, &str); 5] = [
    (Job::Pair, "claim and release"),
    (Job::Renew, "renew"),
    (Job::Verify, "verify"),
    (Job::First, "first claim"),
    (Job::Lost, "lost claim"),
];

const SIZES: [usize; 2] = [1, 16];

/// What a lease may cost over the floor.
const MOST: f64 = 1.05;

pub(crate) fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let mut figures = Vec::new();
    for size in SIZES {
        let crews = Crews::gather(trial, size);
        for (job, what) in JOBS {
            let goal = matches!(job, Job::Pair | Job::Renew).then_some(MOST);
            figures.extend(crews.compare(trial, job, what, goal)?);
        }
    }
    Ok(figures)
}

/// A transaction with one write, with a lease and without.
pub(crate) fn ask_of_transactions(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let most = match trial.place.engine {
        Engine::Postgres => 1.12,
        Engine::Mariadb | Engine::Mysql => 1.42,
        Engine::Sqlite => 1.07,
    };
    let crews = Crews::gather(trial, 1);
    crews.compare(trial, Job::Transaction, "guarded transaction", Some(most))
}

/// The floor, the floor once more, which tells what is chance, and the store.
struct Crews {
    size: usize,
    crews: [Crew; 3],
}

impl Crews {
    fn gather(trial: &Trial<'_>, size: usize) -> Self {
        let crews = [Who::Floor, Who::Floor, Who::Store].map(|who| Crew::gather(who, trial.place, size));
        Self { size, crews }
    }

    fn compare(&self, trial: &Trial<'_>, job: Job, what: &str, most: Option<f64>) -> Outcome<Vec<Figure>> {
        let (rounds, window) =
            (trial.count(15, 7), Duration::from_millis(if trial.quick { 60 } else { 300 }));
        for crew in &self.crews {
            crew.prepare(job)?;
            // Not counted: what is prepared and cached by the first.
            crew.work(job, window / 4)?;
        }
        let (mut times, mut medians, mut rates) =
            ([const { Vec::new() }; 3], [const { Vec::new() }; 3], [const { Vec::new() }; 3]);
        for n in 0..rounds {
            // Each comes first, in the middle and last as often as the others.
            for which in (0..3).map(|place| (place + n) % 3) {
                let work = self.crews[which].work(job, window)?;
                medians[which].push(percentile(&work.times, 50).ok_or("nothing was done")?.as_secs_f64());
                rates[which].push(work.per_second);
                times[which].extend(work.times);
            }
            trial.progress.step(&format!("{what} at {}: rounds", self.size), n + 1, rounds);
        }
        let at = format!("{what} at {}", self.size);
        let [floor, again, store] = medians;
        let ratio = Ratios::new(&store, &floor);
        let chance = Ratios::new(&again, &floor).chance();
        let mut over = Figure::of_ratios(format!("{at} over the floor, p50"), &ratio, chance);
        if let Some(most) = most {
            over = over.goal(Goal::AtMost(most));
        }
        let [floor_rate, _, store_rate] = rates;
        let [floor_times, _, store_times] = times;
        Ok(vec![
            over,
            Figure::of_micros(&at, &store_times, 50),
            Figure::of_micros(&at, &store_times, 99),
            Figure::of_micros(&format!("{at}, floor"), &floor_times, 50),
            Figure::of_micros(&format!("{at}, floor"), &floor_times, 99),
            Figure::new(
                format!("{at}, rate over the floor's"),
                Ratios::new(&store_rate, &floor_rate).median(),
                "times",
            ),
            Figure::new(at, median(&store_rate), "/s"),
        ])
    }
}
