//! Rounds that were granted without anybody knowing.

use std::time::Duration;

use lease_core::{ErrorKind, SlotClaimed};
use lease_testkit::{Fault, Op};

use super::job::{JOB, Record, at, claim, ended, rerun, round, slot, unfinished};
use crate::common::{MS, SECOND, World};

/// What the caller is told in each case: that the claim failed.
const UNKNOWN: [Fault; 7] = [
    Fault::FailAfter(ErrorKind::Unavailable),
    Fault::FailLate(Duration::from_secs(2), ErrorKind::Unavailable),
    Fault::FailLate(Duration::from_secs(8), ErrorKind::Unavailable),
    Fault::DelayBefore(Duration::from_secs(8)),
    Fault::DelayAfter(Duration::from_secs(8)),
    Fault::HangAfter,
    Fault::Ghost(Duration::from_secs(12)),
];

#[tokio::test]
async fn a_round_granted_without_anybody_knowing_is_given_back_and_rerun_once() {
    for fault in UNKNOWN {
        let world = World::new();
        world.store.next(Op::ClaimSlot, fault);
        let leases = world.leases.clone();
        let claiming = tokio::spawn(async move { leases.claim_slot(JOB, at(0), SECOND).await });
        world.play(SECOND * 5).await;
        ended(claiming).await.unwrap_err();
        // Found by a sweep, though not at once: a ghost is granted only later.
        world.play(SECOND * 10).await;
        assert_eq!(world.record().await, Record::cut_short(0), "{fault:?}");
        assert!(matches!(claim(&world.leases, 0).await, SlotClaimed::Passed));
        rerun(&world.leases).await.release().await.unwrap();
        assert_eq!(unfinished(&world.other()).await, []);
    }
}

#[tokio::test]
async fn a_claim_that_surely_was_not_sent_may_be_repeated() {
    let world = World::new();
    world.store.next(Op::ClaimSlot, Fault::FailBefore(ErrorKind::Unavailable));
    let error = world.leases.claim_slot(JOB, at(0), SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    round(&world.leases, 0).await.finish(None).await.unwrap();
    assert_eq!(world.store.calls(Op::Release), 0);
}

#[tokio::test]
async fn a_ghost_of_a_claim_that_was_repeated_meanwhile_is_refused() {
    let world = World::new();
    world.store.next(Op::ClaimSlot, Fault::Ghost(SECOND * 12));
    let leases = world.leases.clone();
    let claiming = tokio::spawn(async move { leases.claim_slot(JOB, at(0), SECOND).await });
    world.play(SECOND * 5).await;
    ended(claiming).await.unwrap_err();
    let repeated = round(&world.leases, 0).await;
    // Its sweeps release the token of the ghost alone.
    world.play(SECOND * 15).await;
    assert!(repeated.lease().check());
    repeated.finish(None).await.unwrap();
    assert_eq!(world.record().await, Record::finished(0));
}

#[tokio::test]
async fn a_rerun_claimed_without_anybody_knowing_is_used_up_and_given_up_in_time() {
    for fault in UNKNOWN {
        let world = World::new();
        drop(round(&world.leases, 0).await);
        world.play(MS).await;
        let found = unfinished(&world.leases).await;
        world.store.next(Op::ClaimRerun, fault);
        let leases = world.leases.clone();
        let claiming = tokio::spawn(async move { leases.claim_rerun(&found[0]).await });
        world.play(SECOND * 5).await;
        let error = ended(claiming).await.unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with(r#"cannot claim the rerun of slot @1700100000 of lease "job""#), "{told}");
        world.play(SECOND * 10).await;
        assert_eq!(world.record().await, Record::used_up(0), "{fault:?}");
        assert_eq!(unfinished(&world.leases).await, []);
        let next = round(&world.leases, 1).await.superseded().unwrap();
        assert_eq!((next.slot, next.rerun), (slot(0), true));
    }
}

#[tokio::test]
async fn a_rerun_whose_claim_surely_was_not_sent_is_not_used_up() {
    for fault in [Fault::FailBefore(ErrorKind::Unavailable), Fault::HangBefore] {
        let world = World::new();
        drop(round(&world.leases, 0).await);
        world.play(MS).await;
        let found = unfinished(&world.leases).await;
        world.store.next(Op::ClaimRerun, fault);
        let leases = world.leases.clone();
        let claiming = tokio::spawn(async move { leases.claim_rerun(&found[0]).await });
        world.play(SECOND * 5).await;
        ended(claiming).await.unwrap_err();
        rerun(&world.leases).await.finish(None).await.unwrap();
    }
}
