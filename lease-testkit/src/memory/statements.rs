//! The statements, each beside its sentence in the contract.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, DbTime, FinishAnswer, Holding, Inspection, LeaseRow,
    Listing, Notices, Observed, Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd,
    StoreError, Superseded, UnfinishedSlot, VerifyAnswer, millis,
};
use lease_core::{ErrorKind, Holder, LeaseName, LeaseStore, Slot, Term};

use super::{MemoryStore, Rows};

#[async_trait]
impl LeaseStore for MemoryStore {
    fn describe(&self) -> String {
        "memory of this process".to_owned()
    }

    fn min_ttl(&self) -> Duration {
        Duration::from_millis(1)
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.lock().rows.get_or_insert_default();
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.statement(|_, _| Ok(()))
    }

    async fn claim(&self, claim: &Claim, _within: Duration) -> Result<ClaimAnswer, StoreError> {
        self.statement(|rows, now| {
            if is_free(rows.get(&claim.name), now) {
                Ok(ClaimAnswer::Granted(grant(rows, claim, now, |_| {})?))
            } else {
                Ok(ClaimAnswer::Held)
            }
        })
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        _within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        self.statement(|rows, now| {
            let renewed = renew(rows, now, name, holder, ttl)?;
            Ok(renewed.map_or(RenewAnswer::Lost, RenewAnswer::Renewed))
        })
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        _within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        self.statement(|rows, now| {
            leases.iter().map(|lease| renew(rows, now, &lease.name, &lease.holder, ttl)).collect()
        })
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        _within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        self.statement(|rows, now| {
            let held = row_of(rows, name, holder).filter(|row| row.is_live(now));
            Ok(held.map_or(VerifyAnswer::Lost, |row| VerifyAnswer::Held(row.term)))
        })
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        _within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        self.statement(|rows, _| {
            Ok(row_of(rows, name, holder).map_or(ReleaseAnswer::Gone, |row| {
                row.expires_at = DbTime::RELEASED;
                ReleaseAnswer::Released
            }))
        })
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        _within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        self.statement(|rows, now| {
            if row_as(rows, &claim.name, observed).is_some() {
                Ok(ConditionalAnswer::Granted(grant(rows, claim, now, |_| {})?))
            } else {
                Ok(ConditionalAnswer::Moved)
            }
        })
    }

    async fn inspect(&self, name: &LeaseName, _within: Duration) -> Result<Inspection, StoreError> {
        self.statement(|rows, now| Ok(Inspection { now, row: rows.get(name).cloned() }))
    }

    async fn list(&self, page: &Page, _within: Duration) -> Result<Listing, StoreError> {
        self.statement(|rows, now| {
            let after = page.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let rows = rows
                .range::<LeaseName, _>((after, Bound::Unbounded))
                .filter(|(name, _)| name.as_str().starts_with(&page.prefix))
                .take(usize::try_from(page.limit).unwrap_or(usize::MAX))
                .map(|(_, row)| row.clone())
                .collect();
            Ok(Listing { now, rows })
        })
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        _within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        self.statement(|rows, _| {
            Ok(row_as(rows, name, observed).map_or(ClearAnswer::Moved, |row| {
                row.expires_at = DbTime::RELEASED;
                ClearAnswer::Cleared
            }))
        })
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        _within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        self.statement(|rows, _| {
            Ok(rows.get_mut(name).filter(|row| row.term == term).map_or(ResignAnswer::Moved, |row| {
                row.resign_term = term.get();
                ResignAnswer::Asked
            }))
        })
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        _within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        self.statement(|rows, now| {
            let row = rows.get(&claim.name);
            if row.and_then(|row| row.slot).is_some_and(|last| last >= slot) {
                return Ok(SlotAnswer::Passed);
            }
            let comes_at = DbTime::from_millis(slot.as_millis());
            if comes_at > now {
                return Ok(SlotAnswer::NotYet(comes_at.since(now)));
            }
            if !is_free(row, now) {
                return Ok(SlotAnswer::Held);
            }
            let superseded = row.and_then(|row| {
                let given_up = row.unfinished_slot.filter(|unfinished| row.slot == Some(*unfinished))?;
                Some(Superseded { slot: given_up, rerun: row.rerun_slot == Some(given_up) })
            });
            let term = grant(rows, claim, now, |row| {
                row.slot = Some(slot);
                row.unfinished_slot = Some(slot);
            })?;
            Ok(SlotAnswer::Granted { term, superseded })
        })
    }

