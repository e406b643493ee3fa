//! Statements and answers as values, and rows without their times: what two stores can be compared by.

use std::time::Duration;

use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, DbTime, FinishAnswer, Holding, LeaseRow, Observed,
    ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd, StoreError, UnfinishedSlot,
    VerifyAnswer,
};
use lease_core::{Holder, LeaseName, LeaseStore, Slot, Term};

use super::process::WITHIN;

/// A statement about one row.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    Claim(Claim),
    Renew(Holding, Duration),
    RenewMany(Vec<Holding>, Duration),
    Verify(Holding),
    Release(Holding),
    ClaimObserved(Claim, Observed),
    Clear(LeaseName, Observed),
    Resign(LeaseName, Term),
    ClaimSlot(Claim, Slot),
    FinishSlot(SlotEnd),
    UnfinishedSlots(Vec<LeaseName>),
    ClaimRerun(Claim, UnfinishedSlot),
    LastSlot(LeaseName),
}

/// The answer to a [`Statement`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Claim(ClaimAnswer),
    Renew(RenewAnswer),
    RenewMany(Vec<Option<Renewed>>),
    Verify(VerifyAnswer),
    Release(ReleaseAnswer),
    Conditional(ConditionalAnswer),
    Clear(ClearAnswer),
    Resign(ResignAnswer),
    ClaimSlot(SlotAnswer),
    FinishSlot(FinishAnswer),
    UnfinishedSlots(Vec<UnfinishedSlot>),
    LastSlot(Option<Slot>),
}

impl Statement {
    pub(crate) async fn run(&self, store: &dyn LeaseStore) -> Result<Answer, StoreError> {
        Ok(match self {
            Self::Claim(claim) => Answer::Claim(store.claim(claim, WITHIN).await?),
            Self::Renew(lease, ttl) => {
                Answer::Renew(store.renew(&lease.name, &lease.holder, *ttl, WITHIN).await?)
            }
            Self::RenewMany(leases, ttl) => Answer::RenewMany(store.renew_many(leases, *ttl, WITHIN).await?),
            Self::Verify(lease) => Answer::Verify(store.verify(&lease.name, &lease.holder, WITHIN).await?),
            Self::Release(lease) => Answer::Release(store.release(&lease.name, &lease.holder, WITHIN).await?),
            Self::ClaimObserved(claim, seen) => {
                Answer::Conditional(store.claim_observed(claim, seen, WITHIN).await?)
            }
            Self::Clear(name, seen) => Answer::Clear(store.clear(name, seen, WITHIN).await?),
            Self::Resign(name, term) => Answer::Resign(store.resign(name, *term, WITHIN).await?),
            Self::ClaimSlot(claim, slot) => {
                Answer::ClaimSlot(match store.claim_slot(claim, *slot, WITHIN).await? {
                    // The wait depends on the moment, which two stores do not share.
                    SlotAnswer::NotYet(_) => SlotAnswer::NotYet(Duration::ZERO),
                    answer => answer,
                })
            }
            Self::FinishSlot(end) => Answer::FinishSlot(store.finish_slot(end, WITHIN).await?),
            Self::UnfinishedSlots(names) => {
                Answer::UnfinishedSlots(store.unfinished_slots(names, WITHIN).await?)
            }
            Self::ClaimRerun(claim, seen) => {
                Answer::Conditional(store.claim_rerun(claim, seen, WITHIN).await?)
            }
            Self::LastSlot(name) => Answer::LastSlot(store.last_slot(name, WITHIN).await?),
        })
    }

    /// The answer by which a claim, or a lease of a batch, may always be passed over while another
    /// statement has the row.
    pub(crate) fn refusal(&self) -> Option<Answer> {
        match self {
            Self::Claim(_) => Some(Answer::Claim(ClaimAnswer::Held)),
            Self::ClaimSlot(..) => Some(Answer::ClaimSlot(SlotAnswer::Held)),
            Self::ClaimObserved(..) | Self::ClaimRerun(..) => {
                Some(Answer::Conditional(ConditionalAnswer::Moved))
            }
            Self::RenewMany(leases, _) => Some(Answer::RenewMany(vec![None; leases.len()])),
            _ => None,
        }
    }
}

/// A row without its times, which differ from run to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    holder: Holder,
    identity: [String; 4],
    term: Term,
    standing: Standing,
    ttl: Duration,
    resign_term: i64,
    slots: [Option<Slot>; 3],
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Held,
    Expired,
    Released,
}

/// The shape of a name's row, if it has one.
pub(crate) async fn shape(store: &dyn LeaseStore, name: &LeaseName) -> Result<Option<Shape>, StoreError> {
    let read = store.inspect(name, WITHIN).await?;
    Ok(read.row.map(|row| shape_of(row, read.now)))
}

fn shape_of(row: LeaseRow, now: DbTime) -> Shape {
    let standing = match row.expires_at {
        DbTime::RELEASED => Standing::Released,
        _ if row.is_live(now) => Standing::Held,
        _ => Standing::Expired,
    };
    Shape {
        holder: row.holder,
        identity: [row.instance, row.process, row.address, row.version],
        term: row.term,
        standing,
        ttl: row.ttl,
        resign_term: row.resign_term,
        slots: [row.slot, row.unfinished_slot, row.rerun_slot],
    }
}
