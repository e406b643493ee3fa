//! What `lease run` claims: a name, an instant of a schedule, or the rerun of a round that was cut short.

use std::time::Duration;

use lease_core::clock::sleep_until;
use lease_core::store::Inspection;
use lease_core::{Claimed, Error, LeaseName, Leases, Refusal, Slot, SlotClaimed};

use crate::args::RunArguments;
use crate::exit::{DATABASE, Failure, USAGE};
use crate::holding::Holding;
use crate::instant;
use crate::text::span;

/// How long is waited whether that was asked for or not: for an instant, since the clock of a schedule's
/// daemon may be a little ahead of the database's, and for the outcome of a claim by somebody else.
const SHORTLY: Duration = Duration::from_secs(5);

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
    let (clock, timings) = (leases.clock(), leases.timings());
    let give_up = clock.now() + wait;
    let decided_by = clock.now() + wait.max(SHORTLY);
    let mut failed: Option<Error> = None;
    loop {
        let left = give_up.since(clock.now());
        let wait = match leases.claim_slot(name.clone(), slot, left.max(SHORTLY)).await {
            Ok(SlotClaimed::Granted(round)) => return Ok(Answer::Granted(Holding::Round(round))),
            Ok(SlotClaimed::Passed) => return passed(leases, name, slot, failed),
            Ok(SlotClaimed::NotYet(left)) => return Err(not_yet(leases, name, slot, left)),
            Ok(SlotClaimed::Held(held)) => match obstacle(&held, slot).await {
                Obstacle::Passed => return passed(leases, name, slot, failed),
                Obstacle::Claim if clock.now() < decided_by => timings.tick(),
                Obstacle::Holder(held_for) if clock.now() < give_up => {
                    held_for.clamp(timings.tick(), timings.campaign_interval())
                }
                Obstacle::Claim | Obstacle::Holder(_) => return Ok(Answer::Held(held)),
            },
            Err(error) if !error.retry_helps() => return Err(error.into()),
            Err(error) if clock.now() >= give_up => {
                let Failure { code, message, .. } = error.into();
                let message = format!("{message}; if it was claimed all the same, --rerun runs it");
                return Err(Failure::new(code, message));
            }
            Err(error) => {
                tracing::warn!(lease = %name, %error, "claim failed");
                failed = Some(error);
                timings.retry_interval()
            }
        };
        let last = if clock.now() < give_up { give_up } else { decided_by };
        sleep_until(clock, last.min(clock.now() + wait)).await;
    }
}

/// What an instant was refused for, the name being held.
enum Obstacle {
    /// The instant was claimed by somebody who was faster.
    Passed,
    /// A claim by somebody else was under way, perhaps of the same instant: it is decided in a moment.
    Claim,
    /// Somebody holds the name for this long, unless it is renewed or released.
    Holder(Duration),
}

async fn obstacle(held: &Refusal, slot: Slot) -> Obstacle {
    let Ok(Inspection { now, row }) = held.inspect().await else { return Obstacle::Holder(Duration::MAX) };
    match row {
        Some(row) if row.slot >= Some(slot) => Obstacle::Passed,
        Some(row) if row.is_live(now) => Obstacle::Holder(row.expires_at.since(now)),
        _ => Obstacle::Claim,
    }
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
