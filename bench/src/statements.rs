//! What each statement costs, against the shortest one that does the job.

use crate::crews::Crews;
use crate::database::{Database, Told};
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

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let mut figures = Vec::new();
    figures.extend(log_of_lost(trial).await?);
    for size in SIZES {
        let crews = Crews::gather(trial, &WHO, size);
        for (job, what) in JOBS {
            let goal = matches!(job, Job::Pair | Job::Renew).then_some(MOST);
            figures.extend(compare(&crews, trial, job, what, goal)?);
        }
    }
    Ok(figures)
}

/// How many lost claims in a row are to leave no trace in the log.
const LOST: usize = 1_000;

/// What lost claims write to PostgreSQL's log, for what they write is what a flush would be for.
async fn log_of_lost(trial: &Trial<'_>) -> Outcome<Option<Figure>> {
    if trial.place.engine != Engine::Postgres {
        return Ok(None);
    }
    let mut database = Database::open(trial.place).await?;
    let mut store = Who::Store.join(trial.place).await?;
    store.prepare(Job::Lost).await?;
    let mut written = Vec::new();
    // The server writes something of its own now and then.
    for _ in 0..5 {
        let before = database.tell(Told::LogBytes).await?.ok_or("it has a log")?;
        for _ in 0..LOST {
            store.perform(Job::Lost).await?;
        }
        written.push(database.tell(Told::LogBytes).await?.ok_or("it has a log")? - before);
    }
    let least = written.into_iter().min().unwrap_or(u64::MAX);
    let what = format!("{LOST} lost claims write to the log");
    Ok(Some(Figure::new(what, u32::try_from(least)?.into(), "bytes").goal(Goal::AtMost(0.0))))
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
