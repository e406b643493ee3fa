//! The end of a round whose lease was lost.

use lease_core::{ErrorKind, FinishAnswer, LossReason, SlotClaimed, SlotLease};
use lease_testkit::{Fault, Op};

use super::job::{JOB, Record, at, claim, ended, rerun, round, unfinished};
use crate::common::{MS, SECOND, World};

/// A round that loses its lease while the row still carries its token, with an hour to live: as only the answer tells
/// whether giving the name back was tried.
async fn lost(world: &World, how: &str) -> SlotLease {
    let round = round(&world.leases, 0).await;
    match how {
        "refused" => {
            world.database.step_clock(3_600_000);
            world.play(SECOND * 2).await;
            world.database.step_clock(-3_600_000);
        }
        "replaced" => {
            world.store.next(Op::Renew, Fault::FailBefore(ErrorKind::Replaced));
            world.play(SECOND * 2).await;
        }
        "deadline" => {
            world.store.always(Op::Renew, Fault::FailBefore(ErrorKind::Unavailable));
            world.play(SECOND * 10).await;
        }
        _ => world.play(SECOND * 2).await,
    }
    round
}

#[tokio::test]
async fn giving_back_is_not_tried_when_the_name_is_known_to_be_lost() {
    for (how, gone) in [("refused", true), ("replaced", true), ("deadline", false), ("not lost", false)] {
        let world = World::new();
        let round = lost(&world, how).await;
        let reason = round.lease().reason();
        let as_planned = match how {
            "refused" => matches!(reason, Some(LossReason::Refused)),
            "replaced" => matches!(reason, Some(LossReason::Replaced(_))),
            "deadline" => matches!(reason, Some(LossReason::Deadline { last_error: Some(_) })),
            _ => reason.is_none(),
        };
        assert!(as_planned, "{how}: {reason:?}");
        let answer = round.finish(Some(at(1))).await.unwrap();
        let record = world.record().await;
        assert_eq!(record.unfinished, None, "{how}");
        if gone {
            assert_eq!(answer, FinishAnswer::Lost { recorded: true }, "{how}");
            // What passed is for the one to say who has the name.
            assert_eq!((record.last, record.free), (Some(0), false), "{how}");
        } else {
            assert_eq!(answer, FinishAnswer::Finished, "{how}");
            assert_eq!((record.last, record.free), (Some(1), true), "{how}");
        }
        assert_eq!(world.store.calls(Op::FinishSlot), 1);
        drop(round);
        world.play(SECOND * 60).await;
        assert_eq!(world.store.calls(Op::Release), 0);
    }
}

#[tokio::test]
async fn a_lost_round_is_recorded_at_least_once_however_late() {
    for kept in [false, true] {
        let world = World::new();
        let lost = lost(&world, "deadline").await;
        let tenure = kept.then(|| lost.lease().tenure());
        world.play(SECOND * 3_600).await;
        assert!(world.record().await.free);
        // At once, a tenure or not: nothing is given back any more.
        let answer = lost.finish(None).await.unwrap();
        assert_eq!(answer, FinishAnswer::Finished);
        assert_eq!(world.record().await, Record::finished(0));
        drop(tenure);
        world.store.next(Op::FinishSlot, Fault::FailBefore(ErrorKind::Unavailable));
        assert_eq!(lost.finish(None).await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(world.store.calls(Op::FinishSlot), 2);
    }
}

#[tokio::test]
async fn the_end_of_a_lost_round_is_recorded_unless_a_later_instant_was_claimed() {
    for (meanwhile, recorded) in [("plain claim", true), ("rerun", true), ("later instant", false)] {
        let world = World::new();
        let other = world.other();
        let lost = lost(&world, "deadline").await;
        world.play(SECOND * 5).await;
        let (plain, next) = match meanwhile {
            "plain claim" => (Some(crate::common::granted(other.claim(JOB).await.unwrap())), None),
            "rerun" => (None, Some(rerun(&other).await)),
            _ => (None, Some(round(&other, 1).await)),
        };
        let before = world.record().await;
        assert_eq!(lost.finish(Some(at(2))).await.unwrap(), FinishAnswer::Lost { recorded }, "{meanwhile}");
        let record = world.record().await;
        // The other's name, instant and rerun stay as they were.
        assert_eq!(record.unfinished, if recorded { None } else { Some(1) });
        assert_eq!(Record { unfinished: before.unfinished, ..record }, before);
        drop((plain, next));
        world.play(MS).await;
        assert_eq!(unfinished(&other).await.len(), usize::from(!recorded));
        assert!(matches!(claim(&other, 0).await, SlotClaimed::Passed));
    }
}

#[tokio::test]
async fn an_end_told_to_a_replaced_database_is_told_again_and_its_failure_known() {
    let world = World::new();
    let first = round(&world.leases, 0).await;
    world.store.next(Op::FinishSlot, Fault::FailBefore(ErrorKind::Replaced));
    let finishing = tokio::spawn(async move { first.finish(None).await });
    world.play(SECOND * 2).await;
    assert_eq!(ended(finishing).await.unwrap(), FinishAnswer::Finished);

    let first = round(&world.leases, 1).await;
    world.store.always(Op::FinishSlot, Fault::FailBefore(ErrorKind::Replaced));
    let finishing = tokio::spawn(async move { first.finish(None).await });
    world.play(SECOND * 25).await;
    assert_eq!(ended(finishing).await.unwrap_err().kind(), ErrorKind::Replaced);
}
