//! A store as one process has it, whose answers say what was asked when they are not those expected.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Inspection, Listing, Observed,
    Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd, StoreError, Superseded,
    UnfinishedSlot, VerifyAnswer,
};
use lease_core::{ErrorKind, Holder, LeaseName, LeaseStore, Slot, Term};

/// How long each statement may take: long enough for any machine.
pub(crate) const WITHIN: Duration = Duration::from_secs(30);

/// A store as one process has it.
#[derive(Clone)]
pub(crate) struct Process(Arc<dyn LeaseStore>);

impl Process {
    pub(crate) fn new(store: Arc<dyn LeaseStore>) -> Self {
        Self(store)
    }

    pub(crate) fn describe(&self) -> String {
        self.0.describe()
    }

    pub(crate) fn min_ttl(&self) -> Duration {
        self.0.min_ttl()
    }

    pub(crate) async fn migrate(&self) -> Reply<()> {
        Reply { asked: "migrate".to_owned(), answer: self.0.migrate().await }
    }

    pub(crate) async fn check(&self) -> Reply<()> {
        Reply { asked: "check".to_owned(), answer: self.0.check().await }
    }

    pub(crate) async fn claim(&self, claim: &Claim) -> Reply<ClaimAnswer> {
        let asked = format!("claim {:?} for {:?}", claim.name, claim.holder);
        Reply { asked, answer: self.0.claim(claim, WITHIN).await }
    }

    /// Renews with the ttl of the claim.
    pub(crate) async fn renew(&self, claim: &Claim) -> Reply<RenewAnswer> {
        self.renew_as(&claim.name, &claim.holder, claim.ttl).await
    }

    pub(crate) async fn renew_as(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
    ) -> Reply<RenewAnswer> {
        let asked = format!("renew {name:?} of {holder:?} for {ttl:?}");
        Reply { asked, answer: self.0.renew(name, holder, ttl, WITHIN).await }
    }

    pub(crate) async fn renew_many(&self, leases: &[Holding], ttl: Duration) -> Reply<Vec<Option<Renewed>>> {
        let asked = format!("renew {} leases in a batch for {ttl:?}", leases.len());
        Reply { asked, answer: self.0.renew_many(leases, ttl, WITHIN).await }
    }

    pub(crate) async fn verify(&self, name: &LeaseName, holder: &Holder) -> Reply<VerifyAnswer> {
        let asked = format!("verify {name:?} of {holder:?}");
        Reply { asked, answer: self.0.verify(name, holder, WITHIN).await }
    }

    pub(crate) async fn release(&self, name: &LeaseName, holder: &Holder) -> Reply<ReleaseAnswer> {
        let asked = format!("release {name:?} of {holder:?}");
        Reply { asked, answer: self.0.release(name, holder, WITHIN).await }
    }

    pub(crate) async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
    ) -> Reply<ConditionalAnswer> {
        let asked = format!("claim {:?} for {:?} as {observed:?}", claim.name, claim.holder);
        Reply { asked, answer: self.0.claim_observed(claim, observed, WITHIN).await }
    }

    pub(crate) async fn inspect(&self, name: &LeaseName) -> Reply<Inspection> {
        Reply { asked: format!("inspect {name:?}"), answer: self.0.inspect(name, WITHIN).await }
    }

    pub(crate) async fn list(&self, page: &Page) -> Reply<Listing> {
        Reply { asked: format!("list {page:?}"), answer: self.0.list(page, WITHIN).await }
    }

    pub(crate) async fn clear(&self, name: &LeaseName, observed: &Observed) -> Reply<ClearAnswer> {
        let asked = format!("clear {name:?} as {observed:?}");
        Reply { asked, answer: self.0.clear(name, observed, WITHIN).await }
    }

    pub(crate) async fn resign(&self, name: &LeaseName, term: Term) -> Reply<ResignAnswer> {
        let asked = format!("ask term {term} of {name:?} to step down");
        Reply { asked, answer: self.0.resign(name, term, WITHIN).await }
    }

    pub(crate) async fn announce(&self, name: &LeaseName) -> Reply<()> {
        Reply {
            asked: format!("tell that {name:?} was given back"),
            answer: self.0.announce(name, WITHIN).await,
        }
    }

    pub(crate) async fn claim_slot(&self, claim: &Claim, slot: Slot) -> Reply<SlotAnswer> {
        let asked = format!("claim {:?} for {:?} and slot {slot}", claim.name, claim.holder);
        Reply { asked, answer: self.0.claim_slot(claim, slot, WITHIN).await }
    }

    pub(crate) async fn finish_slot(&self, end: &SlotEnd) -> Reply<FinishAnswer> {
        Reply { asked: format!("finish {end:?}"), answer: self.0.finish_slot(end, WITHIN).await }
    }

    /// The unfinished slots, in order of their names: the contract leaves the order open.
    pub(crate) async fn unfinished_slots(&self, names: &[LeaseName]) -> Reply<Vec<UnfinishedSlot>> {
        let asked = format!("name the unfinished slots of {} names", names.len());
        let answer = self.0.unfinished_slots(names, WITHIN).await.map(|mut slots| {
            slots.sort_by(|a, b| a.name.cmp(&b.name));
            slots
        });
        Reply { asked, answer }
    }

    pub(crate) async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
    ) -> Reply<ConditionalAnswer> {
        let asked = format!("claim for {:?} a rerun as {unfinished:?}", claim.holder);
        Reply { asked, answer: self.0.claim_rerun(claim, unfinished, WITHIN).await }
    }

    pub(crate) async fn last_slot(&self, name: &LeaseName) -> Reply<Option<Slot>> {
        Reply {
            asked: format!("name the last slot of {name:?}"),
            answer: self.0.last_slot(name, WITHIN).await,
        }
    }
}

