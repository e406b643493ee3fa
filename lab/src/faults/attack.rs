//! One history: a world, attacked for a while, healed, and judged.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use lease_core::store::Page;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Failure;
use super::inject::Done;
use super::jobs::Job;
use super::kind::{Kind, Setting};
use super::ledger;
use super::plan::Plan;
use super::worker::{ELECTED, ROUNDS, TAKEN};
use super::world::{WORKERS, World};
use crate::history::{Event, now};

/// How long a history goes on: until every kind has come as often as it must, and ...
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// ... so much time has passed.
    pub least: Duration,
    /// But no longer than this.
    pub most: Duration,
}

/// What was done in a history, before it is judged.
#[derive(Debug, Default)]
pub(crate) struct Attacked {
    pub(crate) done: Vec<Done>,
    pub(crate) took: Duration,
    /// From the heal to the moment from which on every name had been held again.
    pub(crate) reheld: Duration,
    /// How many workers died by their failing hook.
    pub(crate) deaths: i64,
    /// What went wrong with the workers.
    pub(crate) problems: Vec<String>,
}

/// After the last fault every name is held again in this time, and much sooner: what the checkers hold against the library is less.
const PATIENCE: Duration = Duration::from_secs(300);

/// So often workers are looked after.
const LOOK: Duration = Duration::from_millis(20);

/// Injects the faults of a job, one after the other; in a mixed one those that befall workers and their connections in a second
/// row beside the others. Each row is a task of its own, for some faults block a thread.
pub(crate) async fn attack(world: World, job: &Job) -> Result<Attacked, Failure> {
    let since = Instant::now();
    let world = Arc::new(world);
    let looking = {
        let world = Arc::clone(&world);
        Aborted(tokio::spawn(async move { world.look_after().await }))
    };
    if !world.all_held(now()).await {
        return Err("the workers do not begin to hold all names, before any fault".into());
    }
    let beside = |kind: &Kind| job.mixed && matches!(kind.setting(), Setting::Workers | Setting::Network);
    let (other, one): (BTreeMap<Kind, u64>, BTreeMap<Kind, u64>) =
        job.floors.iter().partition(|(kind, _)| beside(kind));
    let rows = [(world.seed, one), (!world.seed, other)].map(|(seed, floors)| {
        let (world, length) = (Arc::clone(&world), job.length);
        Aborted(tokio::spawn(async move { world.row(seed, &floors, length).await }))
    });
    let mut done = Vec::new();
    for mut row in rows {
        done.extend((&mut row.0).await??);
    }
    let healed = now();
    world.healed().await;
    if !world.all_held(healed).await {
        world.crew.problem(format!("a name is not held {PATIENCE:?} after all faults were over"));
    }
    let reheld = Duration::from_nanos(now() - healed);
    drop(looking);
    tokio::task::block_in_place(|| world.crew.end());
    world.collect().await?;
    let problems = std::mem::take(&mut *world.crew.problems.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Attacked { done, took: since.elapsed(), reheld, deaths: world.crew.deaths(), problems })
}

/// A task that ends with its value.
struct Aborted<T>(JoinHandle<T>);

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl World {
    /// Replaces workers that die by themselves. Never ends.
    async fn look_after(&self) {
        loop {
            if let Err(error) = self.crew.look() {
                self.crew.problem(format!("a worker cannot be started: {error}"));
            }
            sleep(LOOK).await;
        }
    }

    async fn row(
        &self,
        seed: u64,
        floors: &BTreeMap<Kind, u64>,
        length: Length,
    ) -> Result<Vec<Done>, Failure> {
        let since = Instant::now();
        let mut done = Vec::new();
        // How often each must still come.
        let mut left = floors.clone();
        let kinds: Vec<_> = floors.keys().copied().collect();
        for injection in Plan::new(seed, &kinds, WORKERS, self.ttl) {
            let is_enough = left.values().all(|left| *left == 0);
            if is_enough && since.elapsed() >= length.least || since.elapsed() >= length.most {
                break;
            }
            // What has come often enough takes no time from the others.
            if !is_enough && left[&injection.kind] == 0 {
                continue;
            }
            if let Some(one) = self.inject(&injection).await? {
                left.entry(one.kind).and_modify(|left| *left = left.saturating_sub(1));
                done.push(one);
            }
        }
        Ok(done)
    }

    /// Waits until every name has been held since a moment; `false`: that takes too long.
    async fn all_held(&self, since: u64) -> bool {
        let start = Instant::now();
        while ![ELECTED, TAKEN, ROUNDS].iter().all(|name| self.crew.held(name) > Some(since)) {
            if start.elapsed() > PATIENCE {
                return false;
            }
            sleep(LOOK).await;
        }
        true
    }

    /// Writes the rows that are there when all have ended.
    async fn collect(&self) -> Result<(), Failure> {
        let page = Page { prefix: String::new(), after: None, limit: 1_000 };
        for row in &self.store.list(&page, PATIENCE).await?.rows {
            self.writer.tell(Event::FinalRow(row.into()));
        }
        for entry in ledger::read(&self.direct).await? {
            self.writer.tell(Event::Ledger(entry));
        }
        self.writer.tell(Event::LedgerComplete);
        self.writer.tell(Event::Done);
        Ok(())
    }
}
