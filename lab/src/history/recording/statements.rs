//! Each statement, in the words of a history.

use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, FinishAnswer, Holding, Inspection, Listing, Notices,
    Observed, Page, ReleaseAnswer, RenewAnswer, Renewed, ResignAnswer, SlotAnswer, SlotEnd, StoreError,
    UnfinishedSlot, VerifyAnswer, millis,
};
use lease_core::{Holder, LeaseName, LeaseStore, Slot, Term};

use super::RecordingStore;
use crate::history::{Answer, Ask, GivenUp, Seen, Token};

#[async_trait]
impl LeaseStore for RecordingStore {
    fn describe(&self) -> String {
        self.store.describe()
    }

    fn min_ttl(&self) -> Duration {
        self.store.min_ttl()
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        self.call(Ask::Other("migrate".into()), self.store.migrate(), done).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.call(Ask::Other("check".into()), self.store.check(), done).await
    }

    async fn claim(&self, claim: &Claim, within: Duration) -> Result<ClaimAnswer, StoreError> {
        let ask = Ask::Claim { token: claimed(claim), ttl_ms: millis(claim.ttl) };
        self.call(ask, self.store.claim(claim, within), |answer| match answer {
            ClaimAnswer::Granted(term) => granted(*term),
            ClaimAnswer::Held => Answer::Held,
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
        let ask = Ask::Renew { token: token(name, holder), ttl_ms: millis(ttl) };
        self.call(ask, self.store.renew(name, holder, ttl, within), |answer| match answer {
            RenewAnswer::Renewed(Renewed { step_down }) => Answer::Renewed { step_down: *step_down },
            RenewAnswer::Lost => Answer::Lost,
        })
        .await
    }

    async fn renew_many(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        let tokens = leases.iter().map(|lease| token(&lease.name, &lease.holder)).collect();
        let ask = Ask::RenewMany { tokens, ttl_ms: millis(ttl) };
        self.call(ask, self.store.renew_many(leases, ttl, within), |answers| {
            Answer::Many(answers.iter().map(Option::is_some).collect())
        })
        .await
    }

    async fn verify(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        let ask = Ask::Verify { token: token(name, holder) };
        self.call(ask, self.store.verify(name, holder, within), |answer| match answer {
            VerifyAnswer::Held(term) => Answer::HeldUnder(term.get()),
            VerifyAnswer::Lost => Answer::Lost,
        })
        .await
    }

    async fn release(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        let ask = Ask::Release { token: token(name, holder) };
        self.call(ask, self.store.release(name, holder, within), |answer| match answer {
            ReleaseAnswer::Released => Answer::Released,
            ReleaseAnswer::Gone => Answer::Gone,
        })
        .await
    }

    async fn claim_observed(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let ask =
            Ask::ClaimObserved { token: claimed(claim), ttl_ms: millis(claim.ttl), seen: seen(observed) };
        self.call(ask, self.store.claim_observed(claim, observed, within), conditional).await
    }

    async fn inspect(&self, name: &LeaseName, within: Duration) -> Result<Inspection, StoreError> {
        self.call(Ask::Inspect { name: name.into() }, self.store.inspect(name, within), |seen| Answer::Read {
            now_ms: seen.now.as_millis(),
            row: seen.row.as_ref().map(Into::into),
        })
        .await
    }

    async fn list(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        self.call(Ask::Other("list".into()), self.store.list(page, within), done).await
    }

    async fn clear(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        let ask = Ask::Clear { name: name.into(), seen: seen(observed) };
        self.call(ask, self.store.clear(name, observed, within), |answer| match answer {
            ClearAnswer::Cleared => Answer::Cleared,
            ClearAnswer::Moved => Answer::Moved,
        })
        .await
    }

    async fn resign(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        let ask = Ask::Resign { name: name.into(), term: term.get() };
        self.call(ask, self.store.resign(name, term, within), |answer| match answer {
            ResignAnswer::Asked => Answer::Asked,
            ResignAnswer::Moved => Answer::Moved,
        })
        .await
    }

    async fn claim_slot(
        &self,
        claim: &Claim,
        slot: Slot,
        within: Duration,
    ) -> Result<SlotAnswer, StoreError> {
        let ask = Ask::ClaimSlot { token: claimed(claim), ttl_ms: millis(claim.ttl), slot: slot.as_millis() };
        self.call(ask, self.store.claim_slot(claim, slot, within), |answer| match answer {
            SlotAnswer::Granted { term, superseded } => Answer::Granted {
                term: term.get(),
                superseded: superseded
                    .map(|given_up| GivenUp { slot: given_up.slot.as_millis(), rerun: given_up.rerun }),
            },
            SlotAnswer::Held => Answer::Held,
            SlotAnswer::Passed => Answer::Passed,
            SlotAnswer::NotYet(wait) => Answer::NotYet { ms: millis(*wait) },
        })
        .await
    }

    async fn finish_slot(&self, end: &SlotEnd, within: Duration) -> Result<FinishAnswer, StoreError> {
        let ask = Ask::FinishSlot {
            token: token(&end.name, &end.holder),
            slot: end.slot.as_millis(),
            passed: end.passed.map(Slot::as_millis),
            lost: end.lost,
        };
        self.call(ask, self.store.finish_slot(end, within), |answer| match answer {
            FinishAnswer::Finished => Answer::Finished,
            FinishAnswer::Lost { recorded } => Answer::FinishLost { recorded: *recorded },
        })
        .await
    }

    async fn unfinished_slots(
        &self,
        names: &[LeaseName],
        within: Duration,
    ) -> Result<Vec<UnfinishedSlot>, StoreError> {
        self.call(Ask::Other("unfinished_slots".into()), self.store.unfinished_slots(names, within), done)
            .await
    }

    async fn claim_rerun(
        &self,
        claim: &Claim,
        unfinished: &UnfinishedSlot,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let ask = Ask::ClaimRerun {
            token: claimed(claim),
            ttl_ms: millis(claim.ttl),
            slot: unfinished.slot.as_millis(),
            term: unfinished.term.get(),
        };
        self.call(ask, self.store.claim_rerun(claim, unfinished, within), conditional).await
    }

    async fn last_slot(&self, name: &LeaseName, within: Duration) -> Result<Option<Slot>, StoreError> {
        self.call(Ask::LastSlot { name: name.into() }, self.store.last_slot(name, within), |last| {
            Answer::Last(last.map(Slot::as_millis))
        })
        .await
    }

    fn notices(&self) -> Option<Notices> {
        self.store.notices()
    }

    async fn announce(&self, name: &LeaseName, within: Duration) -> Result<(), StoreError> {
        self.call(Ask::Other("announce".into()), self.store.announce(name, within), done).await
    }
}

fn token(name: &LeaseName, holder: &Holder) -> Token {
    Token { name: name.clone(), holder: *holder }
}

fn claimed(claim: &Claim) -> Token {
    token(&claim.name, &claim.holder)
}

fn seen(observed: &Observed) -> Seen {
    Seen { holder: observed.holder, expires_ms: observed.expires_at.as_millis() }
}

fn granted(term: Term) -> Answer {
    Answer::Granted { term: term.get(), superseded: None }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what `call` takes")]
fn conditional(answer: &ConditionalAnswer) -> Answer {
    match answer {
        ConditionalAnswer::Granted(term) => granted(*term),
        ConditionalAnswer::Moved => Answer::Moved,
    }
}

fn done<T>(_: &T) -> Answer {
    Answer::Done
}
