//! A store that counts what is asked of it, and that can be deaf and mute.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Inspection, Listing, Notices,
    Observed, Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd, StoreError,
    UnfinishedSlot, VerifyAnswer,
};
use lease_core::{Holder, LeaseName, LeaseStore, Slot, Term};

/// Whether a store hears of names given back, and tells others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notifying {
    On,
    Off,
}

/// Whether leases that are due together are renewed by one statement, or by one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewing {
    Together,
    Singly,
}

pub(crate) struct ObservedStore {
    inner: Arc<dyn LeaseStore>,
    notifying: Notifying,
    renewing: Renewing,
    asked: Arc<AtomicU64>,
}

impl ObservedStore {
    pub(crate) fn new(inner: Arc<dyn LeaseStore>, notifying: Notifying) -> Self {
        Self { inner, notifying, renewing: Renewing::Together, asked: Arc::default() }
    }

    pub(crate) fn renewing(self, renewing: Renewing) -> Self {
        Self { renewing, ..self }
    }

    /// How often the store has been asked anything.
    pub(crate) fn count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.asked)
    }

    fn ask(&self) -> &dyn LeaseStore {
        self.asked.fetch_add(1, Ordering::Relaxed);
        &*self.inner
    }
}

#[async_trait]
impl LeaseStore for ObservedStore {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn min_ttl(&self) -> Duration {
        self.inner.min_ttl()
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.ask().migrate().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.ask().check().await
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        self.ask().claim(claim, within).await
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        self.ask().renew(name, holder, ttl, within).await
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        if self.renewing == Renewing::Together {
            return self.ask().renew_many(leases, ttl, within).await;
        }
        let mut answers = Vec::with_capacity(leases.len());
        for Holding { name, holder } in leases {
            answers.push(match self.ask().renew(name, holder, ttl, within).await? {
                RenewAnswer::Renewed(renewed) => Some(renewed),
                RenewAnswer::Lost => None,
            });
        }
        Ok(answers)
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        self.ask().verify(name, holder, within).await
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        self.ask().release(name, holder, within).await
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        self.ask().claim_observed(claim, observed, within).await
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        self.ask().inspect(name, within).await
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        self.ask().list(page, within).await
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        self.ask().clear(name, observed, within).await
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        self.ask().resign(name, term, within).await
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        self.ask().claim_slot(claim, slot, within).await
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        self.ask().finish_slot(end, within).await
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        self.ask().unfinished_slots(names, within).await
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        self.ask().claim_rerun(claim, unfinished, within).await
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        self.ask().last_slot(name, within).await
    }

    fn notices(&self) -> Option<Notices> {
        (self.notifying == Notifying::On).then(|| self.inner.notices()).flatten()
    }

    async fn announce(&self, name: &LeaseName, within: Duration) -> Result<(), StoreError> {
        match self.notifying {
            Notifying::On => self.inner.announce(name, within).await,
            Notifying::Off => Ok(()),
        }
    }
}
