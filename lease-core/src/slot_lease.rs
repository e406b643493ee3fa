//! The rounds of a schedule: an instant claimed once per cluster, run to its end or rerun once.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use crate::claim::{Answer, Refused, Wanted, claim};
use crate::elect::pause;
use crate::error::Error;
use crate::panicked::message;
use crate::run::{begin, conclude};
use crate::store::{FinishAnswer, Superseded, UnfinishedSlot};
use crate::takeover::claim_past_the_dead;
use crate::{ErrorKind, Lease, LeaseName, Leases, LossReason, Refusal, RunError, Slot, Tenure};

impl Leases {
    /// Claims a name for one instant of a schedule, if nobody has claimed that instant, or a later one, before.
    ///
    /// The instant is kept in whole milliseconds since 1970 UTC, cut down. It must have come by the clock of the
    /// *database*, so a replica whose clock runs ahead cannot make others skip. For one that has not come this
    /// waits, for at most `wait` by the local clock (zero: not at all), and asks again when it should have come; it
    /// does not wait for a name that is held.
    ///
    /// Dropping the future leaves nothing behind but, when the claim had been sent, perhaps a round that is cut
    /// short: a grant that nobody waits for is given back, and found by [`unfinished_slots`](Self::unfinished_slots).
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim); [`ErrorKind::Invalid`] too for an instant within the
    /// first millisecond of 1970, before it, beyond a 64-bit count of milliseconds, or that becomes no [`SystemTime`]. After a failure of the store
    /// the instant may be claimed without anybody knowing: it is answered [`Passed`](SlotClaimed::Passed) then, and
    /// its round is one that was cut short. The instant that it gave up is then named by nobody.
    pub async fn claim_slot<N>(
        &self,
        name: N,
        instant: impl TryInto<SystemTime>,
        wait: Duration,
    ) -> Result<SlotClaimed, Error>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
    {
        let (name, slot) = (name.try_into()?, Slot::new(instant)?);
        let client = self.client();
        let asked = self.clock().now();
        let give_up = asked + wait;
        loop {
            match claim_past_the_dead::<Lease>(client, name.clone(), Wanted::Slot(slot)).await? {
                Answer::Granted { lease, superseded } => {
                    return Ok(SlotClaimed::Granted(SlotLease { lease, slot, rerun: false, superseded }));
                }
                Answer::Refused(Refused::Held) => {
                    return Ok(SlotClaimed::Held(Refusal::new(client, name, asked)));
                }
                Answer::Refused(Refused::Passed) => return Ok(SlotClaimed::Passed),
                Answer::Refused(Refused::NotYet(left)) => {
                    let again = self.clock().now() + left;
                    if again > give_up {
                        return Ok(SlotClaimed::NotYet(left));
                    }
                    pause(client, &name, again).await?;
                }
            }
        }
    }

    /// Of the names given, the rounds that were cut short and can be run once more: the last instant claimed, never
    /// finished, not run a second time, and the name free. One statement for all names; in no particular order.
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// An invalid name; a failure of the store.
    pub async fn unfinished_slots<N>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Vec<UnfinishedSlot>, Error>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
    {
        let names = names.into_iter().map(N::try_into).collect::<Result<Vec<_>, _>>()?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.client().ask(|store, within| store.unfinished_slots(&names, within)).await;
        found.map_err(|error| self.client().store_error_of_many("read the unfinished slots", error))
    }

    /// Claims the second and last run of a round that was cut short. `None`: something has moved since it was
    /// found: somebody else runs it again, or has the name, or has claimed a later instant.
    ///
    /// Dropping the future, as for [`claim_slot`](Self::claim_slot); the rerun is then used up.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim). After a failure of the store the rerun may be used up without anybody having run it.
    pub async fn claim_rerun(&self, unfinished: &UnfinishedSlot) -> Result<Option<SlotLease>, Error> {
        let UnfinishedSlot { name, slot, .. } = unfinished.clone();
        Ok(match claim::<Lease>(self.client(), name, Wanted::Rerun(unfinished.clone())).await? {
            Answer::Granted { lease, .. } => Some(SlotLease { lease, slot, rerun: true, superseded: None }),
            Answer::Refused(_) => None,
        })
    }

    /// The last instant of a name that was claimed or skipped; `None`: it never had one. So a schedule can tell
    /// instants that were missed from a job that never ran.
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// An invalid name; a failure of the store.
    pub async fn last_slot<N>(&self, name: N) -> Result<Option<Slot>, Error>
    where
        N: TryInto<LeaseName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        let last = self.client().ask(|store, within| store.last_slot(&name, within)).await;
        last.map_err(|error| self.client().store_error("read the last slot of lease", &name, error))
    }
}

