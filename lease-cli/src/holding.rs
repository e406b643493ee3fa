//! What a command runs under, a lease or a round of a schedule, and how that ends.

use lease_core::{FinishAnswer, Lease, SlotLease};

use crate::exit::{DATABASE, Failure, LOST, SUCCESS, say, say_unmasked};
use crate::instant;
use crate::signals::Signals;
use crate::supervise::Ended;

/// A name that was granted, and with a round an instant.
pub(crate) enum Holding {
    Lease(Lease),
    Round(SlotLease),
}

impl Holding {
    pub(crate) fn lease(&self) -> &Lease {
        match self {
            Self::Lease(lease) => lease,
            Self::Round(round) => round.lease(),
        }
    }

    /// What the command finds in its environment. `None` is taken out: it would be of a round that `lease`
    /// itself runs in.
    pub(crate) fn variables(&self) -> [(&'static str, Option<String>); 5] {
        let lease = self.lease();
        let (slot, rerun) = match self {
            Self::Lease(_) => (None, None),
            Self::Round(round) => {
                (Some(instant::text(round.slot())), Some(u8::from(round.is_rerun()).to_string()))
            }
        };
        [
            ("LEASE_NAME", Some(lease.name().to_string())),
            ("LEASE_TERM", Some(lease.term().to_string())),
            ("LEASE_HOLDER", Some(lease.holder().to_string())),
            ("LEASE_SLOT", slot),
            ("LEASE_RERUN", rerun),
        ]
    }

    /// What to do about a command that did not run to its end, as the end of a sentence.
    pub(crate) fn again(&self) -> &'static str {
        match self {
            Self::Lease(_) => "run it again",
            Self::Round(round) if round.is_rerun() => "run it by hand, for this was the rerun of its slot",
            Self::Round(_) => "run it once more with --rerun",
        }
    }

    /// Says which instant was given up for this one.
    pub(crate) fn say_superseded(&self) {
        let Self::Round(round) = self else { return };
        let Some(superseded) = round.superseded() else { return };
        let which = if superseded.rerun { "and its rerun were" } else { "was" };
        say_unmasked(&format!(
            "{:?}: the round of {} {which} cut short, and will not be run again: that of {} begins",
            round.lease().name(),
            instant::text(superseded.slot),
            instant::text(round.slot()),
        ));
    }

    /// Gives the name back, a round that ran to its end being recorded as finished. Answers the exit code.
    pub(crate) async fn end(&self, ended: Ended, signals: &mut Signals, quiet: bool) -> Result<u8, Failure> {
        match self {
            Self::Round(round) if ended.ran_to_its_end => finish(round, ended.outcome, signals).await,
            Self::Round(round) => {
                if ended.outcome.is_ok() && !ended.is_lost && !quiet {
                    let (name, slot) = (round.lease().name(), instant::text(round.slot()));
                    say_unmasked(&format!("{name:?}: the round of {slot} was cut short; {}", self.again()));
                }
                release(round.lease(), signals).await;
                ended.outcome
            }
            Self::Lease(lease) => {
                release(lease, signals).await;
                ended.outcome
            }
        }
    }
}

async fn release(lease: &Lease, signals: &mut Signals) {
    let was_lost = !lease.check();
    tokio::select! {
        released = lease.release() => if let Err(error) = released && !was_lost {
            say(&format!("the command has ended, but: {error}"));
        },
        // What was not given back by then expires.
        _ = signals.next_to_end() => {}
    }
}

async fn finish(
    round: &SlotLease,
    outcome: Result<u8, Failure>,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let problem = tokio::select! {
        answer = round.finish(None) => match answer {
            Ok(FinishAnswer::Finished) => return outcome,
            // It says so itself when it was lost before.
            Ok(FinishAnswer::Lost { .. }) if outcome.is_err() => return outcome,
            Ok(FinishAnswer::Lost { .. }) => {
                let name = round.lease().name();
                let message = format!(
                    "lost {name:?} while the command ran: somebody else may have begun; its slot is not run again"
                );
                return Err(Failure::new(LOST, message));
            }
            Err(error) => error.to_string(),
        },
        _ = signals.next_to_end() => "a signal ended the wait for the database to record it".to_owned(),
    };
    let so = if round.is_rerun() { "its slot stays unfinished" } else { "it may be run again with --rerun" };
    say(&format!("the command has ended, but: {problem}; {so}"));
    match outcome {
        Ok(SUCCESS) => Ok(DATABASE),
        outcome => outcome,
    }
}
