//! Each statement on its way through the plans.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Inspection, Listing, Notices,
    Observed, Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd, StoreError,
    UnfinishedSlot, VerifyAnswer,
};
use lease_core::{Holder, LeaseName, LeaseStore, Slot, Term};

use super::{FaultStore, Op};

#[async_trait]
impl LeaseStore for FaultStore {
    fn describe(&self) -> String {
        self.store.describe()
    }

    fn min_ttl(&self) -> Duration {
        self.store.min_ttl()
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        let store = Arc::clone(&self.store);
        self.call(Op::Migrate, None, 0, async move { store.migrate().await }).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        let store = Arc::clone(&self.store);
        self.call(Op::Check, None, 0, async move { store.check().await }).await
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        let (store, owned) = (Arc::clone(&self.store), claim.clone());
        self.call(Op::Claim, Some(&claim.name), 1, async move { store.claim(&owned, within).await }).await
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        let (store, owned, holder) = (Arc::clone(&self.store), name.clone(), *holder);
        self.call(Op::Renew, Some(name), 1, async move { store.renew(&owned, &holder, ttl, within).await })
            .await
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        let (store, owned) = (Arc::clone(&self.store), leases.to_vec());
        let first = leases.first().map(|lease| &lease.name);
        let statement = async move { store.renew_many(&owned, ttl, within).await };
        self.call(Op::RenewMany, first, leases.len(), statement).await
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        let (store, owned, holder) = (Arc::clone(&self.store), name.clone(), *holder);
        self.call(Op::Verify, Some(name), 1, async move { store.verify(&owned, &holder, within).await }).await
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let (store, owned, holder) = (Arc::clone(&self.store), name.clone(), *holder);
        self.call(Op::Release, Some(name), 1, async move { store.release(&owned, &holder, within).await })
            .await
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let (store, owned, observed) = (Arc::clone(&self.store), claim.clone(), *observed);
        let statement = async move { store.claim_observed(&owned, &observed, within).await };
        self.call(Op::ClaimObserved, Some(&claim.name), 1, statement).await
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        let (store, owned) = (Arc::clone(&self.store), name.clone());
        self.call(Op::Inspect, Some(name), 1, async move { store.inspect(&owned, within).await }).await
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        let (store, page) = (Arc::clone(&self.store), page.clone());
        self.call(Op::List, None, 0, async move { store.list(&page, within).await }).await
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        let (store, owned, observed) = (Arc::clone(&self.store), name.clone(), *observed);
        self.call(Op::Clear, Some(name), 1, async move { store.clear(&owned, &observed, within).await }).await
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        let (store, owned) = (Arc::clone(&self.store), name.clone());
        self.call(Op::Resign, Some(name), 1, async move { store.resign(&owned, term, within).await }).await
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        let (store, owned) = (Arc::clone(&self.store), claim.clone());
        let statement = async move { store.claim_slot(&owned, slot, within).await };
        self.call(Op::ClaimSlot, Some(&claim.name), 1, statement).await
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        let (store, owned) = (Arc::clone(&self.store), end.clone());
        let statement = async move { store.finish_slot(&owned, within).await };
        self.call(Op::FinishSlot, Some(&end.name), 1, statement).await
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        let (store, owned) = (Arc::clone(&self.store), names.to_vec());
        let statement = async move { store.unfinished_slots(&owned, within).await };
        self.call(Op::UnfinishedSlots, names.first(), names.len(), statement).await
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let (store, owned, unfinished) = (Arc::clone(&self.store), claim.clone(), unfinished.clone());
        let statement = async move { store.claim_rerun(&owned, &unfinished, within).await };
        self.call(Op::ClaimRerun, Some(&claim.name), 1, statement).await
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        let (store, owned) = (Arc::clone(&self.store), name.clone());
        self.call(Op::LastSlot, Some(name), 1, async move { store.last_slot(&owned, within).await }).await
    }

    fn notices(&self) -> Option<Notices> {
        let is_deaf = self.lock().is_deaf;
        if is_deaf { None } else { self.store.notices() }
    }

    async fn announce(&self, name: &LeaseName, within: Duration) -> Result<(), StoreError> {
        let (store, owned) = (Arc::clone(&self.store), name.clone());
        self.call(Op::Announce, Some(name), 1, async move { store.announce(&owned, within).await }).await
    }
}
