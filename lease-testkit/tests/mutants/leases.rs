//! Wrong ways to claim and to renew.

use std::time::Duration;

use lease_core::store::{
    Claim, ClaimAnswer, DbTime, Holding, IDENTITY_MAX_BYTES, LeaseRow, RenewAnswer, Renewed, StoreError,
    millis,
};
use lease_core::{ErrorKind, Holder, Instance, LeaseName, LeaseStore, Term};
use tokio::task::yield_now;

use super::broken::Broken;
use super::mutant::Mutant;

/// A claim's answer, and the row before it.
struct Prepared {
    before: Option<LeaseRow>,
    answer: ClaimAnswer,
}

impl Mutant {
    pub(crate) async fn claim_wrongly(
        &self,
        claim: &Claim,
        within: Duration,
    ) -> Result<ClaimAnswer, StoreError> {
        if let Some(answer) = self.is_crowded(ClaimAnswer::Held).await {
            return answer;
        }
        let prepared = match self.claim_prepared(claim, within).await {
            Err(_) if self.is(Broken::ErrorAsHeld) => return Ok(ClaimAnswer::Held),
            Err(error) if self.is(Broken::DamageAsHeld) && error.kind() == ErrorKind::Damaged => {
                return Ok(ClaimAnswer::Held);
            }
            prepared => prepared?,
        };
        let (inner, name) = (&self.inner, &claim.name);
        match (self.broken, prepared.answer) {
            (Broken::TwoInsert, _) if prepared.before.is_none() => {
                return Ok(ClaimAnswer::Granted(Term::FIRST));
            }
            (Broken::FirstTermIsTwo, ClaimAnswer::Granted(Term::FIRST)) => {
                let term = Term::new(2).unwrap_or(Term::FIRST);
                inner.edit_row(name, |row| row.term = term);
                return Ok(ClaimAnswer::Granted(term));
            }
            (Broken::ClaimByOtherClock, ClaimAnswer::Granted(_)) => inner.edit_row(name, |row| {
                for time in [&mut row.claimed_at, &mut row.renewed_at, &mut row.expires_at] {
                    *time = DbTime::from_millis(time.as_millis() - 60_000);
                }
            }),
            (Broken::TtlInSeconds, ClaimAnswer::Granted(_)) => {
                inner.edit_row(name, |row| row.ttl = Duration::from_secs(row.ttl.as_secs()));
            }
            _ => {}
        }
        let Prepared { before: Some(before), answer } = prepared else { return Ok(prepared.answer) };
        match (self.broken, answer) {
            (Broken::AnswersFormerTerm, ClaimAnswer::Granted(_)) => {
                return Ok(ClaimAnswer::Granted(before.term));
            }
            (Broken::TermNotRaised, ClaimAnswer::Granted(_)) => {
                inner.edit_row(name, |row| row.term = before.term);
                return Ok(ClaimAnswer::Granted(before.term));
            }
            (Broken::ClaimWipesSlots, ClaimAnswer::Granted(_)) => {
                inner.edit_row(name, |row| {
                    (row.slot, row.unfinished_slot, row.rerun_slot) = (None, None, None);
                });
            }
            (Broken::ClaimKeepsInstance, ClaimAnswer::Granted(_)) => {
                inner.edit_row(name, |row| row.instance = before.instance);
            }
            (Broken::HeldIsGranted, ClaimAnswer::Held) => return Ok(ClaimAnswer::Granted(before.term)),
            (Broken::TermRisesWhenRefused, ClaimAnswer::Held) => inner.edit_row(name, |row| {
                row.term = row.term.get().checked_add(1).and_then(Term::new).unwrap_or(row.term);
            }),
            _ => {}
        }
        Ok(answer)
    }

