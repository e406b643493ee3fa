//! The process whose transactions are guarded.

use std::sync::Arc;
use std::time::Duration;

use lease_core::store::RenewAnswer;
use lease_core::{
    ErrorKind, Holder, LeaseName, LeaseStore, Leases, ManualClaimed, ManualLease, Tenure, TimingParts,
    Timings,
};

use super::context::{Patience, in_time};
use super::rival::{SOON, is_contention};
use crate::ManualClock;
use crate::suite::context::LONG;

/// A process that holds a lease and renews it by hand. Its clock stands still, so it never gives the lease up by
/// itself: what keeps it from committing is the database's word alone.
pub(super) struct Owner {
    lease: ManualLease,
    store: Arc<dyn LeaseStore>,
    clock: Arc<ManualClock>,
    timings: Timings,
}

impl Owner {
    /// The timings of a lease that stays held, and of statements that any machine has time for.
    pub(super) fn lasting() -> Timings {
        let scaled = Timings::from_ttl(LONG).expect("ten minutes can be a ttl").parts();
        let short =
            TimingParts { renew: Duration::from_secs(10), attempt: Duration::from_secs(30), ..scaled };
        Timings::new(short).expect("shorter attempts are valid")
    }

    /// As `lasting`, of statements that are in each other's way and give up soon.
    pub(super) fn hasty() -> Timings {
        let short = TimingParts { renew: SOON / 2, attempt: SOON, ..Self::lasting().parts() };
        Timings::new(short).expect("shorter attempts are valid")
    }

    /// The timings of a lease that is meant to expire.
    pub(super) fn brief(ttl: Duration) -> Timings {
        // Of a ttl below 30 ms there are none.
        Timings::from_ttl(ttl.max(Duration::from_millis(30))).expect("a ttl that a store supports is valid")
    }

    /// The holder of a name that is free, or will be soon.
    pub(super) async fn claim(store: Arc<dyn LeaseStore>, name: LeaseName, timings: Timings) -> Self {
        let patience = Patience::new("claim a name that nobody holds any more");
        loop {
            match Self::try_claim(&store, &name, timings).await {
                Some(owner) => return owner,
                None => patience.wait().await,
            }
        }
    }

    /// The holder of a name, if it is granted now.
    pub(super) async fn try_claim(
        store: &Arc<dyn LeaseStore>,
        name: &LeaseName,
        timings: Timings,
    ) -> Option<Self> {
        let clock = ManualClock::new();
        let leases = Leases::builder_shared(Arc::clone(store)).timings(timings).clock(clock.clone()).build();
        let leases = leases.unwrap_or_else(|error| panic!("no leases in this store: {error}"));
        match in_time("claim", leases.claim_manual(name.clone())).await {
            Ok(ManualClaimed::Granted(lease)) => {
                Some(Self { lease, store: Arc::clone(store), clock, timings })
            }
            Ok(ManualClaimed::Held(_)) => None,
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout) => None,
            Err(error) => panic!("asked to claim {name:?}, the store failed: {error}"),
        }
    }

    pub(super) fn name(&self) -> &LeaseName {
        self.lease.name()
    }

    pub(super) fn holder(&self) -> Holder {
        self.lease.holder()
    }

    pub(super) fn term(&self) -> i64 {
        self.lease.term().get()
    }

    pub(super) fn tenure(&self) -> Tenure {
        self.lease.tenure()
    }

    /// Renews by the store's own statement, so that its clock goes on standing still. `None`: the database was busy.
    pub(super) async fn renew(&self, within: Duration) -> Option<RenewAnswer> {
        let holder = self.holder();
        let renewal = self.store.renew(self.name(), &holder, self.timings.ttl(), within);
        match in_time("renew", renewal).await {
            Ok(answer) => Some(answer),
            Err(error) if is_contention(&error) => None,
            Err(error) => panic!("asked to renew {:?}, the store failed: {error}", self.name()),
        }
    }

    /// Lets its deadline pass on its own clock.
    pub(super) fn pass_deadline(&self) {
        self.clock.advance(self.timings.deadline());
    }
}
