//! That a name was given back is told apart: nothing waits for it, and little is lost without it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use lease_core::{Clock, ErrorKind, Liveness, SlotClaimed};
use lease_testkit::{Fault, Op};

use super::abandoned::{abandoned, ended, probing};
use crate::common::{MS, SECOND, World, granted};

#[tokio::test]
async fn a_release_that_is_not_told_costs_a_waiter_no_more_than_a_poll() {
    for fault in [Fault::FailBefore(ErrorKind::Unavailable), Fault::HangBefore] {
        let world = World::new();
        let lease = world.claim("nightly").await;
        world.store.always(Op::Announce, fault);
        let (other, clock, start) = (world.other(), world.clock.clone(), world.clock.now());
        let waiting = tokio::spawn(async move {
            drop(granted(other.acquire("nightly", SECOND * 60).await.unwrap()));
            clock.now().since(start)
        });
        world.play(SECOND).await;
        lease.release().await.unwrap();
        world.play(SECOND * 6).await;
        let waited = ended(waiting).await;
        assert!(waited >= SECOND * 4 && waited <= SECOND * 7, "{fault:?}: {waited:?}");
    }
}

#[tokio::test]
async fn announcements_that_hang_hold_up_no_release_and_close_for_an_attempt() {
    let world = World::new();
    world.store.always(Op::Announce, Fault::HangBefore);
    let mut held = Vec::new();
    for n in 0..100 {
        held.push(world.claim(&format!("job {n}")).await);
    }
    let releasing = tokio::spawn(async move {
        for lease in &held {
            lease.release().await.unwrap();
        }
    });
    for _ in 0..100 {
        world.play(Duration::ZERO).await;
    }
    ended(releasing).await;
    assert_eq!(world.store.calls(Op::Release), 100);
    let leases = world.leases.clone();
    let closing = tokio::spawn(async move { leases.close().await });
    world.play(SECOND * 5 - MS).await;
    assert!(!closing.is_finished());
    world.play(MS).await;
    assert!(closing.is_finished());
}

#[tokio::test]
async fn what_was_not_given_back_is_not_told() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    // Its row expires and another one has the name.
    world.store.always(Op::Renew, Fault::HangBefore);
    world.database.edit_row(lease.name(), |row| row.holder = lease_core::Holder::mint().unwrap());
    lease.release().await.unwrap();
    world.play(SECOND).await;
    assert_eq!((world.store.calls(Op::Release), world.store.calls(Op::Announce)), (1, 0));
}

#[tokio::test]
async fn the_end_of_a_round_is_told_too_and_does_not_wait_for_that() {
    let world = World::new();
    world.store.always(Op::Announce, Fault::DelayBefore(SECOND));
    let instant = SystemTime::UNIX_EPOCH + SECOND * 60;
    let claimed = world.leases.claim_slot("nightly", instant, Duration::ZERO).await.unwrap();
    let SlotClaimed::Granted(round) = claimed else { panic!("{claimed:?}") };
    let heard: Arc<Mutex<Option<_>>> = Arc::default();
    let (other, clock, start) = (world.other(), world.clock.clone(), world.clock.now());
    let noted = Arc::clone(&heard);
    let waiting = tokio::spawn(async move {
        let lease = granted(other.acquire("nightly", SECOND * 60).await.unwrap());
        *noted.lock().unwrap() = Some(clock.now().since(start));
        lease
    });
    world.play(MS).await;
    round.finish(None).await.unwrap();
    assert_eq!(world.clock.now().since(start), MS);
    world.play(SECOND).await;
    assert_eq!(*heard.lock().unwrap(), Some(SECOND + MS));
    drop(ended(waiting).await);
}

#[tokio::test]
async fn the_end_of_a_round_that_freed_nothing_is_not_told() {
    let world = World::new();
    for (text, fault) in [("another has it", None), ("away", Some(Fault::FailBefore(ErrorKind::Unavailable)))]
    {
        let instant = SystemTime::UNIX_EPOCH + SECOND * 60;
        let claimed = world.leases.claim_slot(text, instant, Duration::ZERO).await.unwrap();
        let SlotClaimed::Granted(round) = claimed else { panic!("{claimed:?}") };
        match fault {
            None => {
                world
                    .database
                    .edit_row(round.lease().name(), |row| row.holder = lease_core::Holder::mint().unwrap());
            }
            Some(fault) => {
                for op in [Op::FinishSlot, Op::Renew, Op::Release] {
                    world.store.always(op, fault);
                }
            }
        }
        let finishing = tokio::spawn(async move { round.finish(None).await.map(drop).map_err(drop) });
        world.play(SECOND * 60).await;
        assert_eq!(ended(finishing).await.is_err(), fault.is_some(), "{text}");
        assert_eq!(world.store.calls(Op::Announce), 0, "{text}");
    }
}

#[tokio::test]
async fn a_claim_of_unknown_outcome_that_is_given_back_is_told() {
    let world = World::new();
    world.store.next(Op::Claim, Fault::FailAfter(ErrorKind::Unavailable));
    world.leases.claim("nightly").await.map(drop).unwrap_err();
    world.play(SECOND).await;
    assert_eq!((world.store.calls(Op::Release), world.store.calls(Op::Announce)), (1, 1));
    assert!(world.is_free("nightly").await);
}

#[tokio::test]
async fn close_waits_until_a_clear_is_told() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.store.next(Op::Announce, Fault::DelayBefore(SECOND));
    let leases = probing(&world, Liveness::Dead);
    leases.clear("nightly", Duration::ZERO).await.unwrap();
    let closing = tokio::spawn(async move { leases.close().await });
    world.play(SECOND - MS).await;
    assert!(!closing.is_finished());
    world.play(MS).await;
    ended(closing).await;
}