    /// The claim, after what is done wrong ahead of it.
    async fn claim_prepared(&self, claim: &Claim, within: Duration) -> Result<Prepared, StoreError> {
        let (inner, name) = (&self.inner, &claim.name);
        let read = inner.inspect(name, within).await?;
        let mut claim = claim.clone();
        match (self.broken, &read.row) {
            (Broken::TermRestartsAfterExpiry, Some(row))
                if row.expires_at != DbTime::RELEASED && !row.is_live(read.now) =>
            {
                inner.remove_row(name);
            }
            (Broken::TermWraps, Some(row)) if row.term.get() == i64::MAX => {
                inner.edit_row(name, |row| row.term = Term::FIRST);
            }
            (Broken::ClaimIsTwoSteps, Some(row)) if !row.is_live(read.now) => {
                inner.edit_row(name, |row| row.holder = claim.holder);
                yield_now().await;
            }
            (Broken::TwoInsert, None) => {
                self.gates.meet().await;
            }
            (Broken::ClaimIgnoresWhatItRead, Some(row)) if !row.is_live(read.now) => {
                self.gates.meet().await;
                inner.edit_row(name, |row| row.expires_at = DbTime::RELEASED);
            }
            (Broken::RenewWantsOwnSession, _) => {
                self.claimed.lock().expect("never poisoned").insert(claim.holder);
            }
            (Broken::IdentityCut, _) => {
                let kept = claim.instance.name().as_str().chars().take(IDENTITY_MAX_BYTES / 2);
                claim.instance = Instance::named(&kept.collect::<String>())
                    .address(claim.instance.address_text().as_str())
                    .version(claim.instance.version_text().as_str());
            }
            _ => {}
        }
        Ok(Prepared { before: read.row, answer: inner.claim(&claim, within).await? })
    }

    pub(crate) async fn renew_wrongly(
        &self,
        name: &LeaseName,
        holder: &Holder,
        ttl: Duration,
        within: Duration,
    ) -> Result<RenewAnswer, StoreError> {
        let inner = &self.inner;
        if self.is(Broken::ErrorAsLost) {
            return Ok(inner.renew(name, holder, ttl, within).await.unwrap_or(RenewAnswer::Lost));
        }
        let read = inner.inspect(name, within).await?;
        let row = read.row;
        let revive = || {
            let expires_at = DbTime::from_millis(read.now.as_millis() + millis(ttl));
            inner.edit_row(name, |row| (row.renewed_at, row.expires_at) = (read.now, expires_at));
            Ok(RenewAnswer::Renewed(Renewed { step_down: false }))
        };
        match (self.broken, &row) {
            (Broken::RenewIgnoresHolder, Some(row)) => inner.renew(name, &row.holder, ttl, within).await,
            (Broken::RenewRevivesExpired, Some(row))
                if row.holder == *holder && row.expires_at != DbTime::RELEASED && !row.is_live(read.now) =>
            {
                revive()
            }
            (Broken::RenewRevivesReleased, Some(row))
                if row.holder == *holder && row.expires_at == DbTime::RELEASED =>
            {
                revive()
            }
            (Broken::RenewRemakesRow, None) => {
                let instance = Instance::named("remade");
                inner.claim(&Claim { name: name.clone(), holder: *holder, ttl, instance }, within).await?;
                Ok(RenewAnswer::Renewed(Renewed { step_down: false }))
            }
            (Broken::RenewWithoutChangeIsLost, Some(before)) => {
                let answer = inner.renew(name, holder, ttl, within).await?;
                let changed = self.row(name).await?.is_some_and(|after| after != *before);
                Ok(if changed { answer } else { RenewAnswer::Lost })
            }
            (Broken::RenewIsTwoSteps, Some(row)) if row.holder == *holder && row.is_live(read.now) => {
                // A release at the same time comes between the two steps.
                self.gates.meet().await;
                self.gates.let_another_pass().await;
                revive()
            }
            (Broken::ContentionIsLoss, Some(row)) if row.is_live(read.now) && self.gates.meet().await => {
                Ok(RenewAnswer::Lost)
            }
            (Broken::RenewWantsOwnSession, Some(_))
                if !self.claimed.lock().expect("never poisoned").contains(holder) =>
            {
                Ok(RenewAnswer::Lost)
            }
            (Broken::ResignUnsaid | Broken::ResignSaidOnce, Some(_)) => {
                let answer = inner.renew(name, holder, ttl, within).await?;
                inner.edit_row(name, |row| row.resign_term = 0);
                match answer {
                    RenewAnswer::Renewed(_) if self.is(Broken::ResignUnsaid) => {
                        Ok(RenewAnswer::Renewed(Renewed { step_down: false }))
                    }
                    answer => Ok(answer),
                }
            }
            (Broken::RenewForClaimedTtl, Some(row)) => inner.renew(name, holder, row.ttl, within).await,
            (Broken::RenewSilently | Broken::RenewWipesSlots, Some(before)) => {
                let answer = inner.renew(name, holder, ttl, within).await?;
                inner.edit_row(name, |row| match self.broken {
                    Broken::RenewSilently => row.renewed_at = before.renewed_at,
                    _ => row.slot = None,
                });
                Ok(answer)
            }
            (Broken::ResignOutlivesTerm, Some(row)) => {
                let step_down = row.resign_term != 0;
                Ok(match inner.renew(name, holder, ttl, within).await? {
                    RenewAnswer::Renewed(_) => RenewAnswer::Renewed(Renewed { step_down }),
                    RenewAnswer::Lost => RenewAnswer::Lost,
                })
            }
            _ => inner.renew(name, holder, ttl, within).await,
        }
    }

