//! What it costs to wait for a name that somebody else holds, with the default timings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lease_core::Timings;
use rusqlite::Connection;

use crate::engine::{Engine, Place, fresh_name};
use crate::observed::Notifying;
use crate::report::Figure;
use crate::worker::Worker;
use crate::{Outcome, Trial};

/// Until connections are open and everybody listens.
const SETTLE: Duration = Duration::from_secs(1);

/// Commits of others, where the engine cannot tell them from a release.
const COMMITS_PER_SECOND: u32 = 500;

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let mut figures = wait(trial, "", Notifying::On).await?;
    figures.extend(wait(trial, "polling: ", Notifying::Off).await?);
    if trial.place.engine == Engine::Sqlite {
        let stop = AtomicBool::new(false);
        let (busy, commits) = tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| write_all_the_time(trial.place, &stop));
                let what = format!("beside {COMMITS_PER_SECOND} commits/s: ");
                let busy = tokio::runtime::Handle::current().block_on(wait(trial, &what, Notifying::On));
                stop.store(true, Ordering::Relaxed);
                (busy, writer.join())
            })
        });
        figures.extend(busy?);
        let achieved = commits.map_err(|_| "the writer panicked")??;
        figures.push(Figure::new("commits of others", achieved, "/s"));
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

/// A program that writes to a table of its own in the file of the leases. Answers its commits per second.
fn write_all_the_time(place: &Place, stop: &AtomicBool) -> Outcome<f64> {
    let connection = Connection::open(&place.at)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    // So many flushes the disk may not manage; what a look at the file finds is the same.
    connection.execute_batch("PRAGMA synchronous = OFF; CREATE TABLE IF NOT EXISTS others (n)")?;
    connection.execute("INSERT INTO others VALUES (0)", [])?;
    let (begun, mut commits) = (Instant::now(), 0_u32);
    while !stop.load(Ordering::Relaxed) {
        connection.execute("UPDATE others SET n = n + 1", [])?;
        commits += 1;
        let due = begun + Duration::from_secs(1) * commits / COMMITS_PER_SECOND;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(f64::from(commits) / begun.elapsed().as_secs_f64())
}
