//! A memory store with one thing wrong.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, DbTime, FinishAnswer, Holding, Inspection, LeaseRow,
    Listing, Notices, Notifier, Observed, Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer,
    SlotAnswer, SlotEnd, StoreError, UnfinishedSlot, VerifyAnswer,
};
use lease_core::{ErrorKind, Holder, Instance, LeaseName, LeaseStore, Slot, Term};
use lease_testkit::MemoryStore;
use tokio::task::yield_now;

use super::broken::Broken;
use super::gates::Gates;
use super::names::key;
use super::reads::is_like;

/// The store with one thing wrong. The wrong ways themselves are in the files beside this one.
pub(crate) struct Mutant {
    pub(crate) inner: MemoryStore,
    pub(crate) broken: Broken,
    pub(crate) gates: Arc<Gates>,
    /// Which process this is, from 0.
    pub(crate) process: usize,
    /// The tokens that this process has claimed with.
    pub(crate) claimed: Mutex<HashSet<Holder>>,
}

impl Mutant {
    pub(crate) fn new(inner: MemoryStore, broken: Broken, gates: Arc<Gates>) -> Self {
        let process = gates.processes.fetch_add(1, Ordering::SeqCst);
        Self { inner, broken, gates, process, claimed: Mutex::default() }
    }

    pub(crate) async fn row(&self, name: &LeaseName) -> Result<Option<LeaseRow>, StoreError> {
        Ok(self.inner.inspect(name, Duration::ZERO).await?.row)
    }

    pub(crate) fn is(&self, broken: Broken) -> bool {
        self.broken == broken
    }

    fn key(&self, name: &LeaseName) -> LeaseName {
        key(self.broken, name)
    }

