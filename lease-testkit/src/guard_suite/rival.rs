//! The process that would take over.

use std::sync::Arc;
use std::time::Duration;

use lease_core::store::{Claim, ClaimAnswer, ConditionalAnswer, Effect, Inspection, LeaseRow, StoreError};
use lease_core::{ErrorKind, Holder, LeaseStore};

use super::context::{Patience, in_time};
use super::owner::Owner;
use crate::suite::context::claim_of;
use crate::suite::process::WITHIN;

/// How long a rival waits for each statement.
pub(super) const SOON: Duration = Duration::from_secs(2);

/// Another process, that would take the lease of an owner with a token of its own.
pub(super) struct Rival {
    store: Arc<dyn LeaseStore>,
    owner: Holder,
    claim: Claim,
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
    pub(super) fn new(store: &Arc<dyn LeaseStore>, owner: &Owner) -> Self {
        Self { store: Arc::clone(store), owner: owner.holder(), claim: claim_of(owner.name()) }
    }

    /// Tries to take the lease, which an open transaction may keep it from.
    pub(super) async fn try_to_take(&mut self, way: Way) -> Tried {
        self.claim = claim_of(&self.claim.name);
        match way {
            Way::Observed => {
                let observed = self.row().await.observed();
                let claim = self.store.claim_observed(&self.claim, &observed, SOON);
                return tried(in_time("claim as observed", claim).await, |answer| {
                    matches!(answer, ConditionalAnswer::Granted(_))
                });
            }
            Way::Released => {
                let release = self.store.release(&self.claim.name, &self.owner, SOON);
                tried(in_time("release", release).await, |_| true);
            }
            Way::Cleared => {
                let observed = self.row().await.observed();
                let clear = self.store.clear(&self.claim.name, &observed, SOON);
                tried(in_time("clear", clear).await, |_| true);
            }
            Way::Expired => {}
        }
        tried(in_time("claim", self.store.claim(&self.claim, SOON)).await, |answer| {
            matches!(answer, ClaimAnswer::Granted(_))
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

fn tried<T>(answer: Result<T, StoreError>, is_granted: impl FnOnce(&T) -> bool) -> Tried {
    match answer {
        Ok(answer) if is_granted(&answer) => Tried::Granted,
        Ok(_) => Tried::KeptOut,
        Err(error) if is_contention(&error) => {
            if error.effect() == Effect::None {
                Tried::KeptOut
            } else {
                Tried::Unknown
            }
        }
        Err(error) => panic!("beside a transaction that is open, the store failed: {error}"),
    }
}

/// Whether an open transaction may be the reason.
pub(super) fn is_contention(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout)
}
