//! A name on which every kind of write has something to do, on the store under test and on the model.

use std::time::Duration;

use lease_core::store::{Claim, DbTime, FinishAnswer, Observed, SlotAnswer, SlotEnd, StoreError};
use lease_core::{LeaseName, LeaseStore, Term};

use super::context::{Context, LONG, claim_of, end_of, holding, slot, unfinished};
use super::process::WITHIN;
use super::statement::{Answer, Shape, Statement, shape};
use crate::{ManualClock, MemoryStore};

/// The statements that write, those about slots first and each of these in its different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// For the instant after that of [`Start`].
    ClaimSlot,
    /// For one later still.
    ClaimSlotLater,
    /// For the instant of [`Start`] itself.
    ClaimSlotAgain,
    FinishSlot,
    /// The instant after it is skipped.
    FinishSlotPassed,
    /// By who knows that the lease is lost: nothing is skipped then, whatever it says.
    FinishSlotLost,
    ClaimRerun,
    Claim,
    Renew,
    RenewMany,
    Release,
    ClaimObserved,
    Clear,
    Resign,
}

impl Write {
    pub(crate) const ALL: [Self; 14] = [
        Self::ClaimSlot,
        Self::ClaimSlotLater,
        Self::ClaimSlotAgain,
        Self::FinishSlot,
        Self::FinishSlotPassed,
        Self::FinishSlotLost,
        Self::ClaimRerun,
        Self::Claim,
        Self::Renew,
        Self::RenewMany,
        Self::Release,
        Self::ClaimObserved,
        Self::Clear,
        Self::Resign,
    ];

    pub(crate) fn looks_at_slots(self) -> bool {
        matches!(
            self,
            Self::ClaimSlot
                | Self::ClaimSlotLater
                | Self::ClaimSlotAgain
                | Self::FinishSlot
                | Self::FinishSlotPassed
                | Self::FinishSlotLost
                | Self::ClaimRerun
        )
    }

    /// The statement as somebody sends it who has seen this of the row; `claim` is a claim of its own.
    fn on(self, seen: &Observed, term: Term, claim: &Claim) -> Statement {
        let former = Claim { holder: seen.holder, ..claim.clone() };
        let end = end_of(&former, slot(1));
        match self {
            Self::ClaimSlot => Statement::ClaimSlot(claim.clone(), slot(2)),
            Self::ClaimSlotLater => Statement::ClaimSlot(claim.clone(), slot(3)),
            Self::ClaimSlotAgain => Statement::ClaimSlot(claim.clone(), slot(1)),
            Self::FinishSlot => Statement::FinishSlot(end),
            Self::FinishSlotPassed => Statement::FinishSlot(SlotEnd { passed: Some(slot(2)), ..end }),
            Self::FinishSlotLost => {
                Statement::FinishSlot(SlotEnd { lost: true, passed: Some(slot(2)), ..end })
            }
            Self::ClaimRerun => {
                Statement::ClaimRerun(claim.clone(), unfinished(&claim.name, slot(1), term.get()))
            }
            Self::Claim => Statement::Claim(claim.clone()),
            // Another ttl than before: it moves the expiry even within the millisecond of the claim.
            Self::Renew => Statement::Renew(holding(&former), LONG * 2),
            Self::RenewMany => Statement::RenewMany(vec![holding(&former)], LONG * 2),
            Self::Release => Statement::Release(holding(&former)),
            Self::ClaimObserved => Statement::ClaimObserved(claim.clone(), *seen),
            Self::Clear => Statement::Clear(claim.name.clone(), *seen),
            Self::Resign => Statement::Resign(claim.name.clone(), term),
        }
    }
}

/// How a name stands when the writes begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// For a slot.
    Held,
    /// Free, with a slot that was never finished.
    Expired,
    /// Free, with a slot that was finished.
    Finished,
    /// Without a row.
    New,
}

/// A name that stands in one of these ways.
pub(crate) struct Start {
    before: Before,
    /// The round it had; on a new name, one that was never claimed.
    round: Claim,
}

impl Start {
    /// Nothing is sent yet.
    pub(crate) fn new(cx: &Context, end: &str, before: Before) -> Self {
        let ttl = if before == Before::Expired { cx.brief() } else { LONG };
        Self { before, round: Claim { ttl, ..cx.claim(end) } }
    }

    /// Brings the name there. If it is to be expired, the caller lets it expire.
    pub(crate) async fn make(&self, store: &dyn LeaseStore) -> Result<(), StoreError> {
        if self.before == Before::New {
            return Ok(());
        }
        let answer = store.claim_slot(&self.round, slot(1), WITHIN).await?;
        assert!(matches!(answer, SlotAnswer::Granted { .. }), "a slot of a new name was answered {answer:?}");
        if self.before == Before::Finished {
            let answer = store.finish_slot(&end_of(&self.round, slot(1)), WITHIN).await?;
            assert_eq!(answer, FinishAnswer::Finished, "the answer to the end of a held round");
        }
        Ok(())
    }

    pub(crate) fn name(&self) -> &LeaseName {
        &self.round.name
    }

    pub(crate) fn before(&self) -> Before {
        self.before
    }

    /// Claims for this name, for the writes that need one.
    pub(crate) fn claims<const N: usize>(&self) -> [Claim; N] {
        [(); N].map(|()| claim_of(&self.round.name))
    }

    /// The writes, each as somebody sends it who sees the row as it is now.
    pub(crate) async fn statements<const N: usize>(
        &self,
        store: &dyn LeaseStore,
        writes: [(Write, &Claim); N],
    ) -> Result<[Statement; N], StoreError> {
        let row = store.inspect(self.name(), WITHIN).await?.row;
        let never = Observed { holder: self.round.holder, expires_at: DbTime::RELEASED };
        let (seen, term) = row.map_or((never, Term::FIRST), |row| (row.observed(), row.term));
        Ok(writes.map(|(write, claim)| write.on(&seen, term, claim)))
    }

    /// What the reference model answers to some of the writes, one after the other, and leaves.
    /// All of them have seen the row as it was before the first.
    pub(crate) async fn model<const N: usize>(
        &self,
        writes: [(Write, &Claim); N],
        order: &[usize],
    ) -> ([Option<Answer>; N], Option<Shape>) {
        let model = self.on_model().await;
        let statements = self.statements(&model, writes).await.expect(MODEL);
        let mut answers = [const { None }; N];
        for &which in order {
            answers[which] = Some(statements[which].run(&model).await.expect(MODEL));
        }
        (answers, shape(&model, self.name()).await.expect(MODEL))
    }

    /// Whether the write, alone, changes anything.
    pub(crate) async fn is_changed_by(&self, write: Write) -> bool {
        let (model, [claim]) = (self.on_model().await, self.claims());
        let before = model.inspect(self.name(), WITHIN).await.expect(MODEL).row;
        let [statement] = self.statements(&model, [(write, &claim)]).await.expect(MODEL);
        statement.run(&model).await.expect(MODEL);
        model.inspect(self.name(), WITHIN).await.expect(MODEL).row != before
    }

    async fn on_model(&self) -> MemoryStore {
        let clock = ManualClock::new();
        let model = MemoryStore::with_clock(clock.clone());
        self.make(&model).await.expect(MODEL);
        let expires = self.before == Before::Expired;
        clock.advance(if expires { self.round.ttl } else { Duration::from_millis(1) });
        model
    }
}

const MODEL: &str = "the reference model never fails here";
