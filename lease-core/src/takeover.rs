//! Names whose holder is proven dead though the database's clock does not say so yet, by the two ways there are:
//! a look at its process on this host, and a row that nobody has renewed for a whole ttl on our own clock.
//!
//! Either way the name is taken by a statement that takes place only if the row is still as it was judged, so a
//! holder that lives after all keeps its lease if it renews before that, and is fenced like any other if not.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Answer, Handle, Refused, Wanted, claim};
use crate::client::Client;
use crate::clock::Moment;
use crate::error::Error;
use crate::meter::Told;
use crate::store::{ClearAnswer, DbTime, Inspection, LeaseRow, Observed};
use crate::{LeaseName, Liveness, ProcessFacts, Timings};

/// Claims a name once. Is it held by a process of this host that the probe proves dead, it is taken from it.
pub(crate) async fn claim_past_the_dead<H: Handle>(
    client: &Arc<Client>,
    name: LeaseName,
    wanted: Wanted,
) -> Result<Answer<H>, Error> {
    let answer = claim::<H>(client, name.clone(), wanted.clone()).await?;
    if client.probe.is_none() || !matches!(answer, Answer::Refused(Refused::Held)) {
        return Ok(answer);
    }
    // A look that fails leaves it at the refusal.
    let Ok(seen) = client.inspect(&name).await else { return Ok(answer) };
    let Some(dead) = client.proven_dead(&seen) else { return Ok(answer) };
    if matches!(wanted, Wanted::Name) {
        return claim(client, name, Wanted::Observed(dead)).await;
    }
    // An instant is claimed from a free name only.
    match client.ask(|store, within| store.clear(&name, &dead, within)).await {
        Ok(ClearAnswer::Cleared) => {
            let answer = claim(client, name.clone(), wanted).await;
            if matches!(answer, Ok(Answer::Granted { .. })) {
                client.setup.meter.tell(|| Told::TakenOver(name));
            }
            answer
        }
        Ok(ClearAnswer::Moved) | Err(_) => Ok(answer),
    }
}

/// The process that holds a name, if a probe may judge it, and the row it holds it by.
#[derive(Debug)]
pub(crate) struct Suspect {
    facts: ProcessFacts,
    row: Observed,
}

impl Client {
    /// Who is to be judged of a row that was seen.
    pub(crate) fn suspect(&self, seen: &Inspection) -> Option<Suspect> {
        self.probe.as_ref()?;
        let row = live(seen)?;
        Some(Suspect { facts: row.process.parse().ok()?, row: row.observed() })
    }

    /// Asks the probe: no statement. The state to take the name by, of one that is proven dead.
    pub(crate) fn judge(&self, suspect: &Suspect) -> Option<Observed> {
        let is_dead = self.probe.as_ref()?.judge(&suspect.facts) == Liveness::Dead;
        is_dead.then(|| {
            tracing::info!(holder = %suspect.row.holder, process = %suspect.facts, "holder is dead");
            suspect.row
        })
    }

    /// The state of a live row whose holder's process is proven dead.
    pub(crate) fn proven_dead(&self, seen: &Inspection) -> Option<Observed> {
        self.judge(&self.suspect(seen)?)
    }
}

/// A clock that goes less than ours by more than this is not merely coarse: it stood still meanwhile.
const STANDS_STILL: Duration = Duration::from_millis(50);

/// Watches one row on our own clock: a healthy holder renews within its ttl, whatever the database's clock says.
#[derive(Debug, Default)]
pub struct Observer {
    unchanged: Option<Unchanged>,
}

#[derive(Debug)]
struct Unchanged {
    state: Observed,
    /// When the answer that showed it first had come: it was there by then. While the database's clock stands still,
    /// renewals change nothing that could be seen, and this moves on to the first look after that.
    since: Moment,
    /// What that clock showed at an earlier look, and when the answer to that had come.
    clock: DbTime,
    shown_at: Moment,
}

/// What a look at a row says of its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// There is none.
    Free,
    /// It has claimed or renewed since the last look, or this is the first. Dead at the moment named, unless it does so again.
    Changed(Moment),
    /// It has not renewed since an earlier look. Dead at the moment named.
    Unchanged(Moment),
    /// It has not renewed for its whole ttl and the margin.
    Dead(Observed),
}

impl Observer {
    /// Takes in a look that was sent and answered at these moments.
    pub fn look(&mut self, seen: &Inspection, [sent, answered]: [Moment; 2], timings: &Timings) -> Look {
        let Some(row) = live(seen) else {
            self.unchanged = None;
            return Look::Free;
        };
        // A row that somebody wrote by hand may say nothing of how often its holder renews.
        let patience = row.ttl.max(timings.ttl()).saturating_add(timings.margin());
        let (state, clock) = (row.observed(), seen.now);
        let Some(unchanged) = self.unchanged.as_mut().filter(|unchanged| unchanged.state == state) else {
            self.unchanged = Some(Unchanged { state, since: answered, clock, shown_at: answered });
            return Look::Changed(answered + patience);
        };
        let passed = sent.since(unchanged.shown_at);
        if passed >= STANDS_STILL {
            let stood_still = passed.saturating_sub(clock.since(unchanged.clock));
            // One that was stepped back did not stand still.
            if clock >= unchanged.clock && stood_still >= STANDS_STILL {
                unchanged.since = answered;
            }
            (unchanged.clock, unchanged.shown_at) = (clock, answered);
        }
        let dead_at = unchanged.since + patience;
        // It was so when this look was sent, or later.
        if sent >= dead_at { Look::Dead(state) } else { Look::Unchanged(dead_at) }
    }
}

fn live(seen: &Inspection) -> Option<&LeaseRow> {
    seen.row.as_ref().filter(|row| row.is_live(seen.now))
}

#[cfg(test)]
mod tests;
