//! Each statement as it takes place at the database, with what the judge is told of it.

use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, DbTime, FinishAnswer, Holding, Inspection, Listing,
    Notices, Observed, Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd,
    StoreError, UnfinishedSlot, VerifyAnswer,
};
use lease_core::{Holder, LeaseName, LeaseStore, Slot, Term};
use lease_testkit::{MemoryStore, Op};

use super::database::at_once;
use super::link::Link;
use super::plan::Broken;
use super::world::State;

/// Within an hour nothing of a schedule is far.
const HOUR_MS: i64 = 3_600_000;

#[async_trait]
impl LeaseStore for Link {
    fn describe(&self) -> String {
        "the simulated database".to_owned()
    }

    fn min_ttl(&self) -> Duration {
        Duration::from_millis(1)
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        let (claim, node) = (claim.clone(), self.node);
        let statement = move |state: &mut State| {
            if state.database.keeps_out(&claim.name) {
                return Ok(ClaimAnswer::Held);
            }
            if state.database.broken == Some(Broken::GrantsWhatIsHeld) && state.random.percent(10) {
                let row = state.database.row(&claim.name).1;
                if row.is_some() {
                    state.database.memory.edit_row(&claim.name, |row| row.expires_at = DbTime::RELEASED);
                }
            }
            let answer = at_once(memory(state).claim(&claim, within))?;
            Ok(match answer {
                ClaimAnswer::Granted(term) => ClaimAnswer::Granted(state.note_grant(node, &claim, term)),
                ClaimAnswer::Held => answer,
            })
        };
        self.call(Op::Claim, within, statement).await
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        let (name, holder) = (name.clone(), *holder);
        self.world.with(|state| state.asked_to_prolong(name.as_str(), holder));
        let statement = move |state: &mut State| {
            let before = state.database.row(&name).1;
            let answer = at_once(memory(state).renew(&name, &holder, ttl, within))?;
            if matches!(answer, RenewAnswer::Renewed(_)) {
                state.note_renewal(&name, holder, before.map(|row| row.expires_at));
            }
            Ok(answer)
        };
        let answer = self.call(Op::Renew, within, statement).await?;
        if let RenewAnswer::Renewed(Renewed { step_down: true, .. }) = answer {
            self.world.with(|state| state.told_to_step_down(self.node, holder));
        }
        Ok(answer)
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        let (leases, asked) = (leases.to_vec(), leases);
        self.world.with(|state| {
            state.count("batches");
            for lease in &leases {
                state.asked_to_prolong(lease.name.as_str(), lease.holder);
            }
        });
        let statement = move |state: &mut State| {
            let answers = at_once(memory(state).renew_many(&leases, ttl, within))?;
            for (lease, answer) in leases.iter().zip(&answers) {
                if answer.is_some() {
                    state.note_renewal(&lease.name, lease.holder, None);
                }
            }
            Ok(answers)
        };
        let answers = self.call(Op::RenewMany, within, statement).await?;
        for (lease, answer) in asked.iter().zip(&answers) {
            if answer.as_ref().is_some_and(|renewed| renewed.step_down) {
                self.world.with(|state| state.told_to_step_down(self.node, lease.holder));
            }
        }
        Ok(answers)
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        let (name, holder) = (name.clone(), *holder);
        let statement = move |state: &mut State| at_once(memory(state).verify(&name, &holder, within));
        self.call(Op::Verify, within, statement).await
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let (name, holder) = (name.clone(), *holder);
        let statement = move |state: &mut State| {
            let answer = at_once(memory(state).release(&name, &holder, within))?;
            if answer == ReleaseAnswer::Released {
                state.released(name.as_str(), holder);
                state.freed(name.as_str(), Some(holder));
            }
            Ok(answer)
        };
        self.call(Op::Release, within, statement).await
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let (claim, observed, node) = (claim.clone(), *observed, self.node);
        let statement = move |state: &mut State| {
            if state.database.keeps_out(&claim.name) {
                return Ok(ConditionalAnswer::Moved);
            }
            let answer = at_once(memory(state).claim_observed(&claim, &observed, within))?;
            if let ConditionalAnswer::Granted(term) = answer {
                state.count("takeovers from the dead");
                state.note_grant(node, &claim, term);
            }
            Ok(answer)
        };
        self.call(Op::ClaimObserved, within, statement).await
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        let name = name.clone();
        let statement = move |state: &mut State| at_once(memory(state).inspect(&name, within));
        self.call(Op::Inspect, within, statement).await
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        let page = page.clone();
        self.call(Op::List, within, move |state| at_once(memory(state).list(&page, within))).await
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        let (name, observed) = (name.clone(), *observed);
        let statement = move |state: &mut State| {
            let answer = at_once(memory(state).clear(&name, &observed, within))?;
            if answer == ClearAnswer::Cleared {
                state.count("names cleared");
                state.freed(name.as_str(), None);
            }
            Ok(answer)
        };
        self.call(Op::Clear, within, statement).await
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        let name = name.clone();
        self.call(Op::Resign, within, move |state| at_once(memory(state).resign(&name, term, within))).await
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        let (claim, node) = (claim.clone(), self.node);
        let statement = move |state: &mut State| {
            if state.database.keeps_out(&claim.name) {
                return Ok(SlotAnswer::Held);
            }
            let mut answer = at_once(memory(state).claim_slot(&claim, slot, within))?;
            if matches!(answer, SlotAnswer::NotYet(_)) && state.database.broken == Some(Broken::GrantsEarly) {
                answer = claim_early(state, &claim, slot, within)?;
            }
            if let SlotAnswer::Granted { term, superseded } = answer {
                state.note_grant(node, &claim, term);
                state.slot_granted(slot.as_millis(), superseded);
            }
            Ok(answer)
        };
        self.call(Op::ClaimSlot, within, statement).await
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        let end = end.clone();
        let statement = move |state: &mut State| {
            let answer = at_once(memory(state).finish_slot(&end, within))?;
            let (slot, passed) = (end.slot.as_millis(), end.passed.map(Slot::as_millis));
            match answer {
                FinishAnswer::Finished => {
                    state.freed(end.name.as_str(), Some(end.holder));
                    state.end_recorded(slot, end.holder, passed);
                }
                FinishAnswer::Lost { recorded: true } => {
                    state.count("ends recorded after the loss");
                    state.end_recorded(slot, end.holder, None);
                }
                FinishAnswer::Lost { recorded: false } => {}
            }
            match state.database.broken {
                Some(Broken::ForgetsEnds) => {
                    state.database.memory.edit_row(&end.name, |row| row.unfinished_slot = row.slot);
                }
                Some(Broken::SkipsInstants) if answer == FinishAnswer::Finished => {
                    let next = Slot::from_millis(slot + state.setting.period_ms);
                    state.database.memory.edit_row(&end.name, |row| row.slot = row.slot.max(next));
                }
                _ => {}
            }
            Ok(answer)
        };
        self.call(Op::FinishSlot, within, statement).await
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        let names = names.to_vec();
        let statement = move |state: &mut State| at_once(memory(state).unfinished_slots(&names, within));
        self.call(Op::UnfinishedSlots, within, statement).await
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let (claim, unfinished, node) = (claim.clone(), unfinished.clone(), self.node);
        let statement = move |state: &mut State| {
            if state.database.keeps_out(&claim.name) {
                return Ok(ConditionalAnswer::Moved);
            }
            let answer = at_once(memory(state).claim_rerun(&claim, &unfinished, within))?;
            if let ConditionalAnswer::Granted(term) = answer {
                state.note_grant(node, &claim, term);
                state.rerun_granted(unfinished.slot.as_millis());
            }
            Ok(answer)
        };
        self.call(Op::ClaimRerun, within, statement).await
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        let name = name.clone();
        self.call(Op::LastSlot, within, move |state| at_once(memory(state).last_slot(&name, within))).await
    }

