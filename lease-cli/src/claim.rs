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
            Ok(SlotClaimed::Held(held)) => {
                // A holder that cannot be read is a holder.
                let held_for = held.inspect().await.map_or(Some(Duration::MAX), |seen| held_for(&seen, slot));
                match held_for {
                    None if clock.now() < decided_by => timings.tick(),
                    Some(held_for) if clock.now() < give_up => {
                        held_for.clamp(timings.tick(), timings.campaign_interval())
                    }
                    _ => return Ok(Answer::Held(held)),
                }
            }
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

/// For how long a name for which `slot` was refused is held, unless it is renewed or released. `None` when
/// that is decided in a moment: a claim by somebody else, perhaps of the same instant, was faster or is under way.
fn held_for(seen: &Inspection, slot: Slot) -> Option<Duration> {
    let row = seen.row.as_ref()?;
    (row.is_live(seen.now) && row.slot < Some(slot)).then(|| row.expires_at.since(seen.now))
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

#[cfg(test)]
mod tests {
    use lease_core::store::{DbTime, LeaseRow};

    use super::*;
    use crate::status::tests::{NOW, row};

    #[test]
    fn a_name_is_held_by_an_earlier_instant_or_none_and_everything_else_is_decided_in_a_moment() {
        let slot = |ms| Slot::from_millis(ms).unwrap();
        let held = |last: i64, expires_at| {
            let row = LeaseRow { slot: Slot::from_millis(last), expires_at, ..row("nightly") };
            held_for(&Inspection { now: NOW, row: Some(row) }, slot(5))
        };
        let later = DbTime::from_millis(NOW.as_millis() + 700);
        assert_eq!(held(0, later), Some(Duration::from_millis(700)));
        assert_eq!(held(4, later), Some(Duration::from_millis(700)));
        assert_eq!(held(5, later), None, "the same instant");
        assert_eq!(held(6, later), None, "a later one");
        assert_eq!(held(4, NOW), None, "free, so it was being taken");
        assert_eq!(held(0, DbTime::RELEASED), None);
        assert_eq!(held_for(&Inspection { now: NOW, row: None }, slot(5)), None);
    }
}
