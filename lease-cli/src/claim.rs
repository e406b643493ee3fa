//! What `lease run` claims: a name, or an instant of a schedule. The rerun of a round is claimed in [`rerun`].

use std::time::Duration;

use lease_core::clock::sleep_until;
use lease_core::store::Inspection;
use lease_core::{Claimed, Error, LeaseName, Leases, Refusal, Slot, SlotClaimed, SlotLease};

use crate::args::RunArguments;
use crate::exit::{DATABASE, Failure, USAGE, code_of_signal};
use crate::holding::Holding;
use crate::signals::Signals;
use crate::text::span;
use crate::{instant, rerun};

/// How long is waited whether that was asked for or not: for an instant, since the clock of a schedule's
/// daemon may be a little ahead of the database's, and for the outcome of a claim by somebody else.
const SHORTLY: Duration = Duration::from_secs(5);

/// The answer to a claim that did not fail.
pub(crate) enum Answer {
    Granted(Holding),
    Held(Refusal),
    /// The round that may have to be rerun later is not there to be rerun now, for this reason.
    NotYetCutShort(String),
    /// There is nothing to run, for this reason: no failure, but the purpose of an instant.
    Nothing(String),
    /// A signal ended it, and nothing was claimed.
    Ended(i32),
    /// This was granted, but a signal had come meanwhile.
    NotBegun(Holding, i32),
}

/// Claims what the arguments ask for, and waits for it as long as `wait` says, or until a signal comes.
pub(crate) async fn claim(
    leases: &Leases,
    name: &LeaseName,
    arguments: &RunArguments,
    wait: Option<Duration>,
    signals: &mut Signals,
) -> Result<Answer, Failure> {
    if let Some(slot) = arguments.slot {
        return claim_slot(leases, name, slot, wait.unwrap_or_default(), signals).await;
    }
    if arguments.rerun {
        return rerun::claim(leases, name, signals).await;
    }
    let claiming = async {
        match wait {
            None => leases.claim(name.clone()).await,
            Some(wait) => leases.acquire(name.clone(), wait).await,
        }
    };
    Ok(match signals.or_signal(claiming).await {
        Ok(claimed) => match claimed? {
            Claimed::Granted(lease) => Answer::Granted(Holding::Lease(lease)),
            Claimed::Held(held) => Answer::Held(held),
        },
        // A grant that nobody waits for is given back.
        Err(signal) => Answer::Ended(signal),
    })
}

/// What the claim of a round came to, when a signal came meanwhile.
///
/// # Errors
///
/// The claim failed; `unknown` says what that may mean.
pub(crate) fn despite(
    signal: i32,
    claimed: Result<Option<SlotLease>, Error>,
    unknown: &str,
) -> Result<Answer, Failure> {
    match claimed {
        Ok(Some(round)) => Ok(Answer::NotBegun(Holding::Round(round), signal)),
        Ok(None) => Ok(Answer::Ended(signal)),
        Err(error) => Err(Failure { code: code_of_signal(signal), ..failed(error, unknown) }),
    }
}

/// A claim that failed, and what that may mean if its outcome is unknown.
pub(crate) fn failed(error: Error, unknown: &str) -> Failure {
    let unknown = if error.retry_helps() { unknown } else { "" };
    let Failure { code, message, .. } = error.into();
    Failure::new(code, format!("{message}{unknown}"))
}

/// A claim of a round whose answer a second signal did not wait for.
pub(crate) fn given_up(signal: i32, name: &LeaseName, slot: Slot, unknown: &str) -> Failure {
    let slot = instant::text(slot);
    let message = format!("{name:?}: a signal ended the wait for the answer to the claim of {slot}{unknown}");
    Failure::new(code_of_signal(signal), message)
}

/// After a claim of an instant whose outcome is unknown.
const UNKNOWN: &str = "; if it was claimed all the same, --rerun runs it";

