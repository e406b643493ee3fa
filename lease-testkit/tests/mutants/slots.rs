//! Wrong ways to claim, finish and rerun the instants of a schedule.

use std::slice;
use std::time::Duration;

use lease_core::store::{
    Claim, ConditionalAnswer, DbTime, FinishAnswer, LeaseRow, SlotAnswer, SlotEnd, StoreError, Superseded,
    UnfinishedSlot, millis,
};
use lease_core::{LeaseName, LeaseStore, Slot, Term};

use tokio::task::yield_now;

use super::broken::Broken;
use super::mutant::{ALL, Mutant};

impl Mutant {
    pub(crate) async fn claim_slot_wrongly(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        if let Some(answer) = self.is_crowded(SlotAnswer::Held).await {
            return answer;
        }
        let (inner, name) = (&self.inner, &claim.name);
        let slot = match Slot::from_millis(slot.as_millis() / 1_000 * 1_000) {
            Some(second) if self.is(Broken::SlotInSeconds) => second,
            _ => slot,
        };
        let read = inner.inspect(name, within).await?;
        let last = read.row.as_ref().and_then(|row| row.slot);
        let free = read.row.as_ref().is_none_or(|row| !row.is_live(read.now));
        self.overlook_what_ends_a_round(&read, slot).await?;
        match self.broken {
            Broken::SlotTwice if free && last == Some(slot) => inner.edit_row(name, |row| row.slot = None),
            Broken::SlotBackwards if free && last.is_some_and(|last| last > slot) => {
                inner.edit_row(name, |row| row.slot = None);
            }
            Broken::SlotEarly => {
                // The hour by which a replica's clock may run ahead, say.
                let ahead = slot.as_millis() - read.now.as_millis();
                if (1..=3_600_000).contains(&ahead) {
                    inner.step_clock(ahead);
                    let answer = inner.claim_slot(claim, slot, within).await;
                    inner.step_clock(-ahead);
                    return answer;
                }
            }
            Broken::HeldBeforeNotYet if !free && last.is_none_or(|last| last < slot) => {
                return Ok(SlotAnswer::Held);
            }
            Broken::SlotTakesHeld if !free && last.is_none_or(|last| last < slot) => {
                inner.edit_row(name, |row| row.expires_at = DbTime::RELEASED);
            }
            Broken::HeldBeforePassed if !free => return Ok(SlotAnswer::Held),
            Broken::SlotExclusive if slot.as_millis() == read.now.as_millis() => {
                return Ok(SlotAnswer::NotYet(Duration::ZERO));
            }
            Broken::SlotTwoInsert if read.row.is_none() => {
                self.gates.meet().await;
                let granted = SlotAnswer::Granted { term: Term::FIRST, superseded: None };
                return inner.claim_slot(claim, slot, within).await.map(|_| granted);
            }
            Broken::SlotIgnoresTermRead if free && last.is_some_and(|last| last < slot) => {
                self.gates.meet().await;
                inner.edit_row(name, |row| (row.slot, row.expires_at) = (last, DbTime::RELEASED));
            }
            Broken::SlotForgottenAfterTtl if read.row.as_ref().is_some_and(|row| is_over(row, read.now)) => {
                inner.edit_row(name, |row| row.slot = None);
            }
            Broken::SlotIsTwoSteps if read.row.is_none() => {
                inner.claim(claim, within).await?;
                yield_now().await;
                inner.edit_row(name, |row| (row.slot, row.unfinished_slot) = (Some(slot), Some(slot)));
                return Ok(SlotAnswer::Granted { term: Term::FIRST, superseded: None });
            }
            _ => {}
        }
        let answer = inner.claim_slot(claim, slot, within).await?;
        let SlotAnswer::Granted { term, .. } = answer else {
            let waits = self.is(Broken::NotYetWithoutWait) && matches!(answer, SlotAnswer::NotYet(_));
            return Ok(if waits { SlotAnswer::NotYet(Duration::ZERO) } else { answer });
        };
        let superseded = match self.broken {
            Broken::SupersededUnsaid => None,
            Broken::SupersededAlways => last.map(|slot| Superseded { slot, rerun: false }),
            Broken::SlotNotUnfinished => {
                inner.edit_row(name, |row| row.unfinished_slot = None);
                return Ok(answer);
            }
            Broken::SlotKeepsTerm => {
                inner.edit_row(name, |row| row.term = read.row.map_or(row.term, |before| before.term));
                return Ok(answer);
            }
            _ => return Ok(answer),
        };
        Ok(SlotAnswer::Granted { term, superseded })
    }

