//! The process that would take over.

use std::sync::Arc;
use std::time::Duration;

use lease_core::store::{
    Claim, ClaimAnswer, ConditionalAnswer, Effect, Inspection, LeaseRow, Observed, StoreError,
};
use lease_core::{ErrorKind, Holder, LeaseStore};
use tokio::time::timeout;

use super::context::{Patience, in_time};
use super::owner::Owner;
use crate::suite::context::claim_of;
use crate::suite::process::WITHIN;

/// How long a rival waits for each statement.
pub(super) const SOON: Duration = Duration::from_secs(2);
/// How long it waits for a claim that it sends again, where only the machine can have been too slow for an answer.
const LATER: [Duration; 2] = [Duration::from_secs(10), WITHIN];
/// How much later than that an answer may come.
const GENEROSITY: Duration = Duration::from_secs(20);

/// Another process, that would take the lease of an owner with a token of its own.
pub(super) struct Rival {
    store: Arc<dyn LeaseStore>,
    owner: Holder,
    claim: Claim,
    /// See [`GuardSubject::one_writer`](super::GuardSubject::one_writer): then a claim may find the database busy.
    one_writer: bool,
}

/// How a rival goes about it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// It claims the row as observed, which is live.
    Observed,
    /// The lease is released behind the owner's back, and the name claimed.
    Released,
    /// The lease is cleared behind the owner's back, and the name claimed.
    Cleared,
    /// It claims the name, which has expired.
    Expired,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    Granted,
    /// Refused, by an answer or because of the database being busy.
    KeptOut,
    /// The answer was lost: it may have been granted, or be so later.
    Unknown,
}

impl Rival {
    pub(super) fn new(store: &Arc<dyn LeaseStore>, owner: &Owner, one_writer: bool) -> Self {
        Self { store: Arc::clone(store), owner: owner.holder(), claim: claim_of(owner.name()), one_writer }
    }

    /// Tries to take the lease, which an open transaction may keep it from.
    pub(super) async fn try_to_take(&mut self, way: Way) -> Tried {
        self.claim = claim_of(&self.claim.name);
        let mut observed = None;
        match way {
            Way::Observed => observed = Some(self.row().await.observed()),
            Way::Released => {
                let release = self.store.release(&self.claim.name, &self.owner, SOON);
                let _ = in_time("release", release).await.map_err(|error| not_done(&error));
            }
            Way::Cleared => {
                let observed = self.row().await.observed();
                let clear = self.store.clear(&self.claim.name, &observed, SOON);
                let _ = in_time("clear", clear).await.map_err(|error| not_done(&error));
            }
            Way::Expired => {}
        }
        self.try_to_claim(observed.as_ref()).await
    }

    /// Claims, and holds the store to answer, unless there is one writer.
    async fn try_to_claim(&self, observed: Option<&Observed>) -> Tried {
        let mut tried = Tried::KeptOut;
        for within in [SOON].into_iter().chain(LATER) {
            let answer = timeout(within + GENEROSITY, self.claim(observed, within)).await;
            let error = match answer.unwrap_or_else(|_| {
                panic!("asked to claim within {within:?}, nothing answers, nor {GENEROSITY:?} later")
            }) {
                Ok(true) => return Tried::Granted,
                Ok(false) => return tried,
                Err(error) => error,
            };
            if not_done(&error) == Tried::Unknown {
                tried = Tried::Unknown;
            }
            if self.one_writer {
                return tried;
            }
            assert!(
                within < WITHIN,
                "beside a transaction that is open, a claim is to be granted or refused; it failed: {error}"
            );
        }
        tried
    }

    /// Whether it is granted.
    async fn claim(&self, observed: Option<&Observed>, within: Duration) -> Result<bool, StoreError> {
        Ok(match observed {
            Some(observed) => {
                let answer = self.store.claim_observed(&self.claim, observed, within).await?;
                matches!(answer, ConditionalAnswer::Granted(_))
            }
            None => matches!(self.store.claim(&self.claim, within).await?, ClaimAnswer::Granted(_)),
        })
    }

    /// Takes a lease that no transaction is open under.
    pub(super) async fn take(&mut self, way: Way) {
        let tried = self.try_to_take(way).await;
        assert!(tried == Tried::Granted, "{way:?}: a lease that no transaction guards cannot be taken");
    }

    /// Takes a lease as soon as no transaction keeps it from that.
    pub(super) async fn wait_to_take(&mut self, way: Way) {
        let patience = Patience::new("take a lease whose transaction is gone");
        while self.try_to_take(way).await != Tried::Granted {
            patience.wait("it is kept out").await;
        }
    }

    /// Gives the lease back, if it has come to have it.
    pub(super) async fn leave(&self) {
        let patience = Patience::new("release a lease beside a transaction that is gone");
        loop {
            let release = self.store.release(&self.claim.name, &self.claim.holder, SOON);
            match in_time("release", release).await {
                Ok(_) => return,
                Err(error) if is_contention(&error) => patience.wait(&error.to_string()).await,
                Err(error) => panic!("asked to release {:?}, the store failed: {error}", self.claim.name),
            }
        }
    }

    /// Whether the lease is the owner's still.
    pub(super) async fn has_left_it_held(&self) -> bool {
        let Inspection { now, row } = self.inspect().await;
        row.is_some_and(|row| row.holder == self.owner && row.is_live(now))
    }

    async fn row(&self) -> LeaseRow {
        self.inspect().await.row.expect("a name that was claimed has a row")
    }

    async fn inspect(&self) -> Inspection {
        let inspection = in_time("inspect", self.store.inspect(&self.claim.name, WITHIN)).await;
        inspection.unwrap_or_else(|error| panic!("asked to inspect, the store failed: {error}"))
    }
}

/// What came of a statement that failed beside a transaction.
fn not_done(error: &StoreError) -> Tried {
    assert!(is_contention(error), "beside a transaction that is open, the store failed: {error}");
    if error.effect() == Effect::None { Tried::KeptOut } else { Tried::Unknown }
}

/// Whether an open transaction may be the reason.
pub(super) fn is_contention(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout)
}
