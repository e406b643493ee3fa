//! A store with one row, which notes what is asked of it too early or too often.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use shuttle::future::yield_now;

use crate::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Inspection, Listing, Observed,
    Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd, StoreError, UnfinishedSlot,
    VerifyAnswer,
};
use crate::{ErrorKind, Holder, LeaseName, LeaseStore, Slot, Term};

#[derive(Default)]
pub(super) struct RowStore {
    /// How much work runs under the lease: it says so itself.
    pub(super) working: AtomicUsize,
    /// Whether the next renewal is refused.
    pub(super) refuses: AtomicBool,
    /// Whether the next renewal fails.
    pub(super) fails: AtomicBool,
    pub(super) renewed: AtomicUsize,
    pub(super) released: AtomicUsize,
    pub(super) finished: AtomicUsize,
    /// Not panics: the driver would take them for errors of the store.
    pub(super) wrong: Mutex<Vec<&'static str>>,
}

impl RowStore {
    async fn frees(&self, how_often: &AtomicUsize) {
        yield_now().await;
        if self.working.load(SeqCst) > 0 {
            self.wrong.lock().unwrap().push("given back while work ran");
        }
        how_often.fetch_add(1, SeqCst);
        yield_now().await;
    }
}

#[async_trait]
impl LeaseStore for RowStore {
    fn describe(&self) -> String {
        "one row".to_owned()
    }

    fn min_ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn renew(
        &self,
        _: &LeaseName,
        _: &Holder,
        _: Duration,
        _: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        yield_now().await;
        if self.released.load(SeqCst) + self.finished.load(SeqCst) > 0 {
            return Ok(RenewAnswer::Lost);
        }
        let (refused, fails) = (self.refuses.load(SeqCst), self.fails.load(SeqCst));
        yield_now().await;
        if fails {
            return Err(StoreError::new(ErrorKind::Unavailable, "it fails"));
        }
        self.renewed.fetch_add(1, SeqCst);
        Ok(if refused { RenewAnswer::Lost } else { RenewAnswer::Renewed(Renewed { step_down: false }) })
    }

    async fn release(&self, _: &LeaseName, _: &Holder, _: Duration) -> Result<ReleaseAnswer, StoreError> {
        self.frees(&self.released).await;
        Ok(ReleaseAnswer::Released)
    }

    async fn finish_slot(&self, _: &SlotEnd, _: Duration) -> Result<FinishAnswer, StoreError> {
        self.frees(&self.finished).await;
        Ok(FinishAnswer::Finished)
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        unreachable!()
    }

    async fn check(&self) -> Result<(), StoreError> {
        unreachable!()
    }

    async fn claim(&self, _: &Claim, _: Duration) -> Result<ClaimAnswer, StoreError> {
        unreachable!()
    }

    async fn renew_many(
        &self,
        _: &[Holding],
        _: Duration,
        _: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        unreachable!()
    }

    async fn verify(&self, _: &LeaseName, _: &Holder, _: Duration) -> Result<VerifyAnswer, StoreError> {
        unreachable!()
    }

    async fn claim_observed(
        &self,
        _: &Claim,
        _: &Observed,
        _: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        unreachable!()
    }

    async fn inspect(&self, _: &LeaseName, _: Duration) -> Result<Inspection, StoreError> {
        unreachable!()
    }

    async fn list(&self, _: &Page, _: Duration) -> Result<Listing, StoreError> {
        unreachable!()
    }

    async fn clear(&self, _: &LeaseName, _: &Observed, _: Duration) -> Result<ClearAnswer, StoreError> {
        unreachable!()
    }

    async fn resign(&self, _: &LeaseName, _: Term, _: Duration) -> Result<ResignAnswer, StoreError> {
        unreachable!()
    }

    async fn claim_slot(&self, _: &Claim, _: Slot, _: Duration) -> Result<SlotAnswer, StoreError> {
        unreachable!()
    }

    async fn unfinished_slots(
        &self,
        _: &[LeaseName],
        _: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        unreachable!()
    }

    async fn claim_rerun(
        &self,
        _: &Claim,
        _: &UnfinishedSlot,
        _: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        unreachable!()
    }

    async fn last_slot(&self, _: &LeaseName, _: Duration) -> Result<Option<Slot>, StoreError> {
        unreachable!()
    }
}