/// The answer to a claim of an instant.
#[derive(Debug)]
#[must_use = "a granted round that is dropped is cut short"]
pub enum SlotClaimed {
    /// The instant and the name are ours.
    Granted(SlotLease),
    /// The name is held: an earlier round runs, or its holder has crashed and the row has not expired, or it is held
    /// without an instant; or it is being taken, or its row is locked, at this moment. Ask again: the instant may be
    /// granted later, or have been claimed meanwhile.
    Held(Refusal),
    /// The instant, or a later one, has been claimed or skipped. It is never granted any more.
    Passed,
    /// The instant has not come by the database's clock; it comes in this long.
    NotYet(Duration),
}

/// A round: the lease of one instant, renewed in the background like any [`Lease`].
///
/// It ends in one of two ways. [`finish`](Self::finish): it ran to its end, and is never run again. Or it is cut
/// short, by [`release`](Self::release), by dropping this, by a loss or a crash: then the instant stays
/// *unfinished*, and [`Leases::claim_rerun`] runs it again, once. [`run`](Self::run) does one or the other.
///
/// A shutdown waits for a round as for work: until it is finished, released or dropped.
#[must_use = "dropping a round cuts it short"]
pub struct SlotLease {
    lease: Lease,
    slot: Slot,
    rerun: bool,
    superseded: Option<Superseded>,
}

impl SlotLease {
    /// The lease: its name and term, and tenures for the work.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The instant.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Whether this is the second run, of a round that was cut short.
    pub fn is_rerun(&self) -> bool {
        self.rerun
    }

    /// The instant given up for this one: the one claimed before, when its round never finished. It is not run
    /// again. `None` for a rerun.
    ///
    /// It is named by this answer alone: when that is lost, by nobody. Who must make up for every instant keeps a
    /// record of their own.
    pub fn superseded(&self) -> Option<Superseded> {
        self.superseded
    }

    /// Records that the round ran to its end, and gives the name back. The instant is never run again.
    ///
    /// `passed` is the latest instant of the schedule that has come meanwhile: it and those before it are skipped
    /// for everybody. It is ignored if it is not later than this round's or has not come by the database's clock, and
    /// where the answer is [`FinishAnswer::Lost`]: what is skipped is then for the one to say who has the name. Never
    /// give an instant that you are about to claim: for a rerun, which ends when a later one is due, give `None`.
    ///
    /// Every [`Tenure`] is lost at once, and the end is sent when the last one is gone. So drop yours before: for one
    /// that is kept this waits for the deadline and the grace. Unless the lease was lost, the row is renewed until the
    /// end is on record. That is sent again after a failure, for a ttl, a margin and two attempts at most, and at least
    /// once; after that the name is given back. The end is recorded though the lease was lost, unless a later instant
    /// was claimed meanwhile. May be repeated; [`FinishAnswer::Lost`] then speaks of the repetition alone.
    ///
    /// Dropping the future, once polled, changes nothing of that: the end is recorded all the same.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a `passed` that can be no slot: nothing was done, the round
    /// is still ours. Otherwise the database could not be told in time, or the runtime that renews has gone: the
    /// instant may be unfinished, and be run again.
    pub async fn finish(&self, passed: Option<SystemTime>) -> Result<FinishAnswer, Error> {
        let passed = passed.map(Slot::new).transpose()?;
        self.lease.finish(self.slot, passed).await
    }

    /// Cuts the round short: gives the name back, the instant stays unfinished. Otherwise as [`Lease::release`].
    ///
    /// # Errors
    ///
    /// As [`Lease::release`].
    pub async fn release(&self) -> Result<(), Error> {
        self.lease.release().await
    }

