//! Wrong ways to claim, finish and rerun the instants of a schedule.

use std::time::Duration;

use lease_core::{
    Claim, ConditionalAnswer, DbTime, FinishAnswer, LeaseName, LeaseStore, Slot, SlotAnswer, SlotEnd,
    StoreError, UnfinishedSlot,
};

use crate::mutant::{Broken, Mutant};

impl Mutant {
    pub(crate) async fn claim_slot_wrongly(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        let (inner, name) = (&self.inner, &claim.name);
        let read = inner.inspect(name, within).await?;
        let last = read.row.as_ref().and_then(|row| row.slot);
        let free = read.row.as_ref().is_none_or(|row| !row.is_live(read.now));
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
            Broken::SlotIgnoresTermRead if free && last.is_some_and(|last| last < slot) => {
                self.gates.meet().await;
                inner.edit_row(name, |row| (row.slot, row.expires_at) = (last, DbTime::RELEASED));
            }
            _ => {}
        }
        match inner.claim_slot(claim, slot, within).await? {
            SlotAnswer::Granted { term, .. } if self.is(Broken::SupersededUnsaid) => {
                Ok(SlotAnswer::Granted { term, superseded: None })
            }
            answer => Ok(answer),
        }
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
        let end = SlotEnd { lost: end.lost && !self.is(Broken::FinishIgnoresLost), ..end.clone() };
        let answer = inner.finish_slot(&end, within).await?;
        match (self.broken, answer) {
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
        for name in names {
            let read = self.inner.inspect(name, within).await?;
            let Some(row) = read.row else { continue };
            let Some(slot) = row.unfinished_slot else { continue };
            let too_much = match self.broken {
                Broken::UnfinishedWhileHeld => row.is_live(read.now),
                Broken::UnfinishedForEver => row.rerun_slot == Some(slot),
                _ => false,
            };
            if too_much {
                found.push(UnfinishedSlot { name: name.clone(), slot, term: row.term });
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
        let (inner, name) = (&self.inner, &claim.name);
        let mut unfinished = unfinished.clone();
        match (self.broken, self.row(name).await?) {
            (Broken::RerunWhileHeld, Some(_)) => {
                inner.edit_row(name, |row| row.expires_at = DbTime::RELEASED);
            }
            (Broken::RerunIgnoresTerm, Some(row)) => unfinished.term = row.term,
            _ => {}
        }
        let answer = inner.claim_rerun(claim, &unfinished, within).await?;
        if self.is(Broken::RerunTwice) && answer != ConditionalAnswer::Moved {
            inner.edit_row(name, |row| row.rerun_slot = None);
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
