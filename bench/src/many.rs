//! Many leases renewed by one call, against as many renewed one after another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_core::LeaseStore;
use lease_core::store::{Holding, RenewAnswer};

use crate::database::Database;
use crate::engine::Engine;
use crate::figures::{Ratios, median};
use crate::party::{Ttls, expect};
use crate::report::{Figure, Goal};
use crate::rows::{self, Expiry};
use crate::{Outcome, Trial};

const FEW: usize = 1_000;
const MANY: usize = 10_000;

/// How many single renewals of a round stand for all: ten thousand would take half a minute.
const SAMPLE: u32 = 200;

/// Much more than any of it takes.
const WITHIN: Duration = Duration::from_secs(60);

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let goal = match trial.place.engine {
        Engine::Postgres => 40.0,
        Engine::Mariadb | Engine::Mysql => 20.0,
        Engine::Sqlite => 50.0,
    };
    let place = trial.place.apart("many");
    rows::fill(&mut Database::emptied(&place).await?, &place, MANY, Expiry::Held).await?;
    let leases = (0..MANY).map(rows::holding).collect::<Outcome<Vec<_>>>()?;
    let mut renewer = Renewer { store: place.store().await?, leases, next: 0, ttls: Ttls::default() };
    let mut seconds = [const { Vec::new() }; 4];
    for which in 0..seconds.len() {
        renewer.renew(which).await?;
    }
    let rounds = trial.count(15, 7);
    for n in 0..rounds {
        // Each comes first, and at every other place, as often as the others.
        for which in (0..seconds.len()).map(|place| (place + n) % 4) {
            seconds[which].push(renewer.renew(which).await?);
        }
        trial.progress.step("rounds", n + 1, rounds);
    }
    let [single, few, many, many_again] = seconds;
    let equals = Ratios::new(&many_again, &many).chance();
    let over = |batch: &[f64], count: u32| {
        let singles: Vec<f64> = single.iter().map(|single| single * f64::from(count)).collect();
        let ratios = Ratios::new(&singles, batch);
        let what = format!("{count} single renewals over a batch of them");
        Figure::of_ratios(what, &ratios, equals * ratios.median())
    };
    let millis = |batch: &[f64], count| {
        let rounds = batch.len();
        Figure::new(format!("batch of {count}"), median(batch) * 1000.0, "ms").note(format!("n={rounds}"))
    };
    Ok(vec![
        over(&many, 10_000).goal(Goal::AtLeast(goal)),
        over(&few, 1_000),
        millis(&many, MANY),
        millis(&few, FEW),
        Figure::new("single renewal", median(&single) * 1e6, "µs")
            .note(format!("{SAMPLE} a round, which stand for all")),
    ])
}

struct Renewer {
    store: Arc<dyn LeaseStore>,
    leases: Vec<Holding>,
    /// The next to be renewed singly.
    next: usize,
    ttls: Ttls,
}

impl Renewer {
    /// Single ones, a small batch, a large one, and a large one again; answers seconds, of the single ones for each.
    async fn renew(&mut self, which: usize) -> Outcome<f64> {
        let started = Instant::now();
        match which {
            0 => {
                for _ in 0..SAMPLE {
                    self.single().await?;
                }
                Ok(started.elapsed().as_secs_f64() / f64::from(SAMPLE))
            }
            1 => self.batch(FEW).await.map(|()| started.elapsed().as_secs_f64()),
            _ => self.batch(MANY).await.map(|()| started.elapsed().as_secs_f64()),
        }
    }

    async fn single(&mut self) -> Outcome<()> {
        let Holding { name, holder } = &self.leases[self.next];
        self.next = (self.next + 1) % self.leases.len();
        let answer = self.store.renew(name, holder, ttl(&mut self.ttls), WITHIN).await?;
        expect(matches!(answer, RenewAnswer::Renewed(_)), "renewed")
    }

    async fn batch(&mut self, count: usize) -> Outcome<()> {
        let ttl = ttl(&mut self.ttls);
        let answers = self.store.renew_many(&self.leases[..count], ttl, WITHIN).await?;
        expect(answers.len() == count && answers.iter().all(Option::is_some), "all renewed")
    }
}

fn ttl(ttls: &mut Ttls) -> Duration {
    Duration::from_millis(ttls.next().into())
}
