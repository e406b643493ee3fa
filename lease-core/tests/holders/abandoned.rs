//! Holders that crashed, and probes that say what they are told to.

use lease_core::store::{Claim, DbTime, LeaseRow};
use lease_core::{Holder, Instance, LeaseStore, Leases, Liveness, Probe, ProcessFacts, Slot};
use lease_testkit::{Fault, Op};
use tokio::task::JoinHandle;

use crate::common::{SECOND, World, name};

/// Says the same of every process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Says(pub(crate) Liveness);

impl Probe for Says {
    fn judge(&self, _: &ProcessFacts) -> Liveness {
        self.0
    }
}

pub(crate) fn facts() -> ProcessFacts {
    ProcessFacts {
        boot: "6f0c8d2e-6c1f-4c43-9d0c-1f6f1f3c8a11".to_owned(),
        pid_namespace: 4_026_531_836,
        time_namespace: 4_026_531_834,
        pid: 4_711,
        start: 123_456,
        group: None,
    }
}

/// A claim of a process that will not renew it: granted, with the default ttl of 15 s.
pub(crate) async fn abandoned(world: &World, text: &str) -> Claim {
    let claim = claim_of(text);
    world.database.claim(&claim, SECOND).await.unwrap();
    claim
}

/// The same of the round of an instant.
pub(crate) async fn abandoned_round(world: &World, text: &str, slot: Slot) -> Claim {
    let claim = claim_of(text);
    world.database.claim_slot(&claim, slot, SECOND).await.unwrap();
    claim
}

fn claim_of(text: &str) -> Claim {
    let instance = Instance::named("gone.example:4711").process(Some(&facts()));
    Claim { name: name(text), holder: Holder::mint().unwrap(), ttl: SECOND * 15, instance }
}

/// Another process on the database, with the faults, that asks a probe.
pub(crate) fn probing(world: &World, says: Liveness) -> Leases {
    Leases::builder(world.store.clone()).clock(world.clock.clone()).probe(Says(says)).build().unwrap()
}

/// Lets the row of the name change right before each statement of this kind.
pub(crate) fn changes_before(
    world: &World,
    op: Op,
    text: &'static str,
    change: impl Fn(&mut LeaseRow) + Send + Sync + 'static,
) {
    let database = world.database.clone();
    world.store.plan(move |call| {
        if call.op == op {
            database.edit_row(&name(text), &change);
        }
        None::<Fault>
    });
}

/// What a renewal a moment later than the last one does to a row.
pub(crate) fn renewed(row: &mut LeaseRow) {
    row.expires_at = DbTime::from_millis(row.expires_at.as_millis() + 1);
}

/// An hour before the database's clock was stepped.
pub(crate) const AN_HOUR_BACK: i64 = -3_600_000;

/// What a task came to that must have come to its end by now.
pub(crate) async fn ended<T>(task: JoinHandle<T>) -> T {
    assert!(task.is_finished(), "it waits still");
    task.await.unwrap()
}
