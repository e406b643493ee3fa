//! Releases and claims of sixteen at once, with notices and without.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lease_core::{Claimed, LeaseStore, Leases};

use crate::engine::fresh_name;
use crate::figures::Ratios;
use crate::observed::{Notifying, ObservedStore};
use crate::report::{Figure, Goal};
use crate::{Outcome, Trial};

const CONNECTIONS: usize = 16;

/// What is to be left with notices.
const LEFT: f64 = 0.7;

pub(crate) async fn ask(trial: &Trial<'_>) -> Outcome<Vec<Figure>> {
    let mut stores = Vec::new();
    for _ in 0..CONNECTIONS {
        stores.push(trial.place.store().await?);
    }
    // Somebody listens, or telling might cost nothing.
    let listener = trial.place.store().await?;
    let (rounds, window) = (trial.count(9, 5), Duration::from_millis(if trial.quick { 800 } else { 3000 }));
    // The pair of equals: what lies between them is chance.
    let mut rates = [const { Vec::new() }; 3];
    round(&stores, Notifying::On, window / 4).await?;
    for n in 0..rounds {
        // Each comes first, in the middle and last as often as the others.
        for which in (0..3).map(|place| (place + n) % 3) {
            let notifying = if which == 0 { Notifying::On } else { Notifying::Off };
            let listening = (notifying == Notifying::On).then(|| listener.notices());
            rates[which].push(round(&stores, notifying, window).await?);
            drop(listening);
        }
        trial.progress.step("rounds", n + 1, rounds);
    }
    let [on, off, off_again] = rates;
    let (ratio, equals) = (Ratios::new(&on, &off), Ratios::new(&off_again, &off));
    Ok(vec![
        Figure::of_ratios("with notices over without", &ratio, equals.chance()).goal(Goal::AtLeast(LEFT)),
        Figure::new("without", mean(&off), "pairs/s"),
    ])
}

/// Everybody claims and releases a name of its own for so long; answers pairs per second, counted until all that
/// belongs to them has gone out, the notices too.
async fn round(stores: &[Arc<dyn LeaseStore>], notifying: Notifying, window: Duration) -> Outcome<f64> {
    let begun = Instant::now();
    let tasks: Vec<_> = stores
        .iter()
        .enumerate()
        .map(|(n, store)| {
            let store = ObservedStore::new(Arc::clone(store), notifying);
            tokio::spawn(async move {
                let leases = Leases::new(store)?;
                let name = fresh_name(&format!("throughput {n}"));
                let mut pairs = 0_u32;
                while begun.elapsed() < window {
                    let Claimed::Granted(lease) = leases.claim(name.as_str()).await? else {
                        return Err("a name of its own is held".into());
                    };
                    lease.release().await?;
                    pairs += 1;
                }
                leases.close().await;
                Outcome::Ok(pairs)
            })
        })
        .collect();
    let mut pairs = 0;
    for task in tasks {
        pairs += task.await??;
    }
    Ok(f64::from(pairs) / begun.elapsed().as_secs_f64())
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / f64::from(u32::try_from(rates.len()).unwrap_or(u32::MAX))
}
