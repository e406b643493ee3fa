//! From the start of a release in one process to the work starting in another.

use std::time::Duration;

use lease_core::Timings;

use crate::engine::{Engine, fresh_name};
use crate::observed::Notifying;
use crate::others::{COMMITS_PER_SECOND, beside_commits};
use crate::report::{Figure, Goal};
use crate::worker::Worker;
use crate::{Outcome, Trial};

/// Short, so that who only polls does not take all day.
const TTL: Duration = Duration::from_secs(6);

/// The first open connections and listen.
const WARM_UP: usize = 2;

/// How long who waits has been idle before the release, at least.
const IDLE: Duration = Duration::from_millis(200);

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let timings = Timings::from_ttl(TTL)?;
    let heard = hand_overs(trial, &timings, Notifying::On, trial.count(400, 40)).await?;
    let polled = hand_overs(trial, &timings, Notifying::Off, trial.count(40, 8)).await?;
    let poll = timings.renew();
    let goal = match trial.place.engine {
        engine if hears(engine) => 10.0,
        _ => crate::figures::millis(poll),
    };
    let polling = format!("polling every {poll:?} or less");
    let mut figures = vec![
        Figure::of_times("hand-over", &heard, 50).goal(Goal::Below(goal)),
        Figure::of_times("hand-over", &heard, 99),
        Figure::of_times(&format!("{polling}:"), &polled, 50),
        Figure::of_times(&format!("{polling}:"), &polled, 99),
    ];
    if trial.place.engine == Engine::Sqlite {
        let busy = hand_overs(trial, &timings, Notifying::On, trial.count(100, 20));
        let busy = beside_commits(trial.place, busy)?;
        let what = format!("beside {COMMITS_PER_SECOND} commits/s:");
        figures.extend([50, 99].map(|hundredths| Figure::of_times(&what, &busy, hundredths)));
    }
    Ok(figures)
}

/// Whether a store of that engine hears of releases at all.
fn hears(engine: Engine) -> bool {
    matches!(engine, Engine::Sqlite | Engine::Postgres)
}

/// Two processes that hand a name to each other.
async fn hand_overs(
    trial: &Trial<'_>,
    timings: &Timings,
    notifying: Notifying,
    count: usize,
) -> Outcome<Vec<Duration>> {
    let name = fresh_name("hand-over");
    let start = || Worker::start(trial.place, &name, timings, notifying);
    let (mut holder, mut waiter) = (start()?, start()?);
    holder.acquire()?;
    holder.started()?;
    let is_heard = notifying == Notifying::On && hears(trial.place.engine);
    // The release comes at any point between two looks, each as often.
    let range = if is_heard { IDLE } else { timings.renew() };
    let mut took = Vec::new();
    for n in 0..WARM_UP + count {
        waiter.acquire()?;
        let part = u32::try_from(n * 37 % 100)?;
        tokio::time::sleep(IDLE + range * part / 100).await;
        let released = holder.end_work()?;
        let started = waiter.started()?;
        took.push(started.saturating_sub(released));
        std::mem::swap(&mut holder, &mut waiter);
        trial.progress.step(
            if notifying == Notifying::On { "heard" } else { "polled" },
            n + 1,
            WARM_UP + count,
        );
    }
    Ok(took.split_off(WARM_UP))
}