    /// Runs the work of the round as [`Lease::run`] does, then ends the round:
    ///
    /// - **It ran to its end**, and is [finished](Self::finish): the work returned `Ok`, or it failed with its own
    ///   error or a panic before it was asked to stop, the lease held. Failed work is not run again by itself. What
    ///   happens once the work has returned, while a clone of its tenure is out, changes nothing of that.
    /// - **It was cut short**, and the instant stays unfinished: the work failed, or was aborted, after it was asked to
    ///   stop ([`Tenure::stopping`]: shutdown, step-down) or after the lease was lost. So work that heeds a request
    ///   to stop and leaves something undone returns an error.
    ///
    /// `passed` is asked once, when the work has run to its end and every tenure has gone, and not of a round cut short;
    /// see [`finish`](Self::finish). It must not block. Work that is never overrun answers `None`, and so does every rerun:
    /// an instant that you are about to claim would be skipped. One that panics or cannot be a slot counts as `None`.
    ///
    /// Dropping the future asks the work to stop and aborts it, and ends the round in the background while the caller's
    /// runtime lives: as finished if the work had returned, else as cut short.
    ///
    /// When the caller's runtime shuts down meanwhile, nobody knows how the round ended:
    /// [`RoundEnd::Unrecorded`], of [`ErrorKind::Runtime`].
    pub async fn run<F, Fut, T, E>(
        self,
        passed: impl FnOnce() -> Option<SystemTime> + Send + 'static,
        work: F,
    ) -> Round<T, E>
    where
        F: FnOnce(Tenure) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let Self { lease, slot, .. } = self;
        let name = lease.name().clone();
        let begun = match begin(&lease, work) {
            Ok(begun) => begun,
            Err(error) => return Round { result: Err(error), end: RoundEnd::CutShort },
        };
        let round = conclude(lease, begun, move |lease, outcome| async move {
            let end = if outcome.ran_to_its_end {
                match lease.finish(slot, latest_passed(&lease, passed)).await {
                    Ok(answer) => RoundEnd::Finished(answer),
                    Err(error) => RoundEnd::Unrecorded(error),
                }
            } else {
                // Tried until the row has expired; more there is not to say.
                drop(lease.release().await);
                RoundEnd::CutShort
            };
            Round { result: outcome.result, end }
        });
        // With its runtime the supervisor went, at any point: the end may even be on record.
        round.await.unwrap_or_else(|| {
            let message = format!(
                "nobody knows how slot {slot} of lease {name:?} ended: the runtime of its work has shut down"
            );
            Round {
                result: Err(RunError::Lost { reason: LossReason::Released, output: None }),
                end: RoundEnd::Unrecorded(Error::own(ErrorKind::Runtime, message)),
            }
        })
    }
}

impl fmt::Debug for SlotLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lease, slot, rerun, superseded } = self;
        f.debug_struct("SlotLease")
            .field("lease", lease)
            .field("slot", slot)
            .field("rerun", rerun)
            .field("superseded", superseded)
            .finish()
    }
}

/// What became of a round.
#[derive(Debug)]
#[must_use = "the work may have failed"]
pub struct Round<T, E> {
    /// What the work returned, as [`Lease::run`] says it: [`RunError::Lost`] has the reason of a loss.
    pub result: Result<T, RunError<T, E>>,
    /// What is on record of the instant.
    pub end: RoundEnd,
}

/// What is on record of a round that has ended.
#[derive(Debug)]
pub enum RoundEnd {
    /// It ran to its end, and the database was told. [`FinishAnswer::Finished`]: it is not claimed any more.
    /// [`FinishAnswer::Lost`]: the lease had been lost before, or the end was recorded by an attempt whose answer was
    /// lost, and somebody has claimed the name since. The round may be under way, or have been run, a second time.
    Finished(FinishAnswer),
    /// It was cut short, or not begun: it may be run once more, unless this was the rerun.
    CutShort,
    /// It ran to its end, but the database could not be told, or nobody knows whether it was: it may be run once more,
    /// unless this was the rerun. Of [`ErrorKind::Runtime`], not even whether it ran to its end is known.
    Unrecorded(Error),
}

fn latest_passed(lease: &Lease, passed: impl FnOnce() -> Option<SystemTime>) -> Option<Slot> {
    let problem = match catch_unwind(AssertUnwindSafe(passed)) {
        Ok(passed) => match passed.map(Slot::new).transpose() {
            Ok(passed) => return passed,
            Err(invalid) => invalid.to_string(),
        },
        Err(payload) => format!("asking for it panicked: {}", message(payload.as_ref())),
    };
    tracing::error!(lease = %lease.name(), term = %lease.term(), problem, "nothing is skipped: no instant passed");
    None
}