/// What was asked of a store and what it answered.
#[must_use = "an answer that nobody looks at proves nothing"]
pub(crate) struct Reply<T> {
    asked: String,
    answer: Result<T, StoreError>,
}

impl<T: Debug> Reply<T> {
    /// The answer; an error is none.
    #[track_caller]
    pub(crate) fn ok(self) -> T {
        match self.answer {
            Ok(answer) => answer,
            Err(error) => panic!("asked to {}, the store failed: {}", self.asked, in_full(&error)),
        }
    }

    /// Holds the store to this answer.
    #[expect(clippy::needless_pass_by_value, reason = "cases read better with the plain answer")]
    #[track_caller]
    pub(crate) fn is(self, expected: T)
    where
        T: PartialEq,
    {
        let asked = self.asked.clone();
        let answer = self.ok();
        assert!(
            answer == expected,
            "asked to {asked}\n  the store answered {answer:?}\n  the contract says {expected:?}"
        );
    }

    /// Holds the store to an error of this kind: any answer would be a lie.
    #[track_caller]
    pub(crate) fn fails_as(self, kind: ErrorKind) {
        match self.answer {
            Ok(answer) => panic!(
                "asked to {}\n  the store answered {answer:?}\n  it cannot know: only an error of kind {kind:?} is honest",
                self.asked
            ),
            Err(error) => assert!(
                error.kind() == kind,
                "asked to {}, the store failed as {:?}, not as {kind:?}: {}",
                self.asked,
                error.kind(),
                in_full(&error)
            ),
        }
    }

    #[track_caller]
    fn grant<G>(self, grant: impl FnOnce(&T) -> Option<G>) -> G {
        let asked = self.asked.clone();
        let answer = self.ok();
        grant(&answer).unwrap_or_else(|| {
            panic!("asked to {asked}\n  the store answered {answer:?}\n  the contract says it is granted")
        })
    }
}

impl Reply<ClaimAnswer> {
    #[track_caller]
    pub(crate) fn granted(self) -> Term {
        self.grant(|answer| match answer {
            ClaimAnswer::Granted(term) => Some(*term),
            ClaimAnswer::Held => None,
        })
    }
}

impl Reply<ConditionalAnswer> {
    #[track_caller]
    pub(crate) fn granted(self) -> Term {
        self.grant(|answer| match answer {
            ConditionalAnswer::Granted(term) => Some(*term),
            ConditionalAnswer::Moved => None,
        })
    }
}

impl Reply<SlotAnswer> {
    #[track_caller]
    pub(crate) fn granted(self) -> (Term, Option<Superseded>) {
        self.grant(|answer| match answer {
            SlotAnswer::Granted { term, superseded } => Some((*term, *superseded)),
            _ => None,
        })
    }
}

/// An error with its causes.
fn in_full(error: &StoreError) -> String {
    let mut text = format!("{error} ({:?}, effect {:?})", error.kind(), error.effect());
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The answer to a renewal of a lease that nobody asked to step down.
pub(crate) const RENEWED: RenewAnswer = RenewAnswer::Renewed(Renewed { step_down: false });
