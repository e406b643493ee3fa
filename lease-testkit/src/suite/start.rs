//! A row from which every kind of write has something to do, on the store under test and on the model.

use std::time::Duration;

use lease_core::store::{Claim, LeaseRow, SlotAnswer, StoreError};
use lease_core::{LeaseName, LeaseStore};

use super::context::{Context, LONG, claim_of, end_of, holding, slot, unfinished};
use super::process::WITHIN;
use super::statement::{Answer, Shape, Statement, shape};
use crate::{ManualClock, MemoryStore};

/// The statements that write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Claim,
    Renew,
    RenewMany,
    Release,
    ClaimObserved,
    Clear,
    Resign,
    ClaimSlot,
    FinishSlot,
    ClaimRerun,
}

impl Write {
    pub(crate) const ALL: [Self; 10] = [
        Self::Claim,
        Self::Renew,
        Self::RenewMany,
        Self::Release,
        Self::ClaimObserved,
        Self::Clear,
        Self::Resign,
        Self::ClaimSlot,
        Self::FinishSlot,
        Self::ClaimRerun,
    ];

    /// The statement as somebody sends it who has seen `row`; `claim` is a claim of its own.
    fn on(self, row: &LeaseRow, claim: &Claim) -> Statement {
        let former = Claim { holder: row.holder, ..claim.clone() };
        match self {
            Self::Claim => Statement::Claim(claim.clone()),
            // Another ttl than before: it moves the expiry even within the millisecond of the claim.
            Self::Renew => Statement::Renew(holding(&former), LONG * 2),
            Self::RenewMany => Statement::RenewMany(vec![holding(&former)], LONG * 2),
            Self::Release => Statement::Release(holding(&former)),
            Self::ClaimObserved => Statement::ClaimObserved(claim.clone(), row.observed()),
            Self::Clear => Statement::Clear(row.name.clone(), row.observed()),
            Self::Resign => Statement::Resign(row.name.clone(), row.term),
            Self::ClaimSlot => Statement::ClaimSlot(claim.clone(), slot(2)),
            Self::FinishSlot => Statement::FinishSlot(end_of(&former, slot(1))),
            Self::ClaimRerun => {
                Statement::ClaimRerun(claim.clone(), unfinished(&row.name, slot(1), row.term.get()))
            }
        }
    }
}

/// A row that was claimed for a slot, and is held still or has expired.
pub(crate) struct Start {
    round: Claim,
    expired: bool,
}

impl Start {
    /// Claims the slot. If it is to be expired, the caller lets it expire.
    pub(crate) async fn make(cx: &Context, end: &str, expired: bool) -> Self {
        let ttl = if expired { cx.brief() } else { LONG };
        let round = Claim { ttl, ..cx.claim(end) };
        cx.store.claim_slot(&round, slot(1)).await.granted();
        Self { round, expired }
    }

    pub(crate) fn name(&self) -> &LeaseName {
        &self.round.name
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
        let row = store.inspect(self.name(), WITHIN).await?.row.expect("the slot was claimed");
        Ok(writes.map(|(write, claim)| write.on(&row, claim)))
    }

    /// What the reference model answers to some of the writes, one after the other, and leaves.
    /// All of them have seen the row as it was before the first.
    pub(crate) async fn model<const N: usize>(
        &self,
        writes: [(Write, &Claim); N],
        order: &[usize],
    ) -> ([Option<Answer>; N], Shape) {
        const MODEL: &str = "the reference model never fails here";
        let clock = ManualClock::new();
        let model = MemoryStore::with_clock(clock.clone());
        let claimed = model.claim_slot(&self.round, slot(1), WITHIN).await.expect(MODEL);
        assert!(matches!(claimed, SlotAnswer::Granted { .. }), "{claimed:?}");
        clock.advance(if self.expired { self.round.ttl } else { Duration::from_millis(1) });
        let statements = self.statements(&model, writes).await.expect(MODEL);
        let mut answers = [const { None }; N];
        for &which in order {
            answers[which] = Some(statements[which].run(&model).await.expect(MODEL));
        }
        (answers, shape(&model, self.name()).await.expect(MODEL).expect(MODEL))
    }
}