    async fn finish_slot(&self, end: &SlotEnd, _within: Duration) -> Result<FinishAnswer, StoreError> {
        self.statement(|rows, now| {
            if !end.lost
                && let Some(row) = row_of(rows, &end.name, &end.holder)
            {
                row.expires_at = DbTime::RELEASED;
                row.unfinished_slot = None;
                let come = end.passed.filter(|passed| passed.as_millis() <= now.as_millis());
                // `None` is earlier than every slot.
                row.slot = row.slot.max(come);
                return Ok(FinishAnswer::Finished);
            }
            let unfinished = rows.get_mut(&end.name).filter(|row| row.unfinished_slot == Some(end.slot));
            let recorded = unfinished.map(|row| row.unfinished_slot = None).is_some();
            Ok(FinishAnswer::Lost { recorded })
        })
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        _within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        self.statement(|rows, now| {
            let asked: BTreeSet<&LeaseName> = names.iter().collect();
            let cut_short = asked.into_iter().filter_map(|name| {
                let row = rows.get(name)?;
                let slot = rerunnable(row, now)?;
                Some(UnfinishedSlot { name: name.clone(), slot, term: row.term })
            });
            Ok(cut_short.collect())
        })
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        _within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        self.statement(|rows, now| {
            let stands = rows.get(&claim.name).is_some_and(|row| {
                row.term == unfinished.term && rerunnable(row, now) == Some(unfinished.slot)
            });
            if !stands {
                return Ok(ConditionalAnswer::Moved);
            }
            let term = grant(rows, claim, now, |row| row.rerun_slot = Some(unfinished.slot))?;
            Ok(ConditionalAnswer::Granted(term))
        })
    }

    async fn last_slot(&self, name: &LeaseName, _within: Duration) -> Result<Option<Slot>, StoreError> {
        self.statement(|rows, _| Ok(rows.get(name).and_then(|row| row.slot)))
    }

    fn notices(&self) -> Option<Notices> {
        Some(self.database.notifier.listen())
    }

    async fn announce(&self, name: &LeaseName, _within: Duration) -> Result<(), StoreError> {
        self.database.notifier.given_back(Some(name.clone()));
        Ok(())
    }
}

/// The row of `name`, if `holder` claimed it last.
fn row_of<'rows>(rows: &'rows mut Rows, name: &LeaseName, holder: &Holder) -> Option<&'rows mut LeaseRow> {
    rows.get_mut(name).filter(|row| row.holder == *holder)
}

/// The row of `name`, if nothing has happened to it since it was observed.
fn row_as<'rows>(
    rows: &'rows mut Rows,
    name: &LeaseName,
    observed: &Observed,
) -> Option<&'rows mut LeaseRow> {
    rows.get_mut(name).filter(|row| row.observed() == *observed)
}

/// Whether nobody holds `row`; a name without a row is free.
fn is_free(row: Option<&LeaseRow>, now: DbTime) -> bool {
    row.is_none_or(|row| !row.is_live(now))
}

/// The instant that may be claimed a second time: the last one, cut short, not yet claimed again.
fn rerunnable(row: &LeaseRow, now: DbTime) -> Option<Slot> {
    row.slot.filter(|slot| {
        row.unfinished_slot == Some(*slot)
            && row.rerun_slot.is_none_or(|rerun| rerun < *slot)
            && is_free(Some(row), now)
    })
}

fn expiry(now: DbTime, ttl: Duration) -> Result<DbTime, StoreError> {
    now.as_millis().checked_add(millis(ttl)).map(DbTime::from_millis).ok_or_else(|| {
        StoreError::new(ErrorKind::Invalid, format!("ttl {ttl:?} goes beyond the last expiry a row can hold"))
            .without_effect()
    })
}

/// Writes what every granted claim writes, then what `slots` adds to it.
fn grant(
    rows: &mut Rows,
    claim: &Claim,
    now: DbTime,
    slots: impl FnOnce(&mut LeaseRow),
) -> Result<Term, StoreError> {
    let expires_at = expiry(now, claim.ttl)?;
    let before = rows.get(&claim.name);
    let term = match before {
        None => Term::FIRST,
        Some(row) => row.term.get().checked_add(1).and_then(Term::new).ok_or_else(|| {
            StoreError::new(ErrorKind::Damaged, format!("the term of {:?} is at its limit", claim.name))
                .without_effect()
        })?,
    };
    let mut granted = LeaseRow {
        name: claim.name.clone(),
        holder: claim.holder,
        instance: claim.instance.name().to_string(),
        process: claim.instance.process_facts().to_string(),
        address: claim.instance.address_text().to_string(),
        version: claim.instance.version_text().to_string(),
        term,
        claimed_at: now,
        renewed_at: now,
        expires_at,
        ttl: Duration::from_millis(millis(claim.ttl).unsigned_abs()),
        resign_term: before.map_or(0, |row| row.resign_term),
        slot: before.and_then(|row| row.slot),
        unfinished_slot: before.and_then(|row| row.unfinished_slot),
        rerun_slot: before.and_then(|row| row.rerun_slot),
    };
    slots(&mut granted);
    rows.insert(claim.name.clone(), granted);
    Ok(term)
}

fn renew(
    rows: &mut Rows,
    now: DbTime,
    name: &LeaseName,
    holder: &Holder,
    ttl: Duration,
) -> Result<Option<Renewed>, StoreError> {
    let expires_at = expiry(now, ttl)?;
    Ok(row_of(rows, name, holder).filter(|row| row.is_live(now)).map(|row| {
        row.renewed_at = now;
        row.expires_at = expires_at;
        Renewed { step_down: row.resign_term == row.term.get() }
    }))
}