    /// What a statement about `name` does wrong before it begins, whatever it is about.
    async fn begin(&self, name: Option<&LeaseName>) -> Result<(), StoreError> {
        match (self.broken, name) {
            (Broken::DroppedKeepsConnection, _) => {
                // Given back at the end, which a dropped future never reaches.
                self.gates.connections.acquire().await.expect("never closed").forget();
                yield_now().await;
            }
            (Broken::MissingRowMade, Some(name)) if self.row(name).await?.is_none() => {
                self.make_row(name).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes a row that nobody has asked for.
    pub(crate) async fn make_row(&self, name: &LeaseName) -> Result<(), StoreError> {
        let made = Claim {
            name: name.clone(),
            holder: Holder::from_bytes([0; 16]),
            ttl: self.min_ttl(),
            instance: Instance::named("made"),
        };
        self.inner.claim(&made, Duration::ZERO).await?;
        self.inner.release(name, &made.holder, Duration::ZERO).await?;
        Ok(())
    }

    /// What a statement about `name` does wrong after it has ended, whatever it is about.
    async fn end(&self, name: Option<&LeaseName>, writes: bool) -> Result<(), StoreError> {
        self.gates.others.fetch_add(1, Ordering::SeqCst);
        let touched = match (self.broken, name) {
            (Broken::DroppedKeepsConnection, _) => {
                self.gates.connections.add_permits(1);
                return Ok(());
            }
            (Broken::ReadsWrite, Some(name)) if !writes => Page { prefix: name.to_string(), ..ALL },
            (Broken::ReadsWrite, None) if !writes => ALL,
            (Broken::NameIsPattern, Some(_)) if writes => ALL,
            (Broken::NeighboursTouched, Some(name)) if writes => {
                Page { prefix: name.to_string(), after: Some(name.clone()), ..ALL }
            }
            _ => return Ok(()),
        };
        for row in self.inner.list(&touched, Duration::ZERO).await?.rows {
            let meant = !self.is(Broken::NameIsPattern)
                || name.is_some_and(|name| *name != row.name && is_like(row.name.as_str(), name.as_str()));
            if meant {
                self.inner.edit_row(&row.name, touch);
            }
        }
        Ok(())
    }
}

/// All rows.
pub(crate) const ALL: Page = Page { prefix: String::new(), after: None, limit: u32::MAX };

/// Changes a row that should have been left alone.
pub(crate) fn touch(row: &mut LeaseRow) {
    row.renewed_at = DbTime::from_millis(row.renewed_at.as_millis() + 1);
    row.resign_term = row.term.get();
}

#[async_trait]
impl LeaseStore for Mutant {
    fn describe(&self) -> String {
        let line = format!("memory, {:?}", self.broken);
        if self.is(Broken::DescribesInLines) { format!("{line}\n") } else { line }
    }

    fn min_ttl(&self) -> Duration {
        self.inner.min_ttl()
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        match self.broken {
            Broken::MigrateEmpties => self.inner.drop_table(),
            Broken::MigrateNotAtOnce if self.inner.check().await.is_err() => {
                self.gates.meet().await;
                if self.inner.check().await.is_ok() {
                    return Err(StoreError::new(ErrorKind::Schema, "the table exists already"));
                }
            }
            _ => {}
        }
        self.inner.migrate().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.end(None, false).await?;
        match self.broken {
            Broken::CheckIsBlind => Ok(()),
            Broken::CheckFails => Err(StoreError::new(ErrorKind::Denied, "never good enough")),
            _ => self.inner.check().await,
        }
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        let claim = Claim { name: self.key(&claim.name), ..claim.clone() };
        self.begin(Some(&claim.name)).await?;
        let answer = self.claim_wrongly(&claim, within).await;
        self.end(Some(&claim.name), true).await?;
        answer
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        let name = &self.key(name);
        self.begin(Some(name)).await?;
        let answer = self.renew_wrongly(name, holder, ttl, within).await;
        self.end(Some(name), true).await?;
        answer
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        self.begin(None).await?;
        let leases: Vec<Holding> = leases
            .iter()
            .map(|lease| Holding { name: self.key(&lease.name), holder: lease.holder })
            .collect();
        let answer = self.renew_many_wrongly(&leases, ttl, within).await;
        self.end(leases.first().map(|lease| &lease.name), true).await?;
        answer
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        let name = &self.key(name);
        self.begin(Some(name)).await?;
        let answer = self.verify_wrongly(name, holder, within).await;
        self.end(Some(name), false).await?;
        answer
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let name = &self.key(name);
        self.begin(Some(name)).await?;
        let answer = self.release_wrongly(name, holder, within).await;
        self.end(Some(name), true).await?;
        answer
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let claim = Claim { name: self.key(&claim.name), ..claim.clone() };
        self.begin(Some(&claim.name)).await?;
        let answer = self.claim_observed_wrongly(&claim, observed, within).await;
        self.end(Some(&claim.name), true).await?;
        answer
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        // Cases look at rows with this one: what is wrong with all statements is not wrong here.
        self.begin(None).await?;
        let answer = self.inspect_wrongly(&self.key(name), within).await;
        self.end(None, true).await?;
        answer
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        self.begin(None).await?;
        let answer = self.list_wrongly(page, within).await;
        self.end(None, false).await?;
        answer
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        let name = &self.key(name);
        self.begin(Some(name)).await?;
        let answer = self.clear_wrongly(name, observed, within).await;
        self.end(Some(name), true).await?;
        answer
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        let name = &self.key(name);
        self.begin(Some(name)).await?;
        let answer = self.resign_wrongly(name, term, within).await;
        self.end(Some(name), true).await?;
        answer
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        let claim = Claim { name: self.key(&claim.name), ..claim.clone() };
        self.begin(Some(&claim.name)).await?;
        let answer = self.claim_slot_wrongly(&claim, slot, within).await;
        self.end(Some(&claim.name), true).await?;
        answer
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        let end = SlotEnd { name: self.key(&end.name), ..end.clone() };
        self.begin(Some(&end.name)).await?;
        let answer = self.finish_slot_wrongly(&end, within).await;
        self.end(Some(&end.name), true).await?;
        answer
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        self.begin(None).await?;
        let names: Vec<LeaseName> = names.iter().map(|name| self.key(name)).collect();
        let answer = self.unfinished_slots_wrongly(&names, within).await;
        self.end(names.first(), false).await?;
        answer
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let claim = Claim { name: self.key(&claim.name), ..claim.clone() };
        self.begin(Some(&claim.name)).await?;
        let answer = self.claim_rerun_wrongly(&claim, unfinished, within).await;
        self.end(Some(&claim.name), true).await?;
        answer
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        let name = &self.key(name);
        self.begin(Some(name)).await?;
        let answer = self.last_slot_wrongly(name, within).await;
        self.end(Some(name), false).await?;
        answer
    }

    fn notices(&self) -> Option<Notices> {
        // Of a store that has gone nothing is heard any more.
        if self.is(Broken::TellsNobody) { Some(Notifier::new().listen()) } else { self.inner.notices() }
    }

    async fn announce(&self, name: &LeaseName, within: Duration) -> Result<(), StoreError> {
        let name = &self.key(name);
        self.begin(Some(name)).await?;
        match self.broken {
            Broken::TellsNoQuotes if name.as_str().contains('\'') => {
                return Err(StoreError::new(ErrorKind::Other, "syntax error at or near \"s\""));
            }
            Broken::TellingFrees if self.row(name).await?.is_some() => {
                self.inner.edit_row(name, |row| row.expires_at = DbTime::RELEASED);
            }
            _ => {}
        }
        let answer = self.inner.announce(name, within).await;
        self.end(Some(name), false).await?;
        answer
    }
}