    pub(crate) async fn finish_slot_wrongly(
        &self,
        end: &SlotEnd,
        within: Duration,
    ) -> Result<FinishAnswer, StoreError> {
        let (inner, name) = (&self.inner, &end.name);
        let Some(before) = self.row(name).await? else {
            return inner.finish_slot(end, within).await;
        };
        let finished_before = before.unfinished_slot.is_none();
        if self.overlooks_ends() && !finished_before {
            self.gates.meet().await;
        }
        let mut end = end.clone();
        match self.broken {
            Broken::FinishIgnoresHolder => end.holder = before.holder,
            Broken::FinishSkipExclusive => {
                let now = inner.inspect(name, within).await?.now;
                end.passed = end.passed.filter(|passed| passed.as_millis() != now.as_millis());
            }
            Broken::FinishIgnoresLost => end.lost = false,
            Broken::FinishForgetsPassed => end.passed = None,
            Broken::FinishWantsLive => {
                let now = inner.inspect(name, within).await?.now;
                end.lost |= !before.is_live(now);
            }
            Broken::FinishIsTwoSteps if before.holder == end.holder => {
                inner.edit_row(name, |row| row.unfinished_slot = None);
                yield_now().await;
            }
            _ => {}
        }
        let answer = inner.finish_slot(&end, within).await?;
        match (self.broken, answer) {
            (Broken::EndNotRecorded, _) => {
                inner.edit_row(name, |row| row.unfinished_slot = before.unfinished_slot);
            }
            (Broken::FinishFreesSuccessor, FinishAnswer::Lost { recorded: true }) => {
                inner.edit_row(name, |row| row.expires_at = DbTime::RELEASED);
            }
            (Broken::FinishAlwaysRecorded, FinishAnswer::Lost { .. }) => {
                return Ok(FinishAnswer::Lost { recorded: true });
            }
            (Broken::FinishDeniesRecord, FinishAnswer::Lost { .. }) => {
                return Ok(FinishAnswer::Lost { recorded: false });
            }
            (Broken::FinishKeepsName, FinishAnswer::Finished) => {
                inner.edit_row(name, |row| row.expires_at = before.expires_at);
            }
            (Broken::FinishReopensLater, FinishAnswer::Lost { .. }) => {
                inner.edit_row(name, |row| row.slot = Some(end.slot));
            }
            (Broken::FinishEndsLater, FinishAnswer::Lost { .. }) => {
                inner.edit_row(name, |row| row.unfinished_slot = None);
            }
            (Broken::FinishSkipsBeyondClock, FinishAnswer::Finished) => {
                inner.edit_row(name, |row| row.slot = row.slot.max(end.passed));
            }
            (Broken::FinishMovesBack, FinishAnswer::Finished) => {
                inner.edit_row(name, |row| row.slot = end.passed.or(row.slot));
            }
            (Broken::FinishOnce, FinishAnswer::Finished) if finished_before => {
                return Ok(FinishAnswer::Lost { recorded: false });
            }
            _ => {}
        }
        Ok(answer)
    }

