//! A round that ran to its end: what is recorded, when, and how often it is told.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lease_core::{ErrorKind, FinishAnswer, Leases, SlotClaimed, SlotLease};
use lease_testkit::{Fault, ManualClock, MemoryStore, Op};
use tokio::runtime::Builder;

use super::job::{Record, at, claim, ended, rerun, round, unfinished};
use crate::common::{MS, SECOND, World};

/// Polls once, which sends a future on its way, and drops it.
pub(crate) fn poll_once<F: Future>(future: F) {
    let mut future = pin!(future);
    assert!(matches!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
}

#[tokio::test]
async fn what_passed_meanwhile_is_skipped_for_everybody_and_nothing_else_is() {
    // A round that overran three instants; ones later than the database's clock, and earlier than its own.
    for (passed, last) in [(Some(40), 40), (Some(41), 10), (Some(9), 10), (Some(10), 10), (None, 10)] {
        let world = World::new();
        world.play(SECOND * 10).await;
        let overrun = round(&world.leases, 10).await;
        world.play(SECOND * 30).await;
        overrun.finish(passed.map(at)).await.unwrap();
        assert_eq!(world.record().await, Record::finished(last), "{passed:?}");
        for leases in [&world.leases, &world.other()] {
            for seconds in [10, 20, 30, 40] {
                if seconds <= last {
                    let claimed = claim(leases, seconds).await;
                    assert!(matches!(claimed, SlotClaimed::Passed), "{passed:?}, {seconds}");
                }
            }
            assert_eq!(unfinished(leases).await, []);
        }
        world.play(SECOND).await;
        assert_eq!(round(&world.other(), last + 1).await.superseded(), None);
    }
}

#[tokio::test]
async fn the_name_is_given_back_with_the_end_when_the_last_tenure_has_gone() {
    let world = World::new();
    let round = round(&world.leases, 0).await;
    let tenure = round.lease().tenure();
    let finishing = tokio::spawn(async move { round.finish(None).await });
    world.play(SECOND).await;
    assert!(!tenure.check() && !finishing.is_finished());
    assert_eq!(world.store.calls(Op::FinishSlot), 0);
    drop(tenure);
    world.play(MS).await;
    assert_eq!(ended(finishing).await.unwrap(), FinishAnswer::Finished);
    assert_eq!(world.record().await, Record::finished(0));
    assert_eq!(world.store.calls(Op::Release), 0);
}

#[tokio::test]
async fn a_tenure_dropped_right_before_does_not_free_the_name_without_the_end() {
    for finish_first in [false, true] {
        let world = World::new();
        let round = round(&world.leases, 0).await;
        let tenure = round.lease().tenure();
        world.store.next(Op::FinishSlot, Fault::FailBefore(ErrorKind::Unavailable));
        // All of it before the task that renews hears of any.
        if finish_first {
            poll_once(round.finish(None));
            drop(tenure);
        } else {
            drop(tenure);
            poll_once(round.finish(None));
        }
        drop(round);
        world.play(SECOND).await;
        assert!(!world.record().await.free);
        world.play(SECOND).await;
        assert_eq!(world.record().await, Record::finished(0));
        assert_eq!(world.store.calls(Op::Release), 0);
    }
}

#[tokio::test]
async fn a_tenure_that_is_kept_does_not_let_the_row_expire_before_the_end_is_recorded() {
    for released_before in [false, true] {
        let world = World::new();
        let other = world.other();
        let kept = round(&world.leases, 0).await;
        let tenure = kept.lease().tenure();
        if released_before {
            poll_once(kept.release());
            world.play(SECOND * 5).await;
        }
        let finishing = tokio::spawn(async move { kept.finish(None).await });
        // The deadline and the grace, counted from the claim.
        let before = if released_before { SECOND * 5 } else { Duration::ZERO };
        world.play(SECOND * 14 + MS * 499 - before).await;
        assert!(!finishing.is_finished());
        assert_eq!(world.store.calls(Op::FinishSlot), 0);
        world.play(MS).await;
        assert_eq!(ended(finishing).await.unwrap(), FinishAnswer::Finished);
        world.play(SECOND * 60).await;
        assert_eq!(unfinished(&other).await, []);
        drop(tenure);
        world.play(SECOND).await;
        assert_eq!((world.store.calls(Op::FinishSlot), world.store.calls(Op::Release)), (1, 0));
    }
}

#[tokio::test]
async fn finishing_twice_at_once_or_later_is_finishing_once() {
    let world = World::new();
    world.play(SECOND * 40).await;
    let round = round(&world.leases, 10).await;
    let tenure = round.lease().tenure();
    let (one, two) = (round.finish(Some(at(30))), round.finish(Some(at(20))));
    let end = async {
        world.play(SECOND).await;
        drop(tenure);
    };
    let (one, two, ()) = tokio::join!(one, two, end);
    assert_eq!((one.unwrap(), two.unwrap()), (FinishAnswer::Finished, FinishAnswer::Finished));
    assert_eq!(world.record().await, Record::finished(30));
    assert_eq!(round.finish(Some(at(40))).await.unwrap(), FinishAnswer::Finished);
    assert_eq!(round.finish(None).await.unwrap(), FinishAnswer::Finished);
    assert_eq!(world.record().await, Record::finished(40));
    round.release().await.unwrap();
    drop(round);
    world.play(SECOND).await;
    assert_eq!(world.store.calls(Op::Release), 0);
    // Nor does a repetition touch what others did since.
    let world = World::new();
    let first = super::job::round(&world.leases, -1).await;
    first.finish(None).await.unwrap();
    let later = super::job::round(&world.other(), 0).await;
    assert_eq!(first.finish(Some(at(0))).await.unwrap(), FinishAnswer::Lost { recorded: false });
    assert!(!world.record().await.free && world.record().await.unfinished == Some(0));
    later.finish(None).await.unwrap();
}

#[tokio::test]
async fn a_released_round_may_still_be_finished_while_nobody_has_claimed_it_again() {
    for again in [false, true] {
        let world = World::new();
        let first = round(&world.leases, 0).await;
        first.release().await.unwrap();
        if again {
            rerun(&world.other()).await.finish(None).await.unwrap();
        }
        let answer = first.finish(None).await.unwrap();
        let expected = if again { FinishAnswer::Lost { recorded: false } } else { FinishAnswer::Finished };
        assert_eq!(answer, expected);
        assert_eq!(unfinished(&world.leases).await, []);
    }
}

#[tokio::test]
async fn an_end_whose_answer_is_lost_is_told_again() {
    for fault in [
        Fault::FailBefore(ErrorKind::Busy),
        Fault::FailAfter(ErrorKind::Unavailable),
        Fault::FailLate(SECOND, ErrorKind::Unavailable),
        Fault::HangBefore,
        Fault::HangAfter,
        Fault::Ghost(SECOND * 30),
    ] {
        let world = World::new();
        let round = round(&world.leases, 0).await;
        world.store.next(Op::FinishSlot, fault);
        let finishing = tokio::spawn(async move { round.finish(Some(at(0))).await });
        world.play(SECOND * 5).await;
        assert_eq!(ended(finishing).await.unwrap(), FinishAnswer::Finished, "{fault:?}");
        assert_eq!(world.store.calls(Op::FinishSlot), 2);
        // A ghost touches no later round.
        let later = super::job::round(&world.leases, 1).await;
        world.play(SECOND * 60).await;
        assert!(later.lease().check());
        assert_eq!(world.record().await.unfinished, Some(1));
    }
}

#[tokio::test]
async fn an_end_is_told_until_the_row_has_expired_while_the_database_is_away() {
    let away = |world: &World| {
        for op in [Op::FinishSlot, Op::Release, Op::Renew] {
            world.store.always(op, Fault::FailBefore(ErrorKind::Unavailable));
        }
    };
    let world = World::new();
    let first = round(&world.leases, 0).await;
    away(&world);
    let finishing = tokio::spawn(async move { first.finish(None).await });
    world.play(SECOND * 13).await;
    assert!(!finishing.is_finished());
    world.store.heal();
    world.play(SECOND).await;
    assert_eq!(ended(finishing).await.unwrap(), FinishAnswer::Finished);

    let world = World::new();
    let first = round(&world.leases, 0).await;
    away(&world);
    let finishing = tokio::spawn(async move { first.finish(None).await });
    // A ttl, a margin and an attempt after the claim; one statement every two seconds.
    world.play(SECOND * 20).await;
    let error = ended(finishing).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let told = error.to_string();
    assert!(told.starts_with(r#"cannot record the end of slot @1700100000 of lease "job" in"#), "{told}");
    assert_eq!(world.store.calls(Op::FinishSlot), 11);
    // Nobody knows of it: it may be run again.
    drop(rerun(&world.other()).await);
}

#[tokio::test]
async fn finish_does_nothing_before_it_is_polled_and_all_of_it_afterwards() {
    let world = World::new();
    let round = round(&world.leases, 0).await;
    drop(round.finish(None));
    world.play(SECOND * 60).await;
    assert!(round.lease().check());
    assert_eq!(world.store.calls(Op::FinishSlot), 0);
    poll_once(round.finish(Some(at(30))));
    assert!(!round.lease().check());
    drop(round);
    world.play(MS).await;
    assert_eq!(world.record().await, Record::finished(30));
    assert_eq!(world.store.calls(Op::Release), 0);
}

#[tokio::test]
async fn close_waits_for_a_round_in_hand_and_for_its_end_to_be_recorded() {
    let world = World::new();
    let first = round(&world.leases, 0).await;
    let leases = world.leases.clone();
    let closing = tokio::spawn(async move { leases.close().await });
    world.play(SECOND * 60).await;
    assert!(!closing.is_finished() && first.lease().check());
    world.store.always(Op::FinishSlot, Fault::FailBefore(ErrorKind::Unavailable));
    let finishing = tokio::spawn(async move { first.finish(None).await });
    world.play(SECOND * 10).await;
    assert!(!closing.is_finished());
    world.store.heal();
    world.play(SECOND * 2).await;
    assert!(closing.is_finished());
    assert_eq!(ended(finishing).await.unwrap(), FinishAnswer::Finished);

    // What ends a round after the close is done all the same, and dropping one ends the wait.
    let world = World::new();
    let first = round(&world.leases, 0).await;
    let leases = world.leases.clone();
    let closing = tokio::spawn(async move { leases.close().await });
    world.play(SECOND).await;
    first.release().await.unwrap();
    world.play(MS).await;
    assert!(closing.is_finished());
    assert_eq!(first.finish(None).await.unwrap(), FinishAnswer::Finished);
}

#[tokio::test]
async fn close_ends_though_the_end_of_a_round_is_never_answered() {
    let world = World::new();
    let round = round(&world.leases, 0).await;
    world.store.always(Op::FinishSlot, Fault::HangBefore);
    let finishing = tokio::spawn(async move { round.finish(None).await });
    let leases = world.leases.clone();
    let closing = tokio::spawn(async move { leases.close().await });
    // A ttl, a margin and two attempts.
    world.play(SECOND * 25 + MS * 501).await;
    assert!(closing.is_finished());
    assert_eq!(ended(finishing).await.unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn an_end_that_nobody_is_left_to_tell_says_so() {
    let clock = ManualClock::new();
    let database = MemoryStore::with_clock(clock.clone());
    let build = || Leases::builder(database.clone()).clock(clock.clone()).build().unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    let first: SlotLease = runtime.block_on(async { round(&build(), 0).await });
    drop(runtime);
    let second = Builder::new_current_thread().build().unwrap();
    second.block_on(async {
        let error = first.finish(None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Runtime);
        assert!(!first.lease().check());
        clock.advance(SECOND * 15);
        drop(rerun(&build()).await);
    });
}
