//! What `lease run --rerun` claims: the second and last run of a round that was cut short.

use std::time::Duration;

use lease_core::{ClearError, LeaseName, Leases, Sighting, Slot, Standing, UnfinishedSlot};

use crate::claim::{Answer, despite, failed, given_up};
use crate::exit::Failure;
use crate::holding::Holding;
use crate::instant;
use crate::signals::Signals;
use crate::status::refusal;

/// After a claim whose outcome is unknown.
const UNKNOWN: &str = "; the rerun may be used up by this";

/// Claims the rerun, if there is one. A signal ends every wait but that for the answer to the claim: a rerun
/// that is granted is used up, and to be spoken of.
pub(crate) async fn claim(
    leases: &Leases,
    name: &LeaseName,
    signals: &mut Signals,
) -> Result<Answer, Failure> {
    let unfinished = match signals.or_signal(find(leases, name)).await {
        Ok(found) => found?,
        Err(signal) => return Ok(Answer::Ended(signal)),
    };
    if let Some(unfinished) = unfinished {
        tracing::debug!(lease = %name, slot = %unfinished.slot, "claiming a rerun");
        let claimed = match signals.or_second_signal(leases.claim_rerun(&unfinished)).await {
            Ok((claimed, None)) => claimed,
            Ok((claimed, Some(signal))) => return despite(signal, claimed, UNKNOWN),
            Err(signal) => return Err(given_up(signal, name, unfinished.slot, UNKNOWN)),
        };
        if let Some(round) = claimed.map_err(|error| failed(error, UNKNOWN))? {
            return Ok(Answer::Granted(Holding::Round(round)));
        }
    }
    match signals.or_signal(why_not(leases, name)).await {
        Ok(why) => why,
        Err(signal) => Ok(Answer::Ended(signal)),
    }
}

/// The round to rerun. One whose holder the probe proves dead is cut short too, though its name is held yet.
async fn find(leases: &Leases, name: &LeaseName) -> Result<Option<UnfinishedSlot>, Failure> {
    let found = leases.unfinished_slots([name.clone()]).await?.pop();
    if found.is_some() || not_rerun(&leases.status(name.clone()).await?).is_none() {
        return Ok(found);
    }
    match leases.clear(name.clone(), Duration::ZERO).await {
        Ok(_) => Ok(leases.unfinished_slots([name.clone()]).await?.pop()),
        Err(ClearError::Live(_)) => Ok(None),
        Err(ClearError::Store(error)) => Err(error.into()),
    }
}

/// The last instant, if its round is not finished and was not rerun.
fn not_rerun(seen: &Sighting) -> Option<Slot> {
    let row = seen.row()?;
    row.slot.filter(|_| row.unfinished_slot == row.slot && row.rerun_slot < row.slot)
}

/// Why there is nothing to rerun: for good, or because the name is held, by the round itself perhaps.
async fn why_not(leases: &Leases, name: &LeaseName) -> Result<Answer, Failure> {
    let seen = leases.status(name.clone()).await?;
    Ok(match not_rerun(&seen) {
        None => Answer::Nothing(format!(
            "{name:?} is not rerun: it has no round that was cut short and was not rerun yet ({})",
            seen.database()
        )),
        Some(slot) => {
            let is_held = seen.standing() == Standing::Held;
            let later = if is_held { "; if that round is cut short, --rerun runs it then" } else { "" };
            let (slot, refusal) = (instant::text(slot), refusal(&seen, "try again"));
            Answer::NotYetCutShort(format!("not rerun for {slot}: {refusal}{later}"))
        }
    })
}
