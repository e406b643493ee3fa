//! The store, whose claims are refused by an answer while a transaction keeps them out.

use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Inspection, Listing, Observed,
    Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd, StoreError, UnfinishedSlot,
    VerifyAnswer,
};
use lease_core::{Holder, LeaseName, LeaseStore, Slot, Term};
use lease_testkit::FaultStore;

use super::Locks;

pub(crate) struct Refusing {
    pub(crate) store: FaultStore,
    pub(crate) locks: Locks,
}

#[async_trait]
impl LeaseStore for Refusing {
    fn describe(&self) -> String {
        self.store.describe()
    }

    fn min_ttl(&self) -> Duration {
        self.store.min_ttl()
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.store.migrate().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.store.check().await
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        if self.locks.refuse(&claim.name) {
            return Ok(ClaimAnswer::Held);
        }
        self.store.claim(claim, within).await
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        self.store.renew(name, holder, ttl, within).await
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        self.store.renew_many(leases, ttl, within).await
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        self.store.verify(name, holder, within).await
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        self.store.release(name, holder, within).await
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        if self.locks.refuse(&claim.name) {
            return Ok(ConditionalAnswer::Moved);
        }
        self.store.claim_observed(claim, observed, within).await
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        self.store.inspect(name, within).await
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        self.store.list(page, within).await
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        self.store.clear(name, observed, within).await
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        self.store.resign(name, term, within).await
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        self.store.claim_slot(claim, slot, within).await
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        self.store.finish_slot(end, within).await
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        self.store.unfinished_slots(names, within).await
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        self.store.claim_rerun(claim, unfinished, within).await
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        self.store.last_slot(name, within).await
    }
}
