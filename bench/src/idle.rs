//! What it costs to wait for a name that somebody else holds, with the default timings.

use std::time::{Duration, Instant};

use lease_core::Timings;

use crate::engine::{Engine, fresh_name};
use crate::observed::Notifying;
use crate::others::{COMMITS_PER_SECOND, beside_commits};
use crate::report::Figure;
use crate::worker::Worker;
use crate::{Outcome, Trial};

/// Until connections are open and everybody listens.
const SETTLE: Duration = Duration::from_secs(1);

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let mut figures = wait(trial, "", Notifying::On).await?;
    figures.extend(wait(trial, "polling: ", Notifying::Off).await?);
    if trial.place.engine == Engine::Sqlite {
        let what = format!("beside {COMMITS_PER_SECOND} commits/s: ");
        figures.extend(beside_commits(trial.place, wait(trial, &what, Notifying::On))?);
    }
    Ok(figures)
}

/// One process holds, one waits; counted is the one that waits.
async fn wait(trial: &Trial<'_>, what: &str, notifying: Notifying) -> Outcome<Vec<Figure>> {
    let name = fresh_name("idle");
    let timings = Timings::default();
    let start = || Worker::start(trial.place, &name, &timings, notifying);
    let (mut holder, mut waiter) = (start()?, start()?);
    holder.acquire()?;
    holder.started()?;
    waiter.acquire()?;
    tokio::time::sleep(SETTLE).await;
    let (begun, before) = (Instant::now(), waiter.cost()?);
    let seconds = trial.count(60, 12);
    for second in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        trial.progress.step(&format!("{what}seconds"), second + 1, seconds);
    }
    let after = waiter.cost()?;
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let per_minute =
        |before: u64, after: u64| f64::from(u32::try_from(after - before).unwrap_or(u32::MAX)) / minutes;
    let processor = after.processor.saturating_sub(before.processor).as_secs_f64();
    Ok(vec![
        Figure::new(format!("{what}statements"), per_minute(before.statements, after.statements), "/min"),
        Figure::new(format!("{what}processor"), processor * 1000.0 / minutes, "ms/min")
            .note(format!("{:.2} % of one", processor / minutes / 60.0 * 100.0)),
        Figure::new(format!("{what}wake-ups"), per_minute(before.sleeps, after.sleeps), "/min"),
    ])
}
