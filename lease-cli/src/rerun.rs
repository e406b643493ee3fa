//! What `lease run --rerun` claims: the second and last run of a round that was cut short.

use std::sync::Arc;

use lease_core::{LeaseName, Leases};

use crate::claim::{Answer, despite, failed, given_up};
use crate::database::Store;
use crate::exit::Failure;
use crate::holding::Holding;
use crate::instant;
use crate::signals::Signals;
use crate::status::{inspect, refusal};

/// After a claim whose outcome is unknown.
const UNKNOWN: &str = "; the rerun may be used up by this";

/// Claims the rerun, if there is one. A signal ends every wait but that for the answer to the claim: a rerun
/// that is granted is used up, and to be spoken of.
pub(crate) async fn claim(
    leases: &Leases,
    name: &LeaseName,
    signals: &mut Signals,
) -> Result<Answer, Failure> {
    let unfinished = match signals.or_signal(leases.unfinished_slots([name.clone()])).await {
        Ok(found) => found?.pop(),
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

/// Why there is nothing to rerun: for good, or because the name is held, by the round itself perhaps.
async fn why_not(leases: &Leases, name: &LeaseName) -> Result<Answer, Failure> {
    let seen = inspect(&Store(Arc::clone(leases.store())), name).await?;
    let database = leases.store().describe();
    let unfinished = seen.row.as_ref().and_then(|row| {
        let last = row.slot.filter(|_| row.unfinished_slot == row.slot && row.rerun_slot < row.slot)?;
        Some((instant::text(last), row.is_live(seen.now)))
    });
    Ok(match unfinished {
        None => Answer::Nothing(format!(
            "{name:?} is not rerun: it has no round that was cut short and was not rerun yet ({database})"
        )),
        Some((slot, is_held)) => {
            let later = if is_held { "; if that round is cut short, --rerun runs it then" } else { "" };
            let refusal = refusal(name, &database, &seen, "try again");
            Answer::NotYetCutShort(format!("not rerun for {slot}: {refusal}{later}"))
        }
    })
}
