//! From the expiry of a killed holder's row to the claim of who waits. Nobody probes, and nobody gives anything back.

use std::time::Duration;

use lease_core::{LeaseName, Timings};

use crate::engine::fresh_name;
use crate::observed::Notifying;
use crate::report::{Figure, Goal};
use crate::worker::Worker;
use crate::{Outcome, Trial};

/// Every kill costs one; MySQL takes none below 4 s.
const TTL: Duration = Duration::from_millis(4_500);

/// How long who waits has been idle before the kill, at least.
const IDLE: Duration = Duration::from_millis(600);

const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let timings = Timings::from_ttl(TTL)?;
    let store = trial.place.store().await?;
    let name = fresh_name("takeover");
    let row_name = LeaseName::new(&name)?;
    let start = || Worker::start(trial.place, &name, &timings, Notifying::On);
    let mut holder = start()?;
    holder.acquire()?;
    holder.started()?;
    let kills = trial.count(20, 4);
    let mut took = Vec::new();
    for n in 0..kills {
        let mut waiter = start()?;
        waiter.acquire()?;
        let part = u32::try_from(n * 37 % 100)?;
        tokio::time::sleep(IDLE + IDLE * part / 100).await;
        holder.kill()?;
        // Nobody moves it any more but the next claim, which is seconds away.
        let left = store.inspect(&row_name, PATIENCE).await?.row.ok_or("the row is gone")?;
        waiter.started()?;
        let taken = store.inspect(&row_name, PATIENCE).await?.row.ok_or("the row is gone")?;
        if taken.term == left.term {
            return Err("it was taken over before it was looked at".into());
        }
        if taken.claimed_at < left.expires_at {
            return Err("it was taken over before it had expired".into());
        }
        // Both by the database's clock, in whole milliseconds.
        took.push(taken.claimed_at.since(left.expires_at));
        holder = waiter;
        trial.progress.step("kills", n + 1, kills);
    }
    Ok(vec![
        Figure::of_times("after the expiry,", &took, 50),
        Figure::of_times("after the expiry,", &took, 100).goal(Goal::Below(50.0)),
    ])
}
