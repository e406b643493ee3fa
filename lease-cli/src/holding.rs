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

    /// Which instant was given up for this one, as a sentence.
    pub(crate) fn superseded(&self) -> Option<String> {
        let Self::Round(round) = self else { return None };
        let superseded = round.superseded()?;
        let which = if superseded.rerun { "and its rerun were" } else { "was" };
        Some(format!(
            "{:?}: the round of {} {which} cut short, and will not be run again: {} has been claimed",
            round.lease().name(),
            instant::text(superseded.slot),
            instant::text(round.slot()),
        ))
    }

    /// Gives the name back, a round that ran to its end being recorded as finished. Answers the exit code.
    pub(crate) async fn end(&self, ended: Ended, signals: &mut Signals, quiet: bool) -> Result<u8, Failure> {
        match self {
            Self::Round(round) if ended.ran_to_its_end => finish(round, ended.outcome, signals).await,
            Self::Round(round) => {
                release(round.lease(), "the command has ended", signals).await;
                if ended.outcome.is_ok() && !ended.is_lost && !quiet {
                    self.say_cut_short(round, "");
                }
                ended.outcome
            }
            Self::Lease(lease) => {
                release(lease, "the command has ended", signals).await;
                ended.outcome
            }
        }
    }

    /// Gives back what a signal came for before the command was started.
    pub(crate) async fn end_not_begun(&self, signals: &mut Signals, quiet: bool) {
        release(self.lease(), "the command was not started", signals).await;
        if let Self::Round(round) = self
            && !quiet
        {
            if let Some(superseded) = self.superseded() {
                say_unmasked(&superseded);
            }
            self.say_cut_short(round, " before it began");
        }
    }

    fn say_cut_short(&self, round: &SlotLease, when: &str) {
        let (name, slot) = (round.lease().name(), instant::text(round.slot()));
        say_unmasked(&format!("{name:?}: the round of {slot} was cut short{when}; {}", self.again()));
    }
}

async fn release(lease: &Lease, so_far: &str, signals: &mut Signals) {
    let was_lost = !lease.check();
    // What was not given back when a signal comes expires.
    if let Ok(Err(error)) = signals.or_signal(lease.release()).await
        && !was_lost
    {
        say(&format!("{so_far}, but: {error}"));
    }
}

async fn finish(
    round: &SlotLease,
    outcome: Result<u8, Failure>,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let is_rerun = round.is_rerun();
    tracing::debug!(lease = %round.lease().name(), "recording the end of the round");
    // A first signal was meant for the command, which has ended.
    let problem = match signals.or_second_signal(round.finish(None)).await {
        Ok((Ok(FinishAnswer::Finished), _)) => return outcome,
        // It says so itself when it was lost before.
        Ok((Ok(FinishAnswer::Lost { .. }), _)) if outcome.is_err() => return outcome,
        Ok((Ok(FinishAnswer::Lost { .. }), _)) => {
            let name = round.lease().name();
            let message = format!(
                "lost {name:?} while the command ran: somebody else may have begun; its slot is not run again"
            );
            return Err(Failure::new(LOST, message));
        }
        Ok((Err(error), _)) => {
            let so = if is_rerun { "its slot stays unfinished" } else { "it may be run again with --rerun" };
            format!("{error}; {so}")
        }
        Err(_) => {
            let so = if is_rerun { "" } else { ", and if it is not, --rerun runs it again" };
            format!(
                "a signal ended the wait for the database; whether it is recorded is unknown: `lease slots` says so{so}"
            )
        }
    };
    say(&format!("the command has ended, but: {problem}"));
    match outcome {
        Ok(SUCCESS) => Ok(DATABASE),
        outcome => outcome,
    }
}