/// As [`Leases::acquire`] waits, and for the instant to come. A signal ends every wait but that for the answer to
/// a claim: an instant that is granted is used up, and to be spoken of.
async fn claim_slot(
    leases: &Leases,
    name: &LeaseName,
    slot: Slot,
    wait: Duration,
    signals: &mut Signals,
) -> Result<Answer, Failure> {
    let (clock, timings) = (leases.clock(), leases.timings());
    let give_up = clock.now() + wait;
    let decided_by = clock.now() + wait.max(SHORTLY);
    let mut failed: Option<Error> = None;
    loop {
        let comes_by = give_up.max(clock.now() + SHORTLY);
        tracing::debug!(lease = %name, %slot, "claiming");
        let claiming = leases.claim_slot(name.clone(), slot, Duration::ZERO);
        let claimed = match signals.or_second_signal(claiming).await {
            Ok((claimed, None)) => claimed,
            Ok((claimed, Some(signal))) => {
                let round = claimed.map(|claimed| match claimed {
                    SlotClaimed::Granted(round) => Some(round),
                    SlotClaimed::Held(_) | SlotClaimed::Passed | SlotClaimed::NotYet(_) => None,
                });
                return despite(signal, round, UNKNOWN);
            }
            Err(signal) => return Err(given_up(signal, name, slot, UNKNOWN)),
        };
        let last = if clock.now() < give_up { give_up } else { decided_by };
        let by = |wait| last.min(clock.now() + wait);
        let again = match claimed {
            Ok(SlotClaimed::Granted(round)) => return Ok(Answer::Granted(Holding::Round(round))),
            Ok(SlotClaimed::Passed) => return passed(leases, name, slot, failed),
            Ok(SlotClaimed::NotYet(left)) => {
                let comes_at = clock.now() + left;
                if comes_at > comes_by {
                    return Err(not_yet(leases, name, slot, left));
                }
                tracing::debug!(lease = %name, %slot, ?left, "has not come; asking again when it should have");
                comes_at
            }
            Ok(SlotClaimed::Held(held)) => {
                let state = match signals.or_signal(held.holder()).await {
                    // A holder that cannot be read is a holder.
                    Ok(seen) => {
                        seen.map_or(Held::For(Duration::MAX), |seen| Held::seen(seen.inspection(), slot))
                    }
                    Err(signal) => return Ok(Answer::Ended(signal)),
                };
                tracing::debug!(lease = %name, ?state, "held; asking again until the time is over");
                match state {
                    Held::Passed => return passed(leases, name, slot, failed),
                    Held::ForAMoment if clock.now() < decided_by => by(timings.tick()),
                    Held::For(time) if clock.now() < give_up => {
                        by(time.clamp(timings.tick(), timings.campaign_interval()))
                    }
                    _ => return Ok(Answer::Held(held)),
                }
            }
            Err(error) if !error.retry_helps() || clock.now() >= give_up => {
                return Err(self::failed(error, UNKNOWN));
            }
            Err(error) => {
                tracing::warn!(lease = %name, %error, "claim failed");
                failed = Some(error);
                by(timings.retry_interval())
            }
        };
        if let Err(signal) = signals.or_signal(sleep_until(clock, again)).await {
            return Ok(Answer::Ended(signal));
        }
    }
}

/// What is seen of a name that was refused for an instant because it was held.
#[derive(Debug, PartialEq, Eq)]
enum Held {
    /// The instant, or a later one, is claimed: by whoever was faster, or by a claim of ours that failed.
    Passed,
    /// So long, unless it is renewed or released.
    For(Duration),
    /// Not any more: a claim by somebody else was faster and is over, or is under way.
    ForAMoment,
}

impl Held {
    fn seen(seen: &Inspection, slot: Slot) -> Self {
        match &seen.row {
            Some(row) if row.slot >= Some(slot) => Self::Passed,
            Some(row) if row.is_live(seen.now) => Self::For(row.expires_at.since(seen.now)),
            _ => Self::ForAMoment,
        }
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

#[cfg(test)]
mod tests {
    use lease_core::store::{DbTime, LeaseRow};

    use super::*;
    use crate::status::tests::{NOW, row};

    #[test]
    fn a_refusal_holds_as_long_as_the_lease_unless_the_instant_is_on_record_by_then() {
        let slot = |ms| Slot::from_millis(ms).unwrap();
        let held = |last: i64, expires_at| {
            let row = LeaseRow { slot: Slot::from_millis(last), expires_at, ..row("nightly") };
            Held::seen(&Inspection { now: NOW, row: Some(row) }, slot(5))
        };
        let later = DbTime::from_millis(NOW.as_millis() + 700);
        assert_eq!(held(0, later), Held::For(Duration::from_millis(700)));
        assert_eq!(held(4, later), Held::For(Duration::from_millis(700)));
        // Held perhaps by this very process, by a claim that failed.
        assert_eq!(held(5, later), Held::Passed);
        assert_eq!(held(6, later), Held::Passed);
        assert_eq!(held(5, DbTime::RELEASED), Held::Passed);
        assert_eq!(held(4, NOW), Held::ForAMoment, "free, so it was being taken");
        assert_eq!(held(0, DbTime::RELEASED), Held::ForAMoment);
        assert_eq!(Held::seen(&Inspection { now: NOW, row: None }, slot(5)), Held::ForAMoment);
    }
}
