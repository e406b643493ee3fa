//! A memory store with one thing wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holder, Holding, Inspection, LeaseName,
    LeaseRow, LeaseStore, Listing, Observed, Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, Slot,
    SlotAnswer, SlotEnd, StoreError, Term, UnfinishedSlot, VerifyAnswer,
};
use lease_testkit::MemoryStore;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::names::key;

/// What is wrong; `main.rs` says it in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    RenewIgnoresHolder,
    RenewRevivesExpired,
    RenewRevivesReleased,
    RenewRemakesRow,
    RenewWithoutChangeIsLost,
    RenewIsTwoSteps,
    ErrorAsLost,
    BatchInRowOrder,
    BatchOfYes,
    BatchByName,
    BatchCrosses,
    BatchForgetsStepDown,
    BatchStopsShort,
    TermNotRaised,
    TermRestartsAfterRelease,
    TermRestartsAfterClear,
    TermRestartsAfterExpiry,
    TermRisesWhenRefused,
    TermWraps,
    TwoInsert,
    ErrorAsHeld,
    DamageAsHeld,
    ClaimWipesSlots,
    ClaimKeepsInstance,
    IdentityCut,
    ClaimIsTwoSteps,
    DroppedKeepsConnection,
    NamesTruncated,
    NamesFoldedInCase,
    NamesFoldedInAccent,
    NamesNormalized,
    NamesTrimmed,
    NamesCollapsed,
    VerifyIgnoresExpiry,
    VerifyHangs,
    ReleaseIgnoresHolder,
    ReleaseOnce,
    ObservedIgnoresExpiry,
    ObservedIgnoresHolder,
    ObservedWantsExpired,
    ClearIgnoresMove,
    ClearIgnoresHolder,
    ResignIgnoresTerm,
    ResignOutlivesTerm,
    PrefixIsPattern,
    PrefixIgnoresCase,
    ListByCollation,
    PageIncludesAfter,
    SlotTwice,
    SlotBackwards,
    SlotEarly,
    HeldBeforeNotYet,
    SlotIgnoresTermRead,
    SupersededUnsaid,
    FinishReopensLater,
    FinishEndsLater,
    FinishSkipsBeyondClock,
    FinishMovesBack,
    FinishIgnoresLost,
    FinishOnce,
    UnfinishedWhileHeld,
    UnfinishedForEver,
    RerunTwice,
    RerunWhileHeld,
    RerunIgnoresTerm,
    LastSlotIsUnfinished,
    MigrateEmpties,
    CheckIsBlind,
}

/// The store with one thing wrong. The wrong ways themselves are in `leases.rs`, `slots.rs` and `names.rs`.
pub(crate) struct Mutant {
    pub(crate) inner: MemoryStore,
    pub(crate) broken: Broken,
    pub(crate) gates: Arc<Gates>,
}

/// Where the statements of all processes meet that are wrong only when they interleave: they wait
/// for each other rather than for luck.
pub(crate) struct Gates {
    arrived: AtomicUsize,
    others: AtomicUsize,
    connections: Semaphore,
}

impl Default for Gates {
    fn default() -> Self {
        Self { arrived: AtomicUsize::new(0), others: AtomicUsize::new(0), connections: Semaphore::new(4) }
    }
}

/// How long a statement waits at a gate when nobody comes.
const ALONE: Duration = Duration::from_millis(500);

impl Gates {
    /// Waits until a second statement has come to this gate too.
    pub(crate) async fn meet(&self) {
        let ticket = self.arrived.fetch_add(1, Ordering::SeqCst);
        let partner = ticket | 1;
        self.until(|| self.arrived.load(Ordering::SeqCst) > partner).await;
    }

    /// Waits until another statement has ended.
    pub(crate) async fn let_another_pass(&self) {
        let before = self.others.load(Ordering::SeqCst);
        self.until(|| self.others.load(Ordering::SeqCst) != before).await;
    }

