//! Waiting for an instant that has not come by the database's clock.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use lease_core::{Error, ErrorKind, Slot, SlotClaimed};
use lease_testkit::{Fault, Op};
use tokio::task::JoinHandle;

use super::job::{JOB, Record, at, claim, ended, granted, unfinished};
use crate::common::{MS, SECOND, World};

/// Claims an instant two seconds ahead.
fn waiting(world: &World, bound: Duration) -> JoinHandle<Result<SlotClaimed, Error>> {
    let leases = world.leases.clone();
    tokio::spawn(async move { leases.claim_slot(JOB, at(2), bound).await })
}

#[tokio::test]
async fn an_instant_within_the_bound_is_granted_when_it_comes_and_not_before() {
    let world = World::new();
    let claiming = waiting(&world, SECOND * 2);
    world.play(SECOND * 2 - MS).await;
    assert!(!claiming.is_finished());
    world.play(MS).await;
    assert!(claiming.is_finished());
    drop(granted(ended(claiming).await.unwrap()));
    assert_eq!(world.store.calls(Op::ClaimSlot), 2);
}

#[tokio::test]
async fn an_instant_beyond_the_bound_is_not_waited_for() {
    for bound in [Duration::ZERO, SECOND * 2 - MS] {
        let world = World::new();
        let claiming = waiting(&world, bound);
        world.play(Duration::ZERO).await;
        assert!(claiming.is_finished());
        let claimed = ended(claiming).await.unwrap();
        assert!(matches!(claimed, SlotClaimed::NotYet(left) if left == SECOND * 2));
        assert_eq!(world.store.calls(Op::ClaimSlot), 1);
        assert_eq!(world.leases.last_slot(JOB).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_database_clock_stepped_back_during_the_wait_lengthens_it_within_the_bound() {
    let world = World::new();
    let claiming = waiting(&world, SECOND * 3);
    world.play(SECOND).await;
    world.database.step_clock(-1_000);
    world.play(SECOND * 2 - MS).await;
    assert!(!claiming.is_finished());
    world.play(MS).await;
    drop(granted(ended(claiming).await.unwrap()));
    assert_eq!(world.store.calls(Op::ClaimSlot), 3);

    let world = World::new();
    let claiming = waiting(&world, SECOND * 3);
    world.play(SECOND).await;
    world.database.step_clock(-1_001);
    world.play(SECOND).await;
    let claimed = ended(claiming).await.unwrap();
    assert!(matches!(claimed, SlotClaimed::NotYet(left) if left == MS * 1_001));
}

#[tokio::test]
async fn a_database_clock_stepped_forward_during_the_wait_skips_nothing_and_repeats_nothing() {
    for taken in [false, true] {
        let world = World::new();
        let claiming = waiting(&world, SECOND * 2);
        world.play(SECOND).await;
        world.database.step_clock(3_600_000);
        if taken {
            granted(claim(&world.other(), 2).await).finish(None).await.unwrap();
        }
        world.play(SECOND).await;
        match ended(claiming).await.unwrap() {
            SlotClaimed::Granted(_) => assert!(!taken),
            SlotClaimed::Passed => assert!(taken),
            refused => panic!("{refused:?}"),
        }
    }
}

#[tokio::test]
async fn a_shutdown_ends_the_wait() {
    let world = World::new();
    let claiming = waiting(&world, SECOND * 2);
    world.play(SECOND).await;
    world.leases.shutdown();
    world.play(MS).await;
    assert_eq!(ended(claiming).await.unwrap_err().kind(), ErrorKind::Closed);
    world.play(SECOND * 60).await;
    assert_eq!(world.store.calls(Op::ClaimSlot), 1);
    assert_eq!(world.leases.claim_slot(JOB, at(0), SECOND).await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_claim_dropped_during_the_wait_sends_nothing_more() {
    let world = World::new();
    let claiming = waiting(&world, SECOND * 2);
    world.play(SECOND).await;
    claiming.abort();
    world.play(SECOND * 60).await;
    assert_eq!(world.store.log().len(), 1);
    tokio::time::timeout(SECOND * 60, world.leases.close()).await.unwrap();
}

#[tokio::test]
async fn a_failure_after_the_wait_is_told() {
    let world = World::new();
    let claiming = waiting(&world, SECOND * 2);
    world.play(SECOND).await;
    world.store.next(Op::ClaimSlot, Fault::FailBefore(ErrorKind::Unavailable));
    world.play(SECOND).await;
    let error = ended(claiming).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let told = error.to_string();
    assert!(told.starts_with(r#"cannot claim slot @1700100002 of lease "job" in memory"#), "{told}");
}

#[tokio::test]
async fn an_instant_at_the_end_of_time_may_be_waited_for_without_a_bound() {
    let world = World::new();
    let (leases, end) = (world.leases.clone(), SystemTime::from(Slot::from_millis(i64::MAX).unwrap()));
    let claiming = tokio::spawn(async move { leases.claim_slot(JOB, end, Duration::MAX).await });
    world.play(SECOND * 86_400 * 365).await;
    assert!(!claiming.is_finished());
    assert_eq!(world.store.calls(Op::ClaimSlot), 1);
    world.leases.shutdown();
    world.play(MS).await;
    assert_eq!(ended(claiming).await.unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test]
async fn a_claim_dropped_before_it_is_sent_sends_nothing() {
    let world = World::new();
    drop(world.leases.claim_slot(JOB, at(0), SECOND));
    {
        // Polled once: its task is spawned and has not run yet.
        let mut claiming = pin!(world.leases.claim_slot(JOB, at(0), SECOND));
        let polled = claiming.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
    }
    world.play(SECOND * 60).await;
    assert_eq!(world.store.log(), []);
}

#[tokio::test]
async fn a_round_granted_to_a_caller_who_has_gone_is_cut_short() {
    let world = World::new();
    world.store.next(Op::ClaimSlot, Fault::DelayAfter(SECOND));
    let leases = world.leases.clone();
    let claiming = tokio::spawn(async move { leases.claim_slot(JOB, at(0), SECOND).await });
    world.play(MS).await;
    claiming.abort();
    assert!(!world.record().await.free);
    world.play(SECOND).await;
    assert_eq!(world.record().await, Record::cut_short(0));
    assert_eq!(unfinished(&world.other()).await.len(), 1);
}