    fn notices(&self) -> Option<Notices> {
        if self.world.setting.hears { self.world.with(|state| state.database.memory.notices()) } else { None }
    }

    async fn announce(&self, name: &LeaseName, within: Duration) -> Result<(), StoreError> {
        let name = name.clone();
        let statement = move |state: &mut State| {
            state.announced = true;
            at_once(memory(state).announce(&name, within))
        };
        self.call(Op::Announce, within, statement).await
    }
}

/// Claims as if the instant had come; all else stays as it is by the true clock.
fn claim_early(state: &State, claim: &Claim, slot: Slot, within: Duration) -> Result<SlotAnswer, StoreError> {
    let memory = memory(state);
    if state
        .database
        .row(&claim.name)
        .1
        .is_some_and(|row| row.is_live(DbTime::from_millis(state.database.now_ms())))
    {
        return Ok(SlotAnswer::Held);
    }
    memory.step_clock(HOUR_MS);
    let answer = at_once(memory.claim_slot(claim, slot, within));
    memory.step_clock(-HOUR_MS);
    if let Ok(SlotAnswer::Granted { .. }) = answer {
        let back = |at: DbTime| DbTime::from_millis(at.as_millis() - HOUR_MS);
        memory.edit_row(&claim.name, |row| {
            (row.claimed_at, row.renewed_at) = (back(row.claimed_at), back(row.renewed_at));
            row.expires_at = back(row.expires_at);
        });
    }
    answer
}

fn memory(state: &State) -> MemoryStore {
    state.database.memory.clone()
}

impl State {
    /// Answers the term that the claim is told.
    fn note_grant(&mut self, node: usize, claim: &Claim, term: Term) -> Term {
        let repeats = self.database.broken == Some(Broken::RepeatsTerms);
        let earlier = Term::new(term.get() - 1).filter(|_| repeats);
        if let Some(earlier) = earlier {
            self.database.memory.edit_row(&claim.name, |row| row.term = earlier);
        }
        let term = earlier.unwrap_or(term);
        self.granted(node, claim.name.as_str(), claim.holder, term.get());
        term
    }

    fn note_renewal(&mut self, name: &LeaseName, holder: Holder, before: Option<DbTime>) {
        match before {
            Some(before) if self.database.broken == Some(Broken::ForgetsRenewals) => {
                self.database.memory.edit_row(name, |row| row.expires_at = before);
            }
            _ => self.prolonged(name.as_str(), holder),
        }
    }
}
