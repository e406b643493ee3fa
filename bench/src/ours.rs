//! This library: a store of its own for each, as each process has one, and a guard on a connection of the user's.

mod transaction;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::store::{Claim, ClaimAnswer, ReleaseAnswer, RenewAnswer, VerifyAnswer};
use lease_core::{Holder, Instance, LeaseName, LeaseStore};

use crate::Outcome;
use crate::engine::{Place, fresh_name};
use crate::party::{Job, Party, Ttls, expect};
use transaction::Transactions;

/// Much more than any statement takes.
const WITHIN: Duration = Duration::from_secs(60);

struct Ours {
    place: Place,
    store: Arc<dyn LeaseStore>,
    name: LeaseName,
    holder: Holder,
    somebody_else: Holder,
    instance: Instance,
    ttls: Ttls,
    count: u64,
    transactions: Option<Transactions>,
}

pub(crate) async fn join(place: &Place) -> Outcome<Box<dyn Party>> {
    Ok(Box::new(Ours {
        place: place.clone(),
        store: place.store().await?,
        name: LeaseName::new(&fresh_name("bench"))?,
        holder: Holder::mint()?,
        somebody_else: Holder::mint()?,
        instance: Instance::current(),
        ttls: Ttls::default(),
        count: 0,
        transactions: None,
    }))
}

impl Ours {
    fn ttl(&mut self) -> Duration {
        Duration::from_millis(self.ttls.next().into())
    }

    async fn claim(&mut self, name: LeaseName, holder: Holder) -> Outcome<bool> {
        let claim = Claim { name, holder, ttl: self.ttl(), instance: self.instance.clone() };
        Ok(matches!(self.store.claim(&claim, WITHIN).await?, ClaimAnswer::Granted(_)))
    }
}

#[async_trait(?Send)]
impl Party for Ours {
    async fn prepare(&mut self, job: Job) -> Outcome<()> {
        self.transactions = None;
        for before in [self.holder, self.somebody_else] {
            self.store.release(&self.name, &before, WITHIN).await?;
        }
        if job == Job::Transaction {
            self.transactions = Some(Transactions::begin(&self.place).await?);
        } else {
            let is_somebody_elses = job == Job::Lost;
            let holder = if is_somebody_elses { self.somebody_else } else { self.holder };
            expect(self.claim(self.name.clone(), holder).await?, "claimed")?;
        }
        if job == Job::Pair {
            self.store.release(&self.name, &self.holder, WITHIN).await?;
        }
        Ok(())
    }

    async fn perform(&mut self, job: Job) -> Outcome<()> {
        match job {
            Job::Pair => {
                // A token for each claim, as there must be.
                self.holder = Holder::mint()?;
                expect(self.claim(self.name.clone(), self.holder).await?, "claimed")?;
                let answer = self.store.release(&self.name, &self.holder, WITHIN).await?;
                expect(answer == ReleaseAnswer::Released, "released")
            }
            Job::Renew => {
                let ttl = self.ttl();
                let answer = self.store.renew(&self.name, &self.holder, ttl, WITHIN).await?;
                expect(matches!(answer, RenewAnswer::Renewed(_)), "renewed")
            }
            Job::Verify => {
                let answer = self.store.verify(&self.name, &self.holder, WITHIN).await?;
                expect(matches!(answer, VerifyAnswer::Held(_)), "held")
            }
            Job::First => {
                self.count += 1;
                let name = LeaseName::new(&format!("{} {}", self.name, self.count))?;
                expect(self.claim(name, self.holder).await?, "claimed")
            }
            Job::Lost => expect(!self.claim(self.name.clone(), self.holder).await?, "refused"),
            Job::Transaction => self.transactions.as_mut().ok_or("not prepared")?.perform().await,
        }
    }
}
