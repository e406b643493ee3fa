//! What each statement costs, against the shortest one that does the job.

use crate::crews::Crews;
use crate::engine::Engine;
use crate::figures::{Ratios, median};
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
        let crews = Crews::gather(trial, &WHO, size);
        for (job, what) in JOBS {
            let goal = matches!(job, Job::Pair | Job::Renew).then_some(MOST);
            figures.extend(compare(&crews, trial, job, what, goal)?);
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
    let crews = Crews::gather(trial, &WHO, 1);
    compare(&crews, trial, Job::Transaction, "guarded transaction", Some(most))
}

/// The floor, the floor once more, which tells what is chance, and the store.
const WHO: [Who; 3] = [Who::Floor, Who::Floor, Who::Store];

fn compare(
    crews: &Crews,
    trial: &Trial<'_>,
    job: Job,
    what: &str,
    most: Option<f64>,
) -> Outcome<Vec<Figure>> {
    let measured = crews.measure(trial, job, what)?;
    let [floor, again, store] = &measured[..] else { return Err("there should be three".into()) };
    let at = format!("{what} at {}", crews.size());
    let ratio = Ratios::new(&store.medians, &floor.medians);
    let chance = Ratios::new(&again.medians, &floor.medians).chance();
    let mut over = Figure::of_ratios(format!("{at} over the floor, p50"), &ratio, chance);
    if let Some(most) = most {
        over = over.goal(Goal::AtMost(most));
    }
    Ok(vec![
        over,
        Figure::of_micros(&at, &store.times, 50),
        Figure::of_micros(&at, &store.times, 99),
        Figure::of_micros(&format!("{at}, floor"), &floor.times, 50),
        Figure::of_micros(&format!("{at}, floor"), &floor.times, 99),
        Figure::new(
            format!("{at}, rate over the floor's"),
            Ratios::new(&store.rates, &floor.rates).median(),
            "times",
        ),
        Figure::new(at, median(&store.rates), "/s"),
    ])
}