    async fn until(&self, open: impl Fn() -> bool) {
        let opened = async {
            while !open() {
                yield_now().await;
            }
        };
        // Nobody else is there: the statement goes on alone.
        let _ = timeout(ALONE, opened).await;
    }
}

impl Mutant {
    pub(crate) fn new(inner: MemoryStore, broken: Broken, gates: Arc<Gates>) -> Self {
        Self { inner, broken, gates }
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

    /// Takes a connection for a statement; lost with the future if that is dropped.
    async fn connect(&self) {
        if self.is(Broken::DroppedKeepsConnection) {
            self.gates.connections.acquire().await.expect("never closed").forget();
            yield_now().await;
        }
    }

    fn end<T>(&self, answer: T) -> T {
        self.gates.others.fetch_add(1, Ordering::SeqCst);
        if self.is(Broken::DroppedKeepsConnection) {
            self.gates.connections.add_permits(1);
        }
        answer
    }
}

#[async_trait]
impl LeaseStore for Mutant {
    fn describe(&self) -> String {
        format!("memory, {:?}", self.broken)
    }

    fn min_ttl(&self) -> Duration {
        self.inner.min_ttl()
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        if self.is(Broken::MigrateEmpties) {
            self.inner.drop_table();
        }
        self.inner.migrate().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        if self.is(Broken::CheckIsBlind) { Ok(()) } else { self.inner.check().await }
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        self.connect().await;
        let claim = Claim { name: self.key(&claim.name), ..claim.clone() };
        let answer = self.claim_wrongly(&claim, within).await;
        self.end(answer)
    }

    async fn renew(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        self.connect().await;
        let answer = self.renew_wrongly(&self.key(name), holder, ttl, within).await;
        self.end(answer)
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        self.connect().await;
        let leases: Vec<Holding> = leases
            .iter()
            .map(|lease| Holding { name: self.key(&lease.name), holder: lease.holder })
            .collect();
        let answer = self.renew_many_wrongly(&leases, ttl, within).await;
        self.end(answer)
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        self.connect().await;
        let answer = self.verify_wrongly(&self.key(name), holder, within).await;
        self.end(answer)
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        self.connect().await;
        let answer = self.release_wrongly(&self.key(name), holder, within).await;
        self.end(answer)
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        self.connect().await;
        let claim = Claim { name: self.key(&claim.name), ..claim.clone() };
        let answer = self.claim_observed_wrongly(&claim, observed, within).await;
        self.end(answer)
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        self.connect().await;
        let answer = self.inner.inspect(&self.key(name), within).await;
        self.end(answer)
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        self.connect().await;
        let answer = self.list_wrongly(page, within).await;
        self.end(answer)
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        self.connect().await;
        let answer = self.clear_wrongly(&self.key(name), observed, within).await;
        self.end(answer)
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        self.connect().await;
        let answer = self.resign_wrongly(&self.key(name), term, within).await;
        self.end(answer)
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        self.connect().await;
        let claim = Claim { name: self.key(&claim.name), ..claim.clone() };
        let answer = self.claim_slot_wrongly(&claim, slot, within).await;
        self.end(answer)
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        self.connect().await;
        let end = SlotEnd { name: self.key(&end.name), ..end.clone() };
        let answer = self.finish_slot_wrongly(&end, within).await;
        self.end(answer)
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        self.connect().await;
        let names: Vec<LeaseName> = names.iter().map(|name| self.key(name)).collect();
        let answer = self.unfinished_slots_wrongly(&names, within).await;
        self.end(answer)
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        self.connect().await;
        let claim = Claim { name: self.key(&claim.name), ..claim.clone() };
        let answer = self.claim_rerun_wrongly(&claim, unfinished, within).await;
        self.end(answer)
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        self.connect().await;
        let answer = self.last_slot_wrongly(&self.key(name), within).await;
        self.end(answer)
    }
}
