//! What a day of renewals, every two seconds, leaves of a row: as many as fast as they go, in a table where nothing else is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_core::store::{Claim, ClaimAnswer, RenewAnswer, VerifyAnswer};
use lease_core::{Holder, Instance, LeaseName, LeaseStore};

use crate::database::{Database, Told};
use crate::figures::{Ratios, number, percentile};
use crate::party::{Ttls, expect};
use crate::report::{Figure, Goal};
use crate::{Outcome, Trial};

const PARTS: usize = 10;
const LOOKS: usize = 200;

/// Much more than any statement takes.
const WITHIN: Duration = Duration::from_secs(60);

/// How long PostgreSQL may take to tell what it has counted.
const UNTIL_COUNTED: Duration = Duration::from_secs(20);

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let place = trial.place.apart("day");
    let mut database = Database::emptied(&place).await?;
    // Beside it one that is never renewed: what befalls the time of its looks is chance.
    let other_place = trial.place.apart("day_untouched");
    Database::emptied(&other_place).await?;
    let mut row = Row::claim(place.store().await?).await?;
    let untouched = Row::claim(other_place.store().await?).await?;
    let renewals = trial.count(43_200, 4_000);
    let mut sizes = Vec::new();
    let (mut looks, mut others) = (Vec::new(), Vec::new());
    // Not counted: what is prepared and cached by the first.
    side_by_side(&row, &untouched).await?;
    let begun = Instant::now();
    for part in 0..=PARTS {
        if part > 0 {
            for _ in 0..renewals / PARTS {
                row.renew().await?;
            }
            let bytes = database.tell(Told::TableBytes).await?.ok_or("the database tells no size")?;
            sizes.push(number(bytes));
        }
        let (look, other) = side_by_side(&row, &untouched).await?;
        looks.push(look);
        others.push(other);
        trial.progress.step("renewals", part * renewals / PARTS, renewals);
    }
    let took = begun.elapsed().as_secs_f64();
    // A session tells all that it has counted when it ends.
    drop(row);
    let (first, last) = (sizes[0], sizes[PARTS - 1]);
    let chance = Ratios::new(&others[1..], &[others[0]; PARTS]).chance();
    let looked = Ratios::new(&looks[PARTS..], &looks[..1]);
    let parts = looks.iter().map(|look| format!("{:.0}", look * 1e6)).collect::<Vec<_>>().join(" ");
    let mut figures = vec![
        Figure::new("size at the end over that after a tenth", last / first, "times").goal(Goal::AtMost(1.5)),
        Figure::new("size at the end", last / 1024.0, "KiB"),
        Figure::of_ratios("verify at the end over the beginning, p50", &looked, chance)
            .goal(Goal::AtMost(1.2)),
        Figure::new("verify at the end, p50", looks[PARTS] * 1e6, "µs")
            .note(format!("after each tenth {parts}")),
        Figure::new("renewals", number(renewals as u64), "").note(format!("in {took:.0} s")),
    ];
    figures.extend(hot_share(&mut database, renewals).await?);
    Ok(figures)
}

/// How many of the updates touched no index, where the database tells.
async fn hot_share(database: &mut Database, renewals: usize) -> Outcome<Option<Figure>> {
    let begun = Instant::now();
    while let Some(updates) = database.tell(Told::Updates).await? {
        if updates >= renewals as u64 {
            let hot = database.tell(Told::HotUpdates).await?.unwrap_or_default();
            let share = number(hot) / number(updates);
            let figure =
                Figure::new("updates that touched no index (HOT)", share, "of 1").goal(Goal::AtLeast(0.99));
            return Ok(Some(figure.note(format!("{hot} of {updates}"))));
        }
        if begun.elapsed() > UNTIL_COUNTED {
            return Err(format!("the database has counted {updates} updates of {renewals}").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(None)
}

/// Looks at both by turns; answers for each the p50, in seconds.
async fn side_by_side(row: &Row, other: &Row) -> Outcome<(f64, f64)> {
    let (mut looks, mut others) = (Vec::new(), Vec::new());
    for _ in 0..LOOKS {
        looks.push(row.look().await?);
        others.push(other.look().await?);
    }
    let middle = |times: &[Duration]| percentile(times, 50).map_or(f64::NAN, |time| time.as_secs_f64());
    Ok((middle(&looks), middle(&others)))
}

/// A lease on one store.
struct Row {
    store: Arc<dyn LeaseStore>,
    name: LeaseName,
    holder: Holder,
    ttls: Ttls,
}

impl Row {
    async fn claim(store: Arc<dyn LeaseStore>) -> Outcome<Self> {
        let (name, holder) = (LeaseName::new("day")?, Holder::mint()?);
        let mut row = Self { store, name, holder, ttls: Ttls::default() };
        let (ttl, instance) = (row.ttl(), Instance::current());
        let claim = Claim { name: row.name.clone(), holder, ttl, instance };
        let answer = row.store.claim(&claim, WITHIN).await?;
        expect(matches!(answer, ClaimAnswer::Granted(_)), "claimed")?;
        Ok(row)
    }

    async fn renew(&mut self) -> Outcome<()> {
        let ttl = self.ttl();
        let answer = self.store.renew(&self.name, &self.holder, ttl, WITHIN).await?;
        expect(matches!(answer, RenewAnswer::Renewed(_)), "renewed")
    }

    async fn look(&self) -> Outcome<Duration> {
        let started = Instant::now();
        let answer = self.store.verify(&self.name, &self.holder, WITHIN).await?;
        let took = started.elapsed();
        expect(matches!(answer, VerifyAnswer::Held(_)), "held")?;
        Ok(took)
    }

    fn ttl(&mut self) -> Duration {
        Duration::from_millis(self.ttls.next().into())
    }
}
