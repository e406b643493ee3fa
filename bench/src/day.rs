//! What a day of renewals, every two seconds, leaves of a row: as many as fast as they go, in a table where nothing else is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_core::store::{Claim, ClaimAnswer, RenewAnswer, VerifyAnswer};
use lease_core::{Holder, Instance, LeaseName, LeaseStore};

use crate::database::{Database, Told};
use crate::engine::Place;
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
    let mut row = Row::claim(&place).await?;
    // Beside it two that are never renewed: what befalls the time of all looks is the machine's, and what only one of the two, chance.
    let mut untouched = Vec::new();
    for what in ["day_untouched", "day_untouched_again"] {
        let place = trial.place.apart(what);
        Database::emptied(&place).await?;
        untouched.push(Row::claim(&place).await?);
    }
    let renewals = trial.count(43_200, 4_000);
    let mut sizes = Vec::new();
    let mut looks = [const { Vec::new() }; 3];
    // Not counted: what is prepared and cached by the first.
    by_turns(&row, &untouched).await?;
    let begun = Instant::now();
    for part in 0..=PARTS {
        if part > 0 {
            for _ in 0..renewals / PARTS {
                row.renew().await?;
            }
            let bytes = database.tell(Told::TableBytes).await?.ok_or("the database tells no size")?;
            sizes.push(number(bytes));
        }
        for (looks, middle) in looks.iter_mut().zip(by_turns(&row, &untouched).await?) {
            looks.push(middle);
        }
        trial.progress.step("renewals", part * renewals / PARTS, renewals);
    }
    let took = begun.elapsed().as_secs_f64();
    // A session tells all that it has counted when it ends.
    drop(row);
    let (first, last) = (sizes[0], sizes[PARTS - 1]);
    let [looks, untouched, again] = looks;
    let (looked, equals) = (drift(&looks, &untouched), drift(&again, &untouched));
    // One value, not a median: the greatest that two rows nobody touches were apart.
    let chance = equals.iter().map(|drift| (drift - 1.0).abs()).fold(0.0, f64::max);
    let parts = looks.iter().map(|look| format!("{:.0}", look * 1e6)).collect::<Vec<_>>().join(" ");
    let mut figures = vec![
        Figure::new("size at the end over that after a tenth", last / first, "times").goal(Goal::AtMost(1.5)),
        Figure::new("size at the end", last / 1024.0, "KiB"),
        Figure::of_ratios(
            "verify at the end over the beginning, p50",
            &Ratios::new(&looked[PARTS - 1..], &[1.0]),
            chance,
        )
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

/// Looks at all by turns; answers for each the p50, in seconds.
async fn by_turns(row: &Row, untouched: &[Row]) -> Outcome<Vec<f64>> {
    let rows: Vec<&Row> = std::iter::once(row).chain(untouched).collect();
    let mut times = vec![Vec::new(); rows.len()];
    for turn in 0..LOOKS {
        // Each comes first, in the middle and last as often as the others.
        for which in (0..rows.len()).map(|place| (place + turn) % rows.len()) {
            times[which].push(rows[which].look().await?);
        }
    }
    let middle = |times: Vec<Duration>| percentile(&times, 50).map_or(f64::NAN, |time| time.as_secs_f64());
    Ok(times.into_iter().map(middle).collect())
}

/// How the looks of each part, over those at another row at the same time, compare with that at the beginning.
fn drift(looks: &[f64], beside: &[f64]) -> Vec<f64> {
    let ratios: Vec<f64> = looks.iter().zip(beside).map(|(look, beside)| look / beside).collect();
    ratios[1..].iter().map(|ratio| ratio / ratios[0]).collect()
}

/// A lease on one store.
struct Row {
    store: Arc<dyn LeaseStore>,
    name: LeaseName,
    holder: Holder,
    ttls: Ttls,
}

impl Row {
    async fn claim(place: &Place) -> Outcome<Self> {
        let store = place.store().await?;
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
