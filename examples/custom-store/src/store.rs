//! The contract, statement by statement.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, DbTime, FinishAnswer, Holding, Inspection, Limit,
    Listing, Observed, Page, RawRow, ReleaseAnswer, RenewAnswer, Renewed, Repeat, ResignAnswer, SlotAnswer,
    SlotEnd, SlotState, StoreError, UnfinishedSlot, VerifyAnswer, slot_of, term_of, ttl_ms,
};
use lease_core::{Clock, ErrorKind, Holder, LeaseName, LeaseStore, Slot, SystemClock, Term};

use crate::folder::{Access, Folder};
use crate::table::{Table, slots, step_down};

/// Leases in a folder of this machine's disk.
#[derive(Debug, Clone)]
pub struct FolderStore {
    folder: Folder,
    /// Measures how long a call waits, and nothing else.
    clock: Arc<dyn Clock>,
}

/// How long [`migrate`](LeaseStore::migrate) and [`check`](LeaseStore::check), which are not told, wait.
const PATIENCE: Duration = Duration::from_secs(30);

impl FolderStore {
    /// A store on this folder, which [`migrate`](LeaseStore::migrate) makes.
    ///
    /// # Errors
    ///
    /// The process has no clock of its own: the system has no thread left for it.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let clock = SystemClock::shared().map_err(|source| {
            StoreError::new(ErrorKind::Other, "no clock can be started").with_source(source).without_effect()
        })?;
        Ok(Self { folder: Folder(folder.into()), clock })
    }

    /// Runs a statement, again and again while the folder is busy and there is time.
    async fn run<T: Send + 'static>(
        &self,
        access: Access,
        within: Duration,
        statement: impl FnOnce(&mut Table) -> Result<T, StoreError> + Clone + Send + 'static,
    ) -> Result<T, StoreError> {
        self.insist(within, move |folder| folder.run(access, statement.clone())).await
    }

    async fn insist<T: Send + 'static>(
        &self,
        within: Duration,
        attempt: impl Fn(&Folder) -> Result<T, StoreError> + Clone + Send + 'static,
    ) -> Result<T, StoreError> {
        let ask = || {
            let (attempt, folder) = (attempt.clone(), self.folder.clone());
            // Files block. When our future is dropped, an attempt that has begun still runs to its end.
            let attempt = tokio::task::spawn_blocking(move || attempt(&folder));
            async { attempt.await.unwrap_or_else(|ended| Err(never_ended(ended))) }
        };
        // Of its errors those are asked again that may pass (the folder is busy, or read-only for now) and
        // after which nothing was changed.
        Limit::new(&self.clock, within).insist(Repeat::WithoutEffect, ask).await
    }
}

fn never_ended(source: tokio::task::JoinError) -> StoreError {
    StoreError::new(ErrorKind::Runtime, "the statement was not run to its end").with_source(source)
}

#[async_trait]
impl LeaseStore for FolderStore {
    fn describe(&self) -> String {
        format!("folder {}", self.folder.0.display())
    }

