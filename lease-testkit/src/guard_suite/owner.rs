//! The process whose transactions are guarded.

use std::sync::Arc;
use std::time::Duration;

use lease_core::store::RenewAnswer;
use lease_core::{
    Holder, LeaseName, LeaseStore, Leases, ManualClaimed, ManualLease, Tenure, TimingParts, Timings,
};

use super::context::{Patience, in_time};
use super::rival::{SOON, is_contention};
use crate::ManualClock;
use crate::suite::context::LONG;

/// The least ttl of a lease that is meant to expire. One that is lost too early all the same is made again, longer.
const BRIEF: Duration = Duration::from_secs(3);

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

    /// The timings of a lease that is meant to expire, with time enough to begin a transaction before.
    pub(super) fn brief(ttl: Duration) -> Timings {
        Timings::from_ttl(ttl.max(BRIEF)).expect("a ttl that a store supports is valid")
    }

    /// The holder of a name that is free, or will be soon.
    pub(super) async fn claim(store: Arc<dyn LeaseStore>, name: LeaseName, timings: Timings) -> Self {
        let patience = Patience::new("claim a name that nobody holds any more");
        loop {
            match Self::try_claim(&store, &name, timings).await {
                Ok(owner) => return owner,
                Err(why) => patience.wait(&why).await,
            }
        }
    }

    /// The holder of a name, if it is granted now; else why not.
    pub(super) async fn try_claim(
        store: &Arc<dyn LeaseStore>,
        name: &LeaseName,
        timings: Timings,
    ) -> Result<Self, String> {
        let clock = ManualClock::new();
        let leases = Leases::builder_shared(Arc::clone(store)).timings(timings).clock(clock.clone()).build();
        let leases = leases.unwrap_or_else(|error| panic!("no leases in this store: {error}"));
        match in_time("claim", leases.claim_manual(name.clone())).await {
            Ok(ManualClaimed::Granted(lease)) => Ok(Self { lease, store: Arc::clone(store), clock, timings }),
            Ok(ManualClaimed::Held(_)) => Err("it is held".to_owned()),
            Err(error) if error.retry_helps() => Err(error.to_string()),
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

    /// Lets time pass on its own clock.
    pub(super) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Lets its deadline pass on its own clock.
    pub(super) fn pass_deadline(&self) {
        self.pass(self.timings.deadline());
    }
}
