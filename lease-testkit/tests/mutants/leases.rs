//! Wrong ways to claim, keep, free and list leases.

use std::future::pending;
use std::time::Duration;

use lease_core::{
    Claim, ClaimAnswer, ClearAnswer, ConditionalAnswer, DbTime, ErrorKind, Holder, Holding,
    IDENTITY_MAX_BYTES, Instance, LeaseName, LeaseRow, LeaseStore, Listing, Observed, Page, ReleaseAnswer,
    RenewAnswer, Renewed, ResignAnswer, StoreError, Term, VerifyAnswer, millis,
};
use tokio::task::yield_now;

use crate::mutant::{Broken, Mutant};

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
        let prepared = match self.claim_prepared(claim, within).await {
            Err(_) if self.is(Broken::ErrorAsHeld) => return Ok(ClaimAnswer::Held),
            Err(error) if self.is(Broken::DamageAsHeld) && error.kind() == ErrorKind::Damaged => {
                return Ok(ClaimAnswer::Held);
            }
            prepared => prepared?,
        };
        if self.is(Broken::TwoInsert) && prepared.before.is_none() {
            return Ok(ClaimAnswer::Granted(Term::FIRST));
        }
        let Prepared { before: Some(before), answer } = prepared else { return Ok(prepared.answer) };
        let (inner, name) = (&self.inner, &claim.name);
        match (self.broken, answer) {
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
            (Broken::TwoInsert, None) => self.gates.meet().await,
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
                if row.holder == *holder && row.expires_at != DbTime::RELEASED =>
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
                self.gates.let_another_pass().await;
                revive()
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
            Broken::BatchStopsShort => {
                let mut answers = inner.renew_many(leases, ttl, within).await?;
                let end = answers.iter().position(Option::is_none).unwrap_or(answers.len());
                answers[end..].fill(None);
                Ok(answers)
            }
            _ => inner.renew_many(leases, ttl, within).await,
        }
    }

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
        let row = self.row(name).await?;
        match (self.broken, row) {
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
            _ => *observed,
        };
        self.inner.claim_observed(claim, &observed, within).await
    }

    pub(crate) async fn clear_wrongly(
        &self,
        name: &LeaseName,
        observed: &Observed,
        within: Duration,
    ) -> Result<ClearAnswer, StoreError> {
        let observed = match (self.broken, self.row(name).await?) {
            (Broken::ClearIgnoresMove, Some(row)) => row.observed(),
            (Broken::ClearIgnoresHolder, Some(row)) => Observed { holder: row.holder, ..*observed },
            _ => *observed,
        };
        let answer = self.inner.clear(name, &observed, within).await?;
        if self.is(Broken::TermRestartsAfterClear) && answer == ClearAnswer::Cleared {
            self.inner.remove_row(name);
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
            _ => self.inner.resign(name, term, within).await,
        }
    }

    pub(crate) async fn list_wrongly(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        let all = Page { prefix: String::new(), after: page.after.clone(), limit: u32::MAX };
        let mut listing = match self.broken {
            Broken::PrefixIsPattern => {
                let mut listing = self.inner.list(&all, within).await?;
                listing.rows.retain(|row| is_like(row.name.as_str(), &page.prefix));
                listing
            }
            Broken::PrefixIgnoresCase => {
                let mut listing = self.inner.list(&all, within).await?;
                let prefix = page.prefix.to_lowercase();
                listing.rows.retain(|row| row.name.as_str().to_lowercase().starts_with(&prefix));
                listing
            }
            Broken::ListByCollation => {
                let mut listing = self.inner.list(page, within).await?;
                listing.rows.sort_by_key(|row| row.name.as_str().to_lowercase());
                listing
            }
            Broken::PageIncludesAfter => {
                let mut listing = self.inner.list(page, within).await?;
                if let Some(after) = &page.after
                    && let Some(row) = self.row(after).await?
                {
                    listing.rows.insert(0, row);
                }
                listing
            }
            _ => self.inner.list(page, within).await?,
        };
        listing.rows.truncate(usize::try_from(page.limit).unwrap_or(usize::MAX));
        Ok(listing)
    }
}

/// Whether `text` begins with something that is `LIKE` the pattern.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut wanted = pattern.chars();
    match wanted.next() {
        None => true,
        Some('%') => {
            let rest = wanted.as_str();
            text.char_indices().any(|(at, _)| is_like(&text[at..], rest)) || is_like("", rest)
        }
        Some(first) => {
            let mut found = text.chars();
            found
                .next()
                .is_some_and(|c| (first == '_' || c == first) && is_like(found.as_str(), wanted.as_str()))
        }
    }
}
