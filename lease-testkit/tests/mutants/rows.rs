//! Wrong ways to verify, free and take over what is there.

use std::future::pending;
use std::time::Duration;

use lease_core::store::{
    Claim, ClearAnswer, ConditionalAnswer, DbTime, Observed, ReleaseAnswer, ResignAnswer, StoreError,
    VerifyAnswer,
};
use lease_core::{Holder, LeaseName, LeaseStore, Term};

use super::broken::Broken;
use super::mutant::Mutant;

impl Mutant {
    pub(crate) async fn verify_wrongly(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<VerifyAnswer, StoreError> {
        match self.broken {
            Broken::VerifyIgnoresExpiry => {
                let row = self.row(name).await?.filter(|row| row.holder == *holder);
                Ok(row.map_or(VerifyAnswer::Lost, |row| VerifyAnswer::Held(row.term)))
            }
            Broken::VerifyIgnoresHolder => {
                let read = self.inner.inspect(name, within).await?;
                let live = read.row.filter(|row| row.is_live(read.now));
                Ok(live.map_or(VerifyAnswer::Lost, |row| VerifyAnswer::Held(row.term)))
            }
            Broken::VerifyHangs => pending().await,
            _ => self.inner.verify(name, holder, within).await,
        }
    }

    pub(crate) async fn release_wrongly(
        &self,
        name: &LeaseName,
        holder: &Holder,
        within: Duration,
    ) -> Result<ReleaseAnswer, StoreError> {
        if self.is(Broken::RenewIsTwoSteps) {
            self.gates.meet().await;
        }
        let read = self.inner.inspect(name, within).await?;
        match (self.broken, read.row) {
            (Broken::ReleaseWantsLive, Some(row)) if !row.is_live(read.now) => Ok(ReleaseAnswer::Gone),
            (Broken::ReleaseWipesSlots, Some(row)) if row.holder == *holder => {
                self.inner.edit_row(name, |row| row.unfinished_slot = None);
                self.inner.release(name, holder, within).await
            }
            (Broken::TermRestartsAfterRelease, Some(row)) if row.holder == *holder => {
                self.inner.remove_row(name);
                Ok(ReleaseAnswer::Released)
            }
            (Broken::ReleaseIgnoresHolder, Some(row)) => self.inner.release(name, &row.holder, within).await,
            (Broken::ReleaseOnce, Some(row)) if row.expires_at == DbTime::RELEASED => Ok(ReleaseAnswer::Gone),
            _ => self.inner.release(name, holder, within).await,
        }
    }

    pub(crate) async fn claim_observed_wrongly(
        &self,
        claim: &Claim,
        observed: &Observed,
        within: Duration,
    ) -> Result<ConditionalAnswer, StoreError> {
        let read = self.inner.inspect(&claim.name, within).await?;
        let observed = match (self.broken, read.row) {
            (Broken::ObservedIgnoresExpiry, Some(row)) => {
                Observed { expires_at: row.expires_at, ..*observed }
            }
            (Broken::ObservedIgnoresHolder, Some(row)) => Observed { holder: row.holder, ..*observed },
            (Broken::ObservedWantsExpired, Some(row)) if row.is_live(read.now) => {
                return Ok(ConditionalAnswer::Moved);
            }
            (Broken::ObservedWantsLive, Some(row)) if !row.is_live(read.now) => {
                return Ok(ConditionalAnswer::Moved);
            }
            (Broken::ObservedIgnoresWhatItRead, Some(row)) if row.observed() == *observed => {
                self.gates.meet().await;
                self.row(&claim.name).await?.map_or(*observed, |row| row.observed())
            }
            _ => *observed,
        };
        let answer = self.inner.claim_observed(claim, &observed, within).await?;
        if self.is(Broken::ObservedWipesSlots) && answer != ConditionalAnswer::Moved {
            self.inner.edit_row(&claim.name, |row| row.unfinished_slot = None);
        }
        Ok(answer)
    }

    pub(crate) async fn clear_wrongly(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        let read = self.inner.inspect(name, within).await?;
        let observed = match (self.broken, read.row) {
            (Broken::ClearWantsLive, Some(row)) if !row.is_live(read.now) => return Ok(ClearAnswer::Moved),
            (Broken::ClearIgnoresMove, Some(row)) => row.observed(),
            (Broken::ClearIgnoresHolder, Some(row)) => Observed { holder: row.holder, ..*observed },
            _ => *observed,
        };
        let answer = self.inner.clear(name, &observed, within).await?;
        match (self.broken, answer) {
            (Broken::TermRestartsAfterClear, ClearAnswer::Cleared) => {
                self.inner.remove_row(name);
            }
            (Broken::ClearWipesSlots, ClearAnswer::Cleared) => {
                self.inner.edit_row(name, |row| row.unfinished_slot = None);
            }
            _ => {}
        }
        Ok(answer)
    }

    pub(crate) async fn resign_wrongly(
        &self,
        name: &LeaseName,
        term: Term,
        within: Duration,
    ) -> Result<ResignAnswer, StoreError> {
        match (self.broken, self.row(name).await?) {
            (Broken::ResignIgnoresTerm, Some(row)) => self.inner.resign(name, row.term, within).await,
            (Broken::ResignOnce, Some(row)) if row.resign_term == term.get() => Ok(ResignAnswer::Moved),
            _ => self.inner.resign(name, term, within).await,
        }
    }
}