    fn min_ttl(&self) -> Duration {
        // The clock has milliseconds, and many processes at the lock may wait for some dozen of them.
        Duration::from_millis(250)
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.insist(PATIENCE, Folder::make).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.insist(PATIENCE, |folder| {
            folder.check(|table| table.rows.values().try_for_each(|row| row.clone().parse().map(drop)))
        })
        .await
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        let claim = claim.clone();
        self.run(Access::Write, within, move |table| {
            if !table.is_free(&claim.name) {
                return Ok(ClaimAnswer::Held);
            }
            Ok(ClaimAnswer::Granted(table.grant(&claim)?.0))
        })
        .await
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        let (name, holder, ttl) = (name.clone(), *holder, ttl_ms(ttl)?);
        self.run(Access::Write, within, move |table| {
            Ok(table
                .renew(&name, &holder, ttl)
                .map_or(RenewAnswer::Lost, |row| RenewAnswer::Renewed(Renewed { step_down: step_down(row) })))
        })
        .await
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        let (leases, ttl) = (leases.to_vec(), ttl_ms(ttl)?);
        self.run(Access::Write, within, move |table| {
            let renewed = leases.iter().map(|lease| {
                let row = table.renew(&lease.name, &lease.holder, ttl)?;
                Some(Renewed { step_down: step_down(row) })
            });
            Ok(renewed.collect())
        })
        .await
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        let (name, holder) = (name.clone(), *holder);
        self.run(Access::Read, within, move |table| {
            if table.is_free(&name) {
                return Ok(VerifyAnswer::Lost);
            }
            let Some(row) = table.of(&name, &holder) else { return Ok(VerifyAnswer::Lost) };
            Ok(VerifyAnswer::Held(term_of(name.as_str(), row.term)?))
        })
        .await
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let (name, holder) = (name.clone(), *holder);
        self.run(Access::Write, within, move |table| {
            let Some(row) = table.of(&name, &holder) else { return Ok(ReleaseAnswer::Gone) };
            row.expires_at_ms = 0;
            Ok(ReleaseAnswer::Released)
        })
        .await
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let (claim, observed) = (claim.clone(), *observed);
        self.run(Access::Write, within, move |table| {
            if table.as_observed(&claim.name, &observed).is_none() {
                return Ok(ConditionalAnswer::Moved);
            }
            Ok(ConditionalAnswer::Granted(table.grant(&claim)?.0))
        })
        .await
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        let name = name.clone();
        self.run(Access::Read, within, move |table| {
            let row = table.rows.get(name.as_str()).cloned().map(RawRow::parse).transpose()?;
            Ok(Inspection { now: DbTime::from_millis(table.now), row })
        })
        .await
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        let page = page.clone();
        self.run(Access::Read, within, move |table| {
            let after = page.after.as_ref().map_or(Bound::Unbounded, |name| Bound::Excluded(name.as_str()));
            let rows = table
                .rows
                .range::<str, _>((after, Bound::Unbounded))
                .filter(|(name, _)| name.starts_with(&page.prefix))
                .take(usize::try_from(page.limit).unwrap_or(usize::MAX))
                .map(|(_, row)| row.clone().parse())
                .collect::<Result<_, _>>()?;
            Ok(Listing { now: DbTime::from_millis(table.now), rows })
        })
        .await
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        let (name, observed) = (name.clone(), *observed);
        self.run(Access::Write, within, move |table| {
            let Some(row) = table.as_observed(&name, &observed) else { return Ok(ClearAnswer::Moved) };
            row.expires_at_ms = 0;
            Ok(ClearAnswer::Cleared)
        })
        .await
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        let name = name.clone();
        self.run(Access::Write, within, move |table| {
            let row = table.rows.get_mut(name.as_str()).filter(|row| row.term == term.get());
            let Some(row) = row else { return Ok(ResignAnswer::Moved) };
            row.resign_term = row.term;
            Ok(ResignAnswer::Asked)
        })
        .await
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        let claim = claim.clone();
        self.run(Access::Write, within, move |table| {
            let row = table.rows.get(claim.name.as_str()).map(slots).transpose()?;
            let superseded = match (SlotState { now: DbTime::from_millis(table.now), row }).judge(slot) {
                Ok(superseded) => superseded,
                Err(refusal) => return Ok(refusal),
            };
            let (term, row) = table.grant(&claim)?;
            row.slot_ms = slot.as_millis();
            row.unfinished_slot_ms = slot.as_millis();
            Ok(SlotAnswer::Granted { term, superseded })
        })
        .await
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        let end = end.clone();
        self.run(Access::Write, within, move |table| {
            let now = table.now;
            let held = if end.lost { None } else { table.of(&end.name, &end.holder) };
            if let Some(row) = held {
                row.expires_at_ms = 0;
                row.unfinished_slot_ms = 0;
                let come = end.passed.map(Slot::as_millis).filter(|passed| *passed <= now);
                row.slot_ms = row.slot_ms.max(come.unwrap_or(0));
                return Ok(FinishAnswer::Finished);
            }
            let row = table.rows.get_mut(end.name.as_str());
            let row = row.filter(|row| row.unfinished_slot_ms == end.slot.as_millis());
            let recorded = row.map(|row| row.unfinished_slot_ms = 0).is_some();
            Ok(FinishAnswer::Lost { recorded })
        })
        .await
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        let names: BTreeSet<LeaseName> = names.iter().cloned().collect();
        self.run(Access::Read, within, move |table| {
            let mut found = Vec::new();
            for name in names {
                if let Some((slot, term)) = table.cut_short(&name)? {
                    found.push(UnfinishedSlot { name, slot, term });
                }
            }
            Ok(found)
        })
        .await
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let (claim, seen) = (claim.clone(), (unfinished.slot, unfinished.term));
        self.run(Access::Write, within, move |table| {
            if table.cut_short(&claim.name)? != Some(seen) {
                return Ok(ConditionalAnswer::Moved);
            }
            let (term, row) = table.grant(&claim)?;
            row.rerun_slot_ms = row.slot_ms;
            Ok(ConditionalAnswer::Granted(term))
        })
        .await
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        let name = name.clone();
        self.run(Access::Read, within, move |table| {
            let ms = table.rows.get(name.as_str()).map_or(0, |row| row.slot_ms);
            slot_of(name.as_str(), "slot_ms", ms)
        })
        .await
    }
}
