//! Rounds of a schedule, on a clock and a database moved by hand.

mod common;

use std::time::{Duration, SystemTime};

use common::{SECOND, World, granted};
use lease_core::store::FinishAnswer;
use lease_core::{Leases, RoundEnd, Slot, SlotClaimed, SlotLease};

/// The instant that many seconds after 1970, long past by the database's clock.
fn instant(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

async fn round(leases: &Leases, seconds: u64) -> SlotLease {
    match leases.claim_slot("job", instant(seconds), Duration::ZERO).await.unwrap() {
        SlotClaimed::Granted(round) => round,
        refused => panic!("{refused:?}"),
    }
}

#[tokio::test]
async fn a_round_that_returns_is_finished_and_never_granted_again() {
    let world = World::new();
    let done = round(&world.leases, 1).await.run(|| None, async |_| Ok::<_, String>(7)).await;
    assert_eq!(done.result.unwrap(), 7);
    assert!(matches!(done.end, RoundEnd::Finished(FinishAnswer::Finished)));
    assert!(world.is_free("job").await);
    let again = world.other().claim_slot("job", instant(1), Duration::ZERO).await.unwrap();
    assert!(matches!(again, SlotClaimed::Passed));
    assert_eq!(world.leases.unfinished_slots(["job"]).await.unwrap(), []);
    assert_eq!(world.leases.last_slot("job").await.unwrap(), Some(Slot::new(instant(1)).unwrap()));
}

#[tokio::test]
async fn a_dropped_round_is_rerun_once() {
    let world = World::new();
    drop(round(&world.leases, 1).await);
    world.play(SECOND).await;
    let other = world.other();
    for runs in [true, false] {
        let found = other.unfinished_slots(["job"]).await.unwrap();
        assert_eq!(found.len(), usize::from(runs));
        for found in found {
            let rerun = other.claim_rerun(&found).await.unwrap().unwrap();
            assert!(rerun.is_rerun() && rerun.superseded().is_none());
            assert_eq!(rerun.slot(), found.slot);
            rerun.release().await.unwrap();
        }
    }
    let next = round(&other, 2).await;
    let superseded = next.superseded().unwrap();
    assert!(superseded.rerun && superseded.slot == Slot::new(instant(1)).unwrap());
    drop(granted(world.leases.claim("else").await.unwrap()));
}