    pub(crate) async fn renew_many_wrongly(
        &self,
        leases: &[Holding],
        ttl: Duration,
        within: Duration,
    ) -> Result<Vec<Option<Renewed>>, StoreError> {
        let inner = &self.inner;
        match self.broken {
            Broken::BatchInRowOrder => {
                let mut sorted = leases.to_vec();
                sorted.sort_by(|a, b| a.name.cmp(&b.name));
                inner.renew_many(&sorted, ttl, within).await
            }
            Broken::BatchOfYes => {
                let answers = inner.renew_many(leases, ttl, within).await?;
                Ok(answers.into_iter().map(|answer| answer.or(Some(Renewed { step_down: false }))).collect())
            }
            Broken::BatchByName => {
                let answers = inner.renew_many(leases, ttl, within).await?;
                let any_of = |name: &LeaseName| {
                    let mut named = leases.iter().zip(&answers).filter(|(lease, _)| lease.name == *name);
                    named.find_map(|(_, answer)| *answer)
                };
                Ok(leases.iter().map(|lease| any_of(&lease.name)).collect())
            }
            Broken::BatchCrosses => {
                let mut answers = Vec::new();
                for lease in leases {
                    let holder = self.row(&lease.name).await?.map(|row| row.holder);
                    let among = leases.iter().find(|other| Some(other.holder) == holder);
                    let lease = among.map_or(lease.clone(), |among| Holding {
                        name: lease.name.clone(),
                        holder: among.holder,
                    });
                    answers.extend(inner.renew_many(&[lease], ttl, within).await?);
                }
                Ok(answers)
            }
            Broken::BatchForgetsStepDown => {
                let answers = inner.renew_many(leases, ttl, within).await?;
                Ok(answers.into_iter().map(|answer| answer.map(|_| Renewed { step_down: false })).collect())
            }
            Broken::BatchSilently => {
                let answers = inner.renew_many(leases, ttl, within).await?;
                for (lease, _) in leases.iter().zip(&answers).filter(|(_, answer)| answer.is_some()) {
                    inner.edit_row(&lease.name, |row| row.renewed_at = row.claimed_at);
                }
                Ok(answers)
            }
            Broken::BatchesDeadlock if self.gates.meet().await => {
                Err(StoreError::new(ErrorKind::Other, "deadlock detected"))
            }
            Broken::EmptyBatchFails if leases.is_empty() => {
                Err(StoreError::new(ErrorKind::Invalid, "a statement about nothing"))
            }
            Broken::BatchWithoutChangeIsNone => {
                let mut before = Vec::new();
                for lease in leases {
                    before.push(self.row(&lease.name).await?);
                }
                let mut answers = inner.renew_many(leases, ttl, within).await?;
                for ((lease, before), answer) in leases.iter().zip(before).zip(&mut answers) {
                    if self.row(&lease.name).await? == before {
                        *answer = None;
                    }
                }
                Ok(answers)
            }
            Broken::BatchStopsShort => {
                let mut answers = inner.renew_many(leases, ttl, within).await?;
                let end = answers.iter().position(Option::is_none).unwrap_or(answers.len());
                answers[end..].fill(None);
                Ok(answers)
            }
            _ => inner.renew_many(leases, ttl, within).await,
        }
    }
}
