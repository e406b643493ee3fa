//! What `lease run` claims: a name, an instant of a schedule, or the rerun of a round that was cut short.

use std::time::Duration;

use lease_core::clock::sleep_until;
use lease_core::{Claimed, Error, LeaseName, Leases, Moment, Refusal, Slot, SlotClaimed};

use crate::args::RunArguments;
use crate::exit::{DATABASE, Failure, USAGE};
use crate::holding::Holding;
use crate::instant;
use crate::text::span;

/// How long an instant that has not come is waited for, whether waiting was asked for or not: a
/// schedule's daemon may have a clock a little ahead of the database's.
const AHEAD: Duration = Duration::from_secs(5);

/// The answer to a claim that did not fail.
pub(crate) enum Answer {
    Granted(Holding),
    Held(Refusal),
    /// There is nothing to run, for this reason: no failure, but the purpose of an instant.
    Nothing(String),
}

/// Claims what the arguments ask for, and waits for it as long as `wait` says.
pub(crate) async fn claim(
    leases: &Leases,
    name: &LeaseName,
    arguments: &RunArguments,
    wait: Option<Duration>,
) -> Result<Answer, Failure> {
    if let Some(slot) = arguments.slot {
        return claim_slot(leases, name, slot, wait.unwrap_or_default()).await;
    }
    if arguments.rerun {
        return claim_rerun(leases, name).await;
    }
    let claimed = match wait {
        None => leases.claim(name.clone()).await?,
        Some(wait) => leases.acquire(name.clone(), wait).await?,
    };
    Ok(match claimed {
        Claimed::Granted(lease) => Answer::Granted(Holding::Lease(lease)),
        Claimed::Held(held) => Answer::Held(held),
    })
}

/// As [`Leases::acquire`] waits, and for the instant to come.
async fn claim_slot(
    leases: &Leases,
    name: &LeaseName,
    slot: Slot,
    wait: Duration,
) -> Result<Answer, Failure> {
    let clock = leases.clock();
    let give_up = clock.now() + wait;
    let mut failed: Option<Error> = None;
    loop {
        let patience = give_up.since(clock.now()).max(AHEAD);
        let again = match leases.claim_slot(name.clone(), slot, patience).await {
            Ok(SlotClaimed::Granted(round)) => return Ok(Answer::Granted(Holding::Round(round))),
            Ok(SlotClaimed::Passed) => return passed(leases, name, slot, failed),
            Ok(SlotClaimed::NotYet(left)) => return Err(not_yet(leases, name, slot, left)),
            Ok(SlotClaimed::Held(held)) if clock.now() >= give_up => return Ok(Answer::Held(held)),
            Ok(SlotClaimed::Held(held)) => next_look(leases, &held).await,
            Err(error) if !error.retry_helps() => return Err(error.into()),
            Err(error) if clock.now() >= give_up => {
                let Failure { code, message, .. } = error.into();
                let message = format!("{message}; if it was claimed all the same, --rerun runs it");
                return Err(Failure::new(code, message));
            }
            Err(error) => {
                tracing::warn!(lease = %name, %error, "claim failed");
                failed = Some(error);
                clock.now() + leases.timings().retry_interval()
            }
        };
        sleep_until(clock, again.min(give_up)).await;
    }
}

/// When to ask for a held name again: when its row expires, at the latest after a campaign interval.
async fn next_look(leases: &Leases, held: &Refusal) -> Moment {
    let timings = leases.timings();
    let started = leases.clock().now();
    let wait = match held.inspect().await {
        Ok(seen) => seen.row.map_or(Duration::ZERO, |row| row.expires_at.since(seen.now)),
        Err(_) => timings.campaign_interval(),
    };
    started + wait.clamp(timings.tick(), timings.campaign_interval())
}

/// After a claim that failed, nobody knows whether it was that one to which the instant went.
fn passed(leases: &Leases, name: &LeaseName, slot: Slot, failed: Option<Error>) -> Result<Answer, Failure> {
    let slot = instant::text(slot);
    let database = leases.store().describe();
    match failed {
        None => Ok(Answer::Nothing(format!(
            "{name:?} is not run for {slot}: that instant, or a later one, has been claimed or skipped already ({database})"
        ))),
        Some(error) => Err(Failure::new(
            DATABASE,
            format!(
                "{name:?} is not run for {slot}: that instant is claimed by now, perhaps by the claim that failed; if so, --rerun runs it: {error}"
            ),
        )),
    }
}

fn not_yet(leases: &Leases, name: &LeaseName, slot: Slot, left: Duration) -> Failure {
    Failure::new(
        USAGE,
        format!(
            "{name:?} is not run for {}: by the clock of the database that instant comes in {}; check the clock of this machine, or wait for it with --wait ({})",
            instant::text(slot),
            span(left),
            leases.store().describe(),
        ),
    )
}

async fn claim_rerun(leases: &Leases, name: &LeaseName) -> Result<Answer, Failure> {
    let database = leases.store().describe();
    let Some(unfinished) = leases.unfinished_slots([name.clone()]).await?.pop() else {
        return Ok(Answer::Nothing(format!(
            "{name:?} is not rerun: it has no round that was cut short and was not rerun yet ({database})"
        )));
    };
    let slot = instant::text(unfinished.slot);
    match leases.claim_rerun(&unfinished).await {
        Ok(Some(round)) => Ok(Answer::Granted(Holding::Round(round))),
        Ok(None) => Ok(Answer::Nothing(format!(
            "{name:?} is not rerun for {slot}: somebody else has taken the name meanwhile ({database})"
        ))),
        Err(error) => {
            let used_up = if error.retry_helps() { "; the rerun may be used up by this" } else { "" };
            let Failure { code, message, .. } = error.into();
            Err(Failure::new(code, format!("{message}{used_up}")))
        }
    }
}
