//! Claims in tables of ten rows, of ten thousand and of a million.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_core::store::{Claim, ClaimAnswer, ReleaseAnswer};
use lease_core::{Holder, Instance, LeaseName, LeaseStore};

use crate::database::{Database, Told};
use crate::figures::{Ratios, number, percentile};
use crate::party::{Ttls, expect};
use crate::report::{Figure, Goal};
use crate::rows::{self, Expiry};
use crate::{Outcome, Trial};

/// The least table; it is measured once more, to tell what is chance.
const LEAST: usize = 10;

/// What the greatest table may cost over the least.
const MOST: f64 = 1.2;

/// Much more than any statement takes.
const WITHIN: Duration = Duration::from_secs(60);

/// The jobs: an even row is free and can be had, an odd one is held.
const JOBS: [&str; 2] = ["claim and release", "lost claim"];

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let sizes = [LEAST, LEAST, 10_000, trial.count(1_000_000, 100_000)];
    let mut tables = Vec::new();
    for (n, rows) in sizes.into_iter().enumerate() {
        tables.push(Table::build(trial, rows).await?);
        trial.progress.step("tables", n + 1, sizes.len());
    }
    let (rounds, turns) = (trial.count(15, 7), trial.count(150, 80));
    let mut order = Draws(0);
    // By job and table: the p50 of each round, and all of them.
    let mut medians: [[Vec<f64>; 4]; 2] = Default::default();
    let mut times: [[Vec<Duration>; 4]; 2] = Default::default();
    // Not counted: what is prepared and cached by the first.
    by_turns(&mut tables, &mut order, 0, turns).await?;
    by_turns(&mut tables, &mut order, 1, turns).await?;
    for n in 0..rounds {
        for job in 0..JOBS.len() {
            for (which, measured) in
                by_turns(&mut tables, &mut order, job, turns).await?.into_iter().enumerate()
            {
                medians[job][which].push(percentile(&measured, 50).ok_or("nothing was done")?.as_secs_f64());
                times[job][which].extend(measured);
            }
        }
        trial.progress.step("rounds", n + 1, rounds);
    }
    let mebibytes = number(tables[3].bytes) / 1024.0 / 1024.0;
    let mut figures = Vec::new();
    for ((job, medians), times) in JOBS.iter().zip(&medians).zip(&times) {
        let chance = Ratios::new(&medians[1], &medians[0]).chance();
        let over = |which: usize| {
            let what = format!("{job}, {} rows over {LEAST}, p50", sizes[which]);
            Figure::of_ratios(what, &Ratios::new(&medians[which], &medians[0]), chance)
        };
        figures.extend([over(3).goal(Goal::AtMost(MOST)), over(2)]);
        for which in [0, 2, 3] {
            let what = format!("{job}, {} rows", sizes[which]);
            figures.extend([50, 99].map(|hundredths| Figure::of_micros(&what, &times[which], hundredths)));
        }
    }
    figures.push(Figure::new(format!("size of {} rows", sizes[3]), mebibytes, "MiB"));
    Ok(figures)
}

/// Does a job in each table so often, in one after the other, so that what befalls the machine befalls them all alike.
async fn by_turns(
    tables: &mut [Table],
    draws: &mut Draws,
    job: usize,
    turns: usize,
) -> Outcome<[Vec<Duration>; 4]> {
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..turns {
        // In any order: how long a flush takes depends on who flushed before.
        for which in draws.shuffled() {
            times[which].push(tables[which].measure(job).await?);
        }
    }
    Ok(times)
}

struct Table {
    rows: usize,
    /// What it takes on disk, which may be more than the server keeps in memory.
    bytes: u64,
    store: Arc<dyn LeaseStore>,
    holder: Holder,
    instance: Instance,
    ttls: Ttls,
    draws: Draws,
}

impl Table {
    /// The one of that size. An earlier run on the same server may have built it.
    async fn build(trial: &Trial<'_>, rows: usize) -> Outcome<Self> {
        let place = trial.place.apart(&rows.to_string());
        let mut database = Database::open(&place).await?;
        if database.tell(Told::Rows).await? == Some(rows as u64) {
            rows::release(&mut database, &place).await?;
        } else {
            let mut database = Database::emptied(&place).await?;
            rows::fill(&mut database, &place, rows, Expiry::OddHeld).await?;
            expect(database.tell(Told::Rows).await? == Some(rows as u64), "filled")?;
        }
        let bytes = database.tell(Told::TableBytes).await?.ok_or("the database tells no size")?;
        Ok(Self {
            rows,
            bytes,
            store: place.store().await?,
            holder: Holder::mint()?,
            instance: Instance::current(),
            ttls: Ttls::default(),
            draws: Draws(rows as u64),
        })
    }

    /// Does a job once, with a row out of the whole table.
    async fn measure(&mut self, job: usize) -> Outcome<Duration> {
        let name = rows::name(self.draws.below(self.rows / 2) * 2 + job)?;
        let started = Instant::now();
        // A token for each claim, as there must be.
        self.holder = Holder::mint()?;
        let is_granted = self.claim(&name).await?;
        expect(is_granted == (job == 0), "granted or lost")?;
        if is_granted {
            let answer = self.store.release(&name, &self.holder, WITHIN).await?;
            expect(answer == ReleaseAnswer::Released, "released")?;
        }
        Ok(started.elapsed())
    }

    async fn claim(&mut self, name: &LeaseName) -> Outcome<bool> {
        let ttl = Duration::from_millis(self.ttls.next().into());
        let claim = Claim { name: name.clone(), holder: self.holder, ttl, instance: self.instance.clone() };
        Ok(matches!(self.store.claim(&claim, WITHIN).await?, ClaimAnswer::Granted(_)))
    }
}

/// Numbers as if thrown with dice, the same in each run (Steele, Lea and Flood's `SplitMix64`).
struct Draws(u64);

impl Draws {
    /// All of the tables, in any order.
    fn shuffled(&mut self) -> [usize; 4] {
        let mut all = [0, 1, 2, 3];
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last + 1));
        }
        all
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % bound as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_reach_all_and_nothing_beyond() {
        let mut draws = Draws(10);
        let mut counts = [0; 5];
        for _ in 0..1000 {
            counts[draws.below(5)] += 1;
        }
        assert!(counts.iter().all(|count| (150..250).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_shuffle_leaves_out_none_and_favours_none() {
        let (mut draws, mut firsts) = (Draws(0), [0; 4]);
        for _ in 0..1000 {
            let mut all = draws.shuffled();
            firsts[all[0]] += 1;
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3]);
        }
        assert!(firsts.iter().all(|count| (200..300).contains(count)), "{firsts:?}");
    }
}