    pub(crate) async fn unfinished_slots_wrongly(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        let mut found = self.inner.unfinished_slots(names, within).await?;
        if self.is(Broken::NoNamesIsAll) && names.is_empty() {
            let rows = self.inner.list(&ALL, within).await?.rows;
            let all: Vec<LeaseName> = rows.into_iter().map(|row| row.name).collect();
            return self.inner.unfinished_slots(&all, within).await;
        }
        match self.broken {
            Broken::UnfinishedTwice => {
                found.clear();
                for name in names {
                    found.extend(self.inner.unfinished_slots(slice::from_ref(name), within).await?);
                }
            }
            Broken::UnfinishedForgetsTerm => found.iter_mut().for_each(|found| found.term = Term::FIRST),
            Broken::UnfinishedStopsShort => {
                found.retain(|found| names.iter().take(999).any(|name| *name == found.name));
            }
            _ => {}
        }
        for name in names {
            let read = self.inner.inspect(name, within).await?;
            let Some(row) = read.row else { continue };
            let free = !row.is_live(read.now);
            let slot = row.slot.or(Slot::from_millis(1).filter(|_| self.is(Broken::UnfinishedWithoutSlots)));
            let Some(slot) = slot else { continue };
            let wrong = match self.broken {
                Broken::UnfinishedIsLast => row.unfinished_slot.is_none() && free,
                Broken::UnfinishedWhileHeld => row.unfinished_slot.is_some() && !free,
                Broken::UnfinishedForEver => row.rerun_slot == Some(slot),
                Broken::UnfinishedWithoutSlots => row.slot.is_none() && free,
                Broken::UnfinishedWantsReleased => row.expires_at != DbTime::RELEASED,
                Broken::UnfinishedAfterAnyRerun => row.rerun_slot.is_some(),
                _ => continue,
            };
            match self.broken {
                Broken::UnfinishedWantsReleased | Broken::UnfinishedAfterAnyRerun => {
                    found.retain(|found| !wrong || found.name != *name);
                }
                _ if wrong => found.push(UnfinishedSlot { name: name.clone(), slot, term: row.term }),
                _ => {}
            }
        }
        Ok(found)
    }

    pub(crate) async fn claim_rerun_wrongly(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        if let Some(answer) = self.is_crowded(ConditionalAnswer::Moved).await {
            return answer;
        }
        let (inner, name) = (&self.inner, &claim.name);
        let mut unfinished = unfinished.clone();
        self.overlook_what_ends_a_round(&inner.inspect(name, within).await?, unfinished.slot).await?;
        match (self.broken, self.row(name).await?) {
            (Broken::RerunWantsReleased, Some(row)) if row.expires_at != DbTime::RELEASED => {
                return Ok(ConditionalAnswer::Moved);
            }
            (Broken::RerunIgnoresWhatItRead, Some(row)) if row.rerun_slot.is_none() => {
                self.gates.meet().await;
                inner.edit_row(name, |row| (row.rerun_slot, row.expires_at) = (None, DbTime::RELEASED));
                unfinished.term = self.row(name).await?.map_or(row.term, |row| row.term);
            }
            (Broken::RerunWhileHeld, Some(_)) => {
                inner.edit_row(name, |row| row.expires_at = DbTime::RELEASED);
            }
            (Broken::RerunIgnoresTerm, Some(row)) => unfinished.term = row.term,
            (Broken::RerunIgnoresSlot, Some(_)) => inner.edit_row(name, |row| {
                (row.slot, row.unfinished_slot) = (Some(unfinished.slot), Some(unfinished.slot));
            }),
            (Broken::RerunIgnoresUnfinished, Some(_)) => {
                inner.edit_row(name, |row| row.unfinished_slot = row.slot);
            }
            _ => {}
        }
        let answer = inner.claim_rerun(claim, &unfinished, within).await?;
        if answer != ConditionalAnswer::Moved {
            match self.broken {
                Broken::RerunTwice => inner.edit_row(name, |row| row.rerun_slot = None),
                Broken::RerunKeepsTerm => inner.edit_row(name, |row| row.term = unfinished.term),
                _ => {}
            }
        }
        Ok(answer)
    }

    pub(crate) async fn last_slot_wrongly(
        &self,
        name: &LeaseName,
        within: Duration,
    ) -> Result<Option<Slot>, StoreError> {
        let last = self.inner.last_slot(name, within).await?;
        Ok(match self.row(name).await? {
            Some(row) if self.is(Broken::LastSlotIsUnfinished) => row.unfinished_slot,
            _ => last,
        })
    }
}

/// Whether the round was finished, and its ttl has passed.
fn is_over(row: &LeaseRow, now: DbTime) -> bool {
    let until = row.claimed_at.as_millis().saturating_add(millis(row.ttl));
    row.unfinished_slot.is_none() && until <= now.as_millis()
}
