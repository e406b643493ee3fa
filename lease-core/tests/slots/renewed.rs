//! A round is renewed until its end is on record, and waits for no other meanwhile.

use std::time::Duration;

use lease_core::{FinishAnswer, Leases, SlotClaimed, SlotLease};
use lease_testkit::{Fault, Op};

use super::finish::poll_once;
use super::job::{JOB, OwnError, Record, at, claim, ended, granted, round, unfinished};
use crate::common::{MS, SECOND, World};

async fn round_of(leases: &Leases, name: &str) -> SlotLease {
    granted(leases.claim_slot(name, at(0), Duration::ZERO).await.unwrap())
}

async fn many(leases: &Leases) -> Vec<SlotLease> {
    let mut rounds = Vec::new();
    for number in 0..200 {
        rounds.push(round_of(leases, &format!("job{number}")).await);
    }
    rounds
}

#[tokio::test]
async fn of_many_rounds_that_end_at_once_none_is_told_late_by_a_slow_database() {
    let world = World::new();
    let other = world.other();
    let rounds = many(&world.leases).await;
    let names: Vec<_> = rounds.iter().map(|round| round.lease().name().clone()).collect();
    world.store.always(Op::FinishSlot, Fault::DelayBefore(SECOND * 4));
    let running: Vec<_> = rounds
        .into_iter()
        .map(|round| tokio::spawn(round.run(|| None, async |_| Ok::<_, OwnError>(()))))
        .collect();
    world.play(SECOND * 4 + MS).await;
    for run in running {
        let done = ended(run).await;
        assert!(matches!(done.end, lease_core::RoundEnd::Finished(FinishAnswer::Finished)), "{done:?}");
    }
    world.play(SECOND * 60).await;
    assert_eq!(other.unfinished_slots(names).await.unwrap(), []);
    assert_eq!(world.store.calls(Op::FinishSlot), 200);
}

#[tokio::test]
async fn the_end_of_a_round_does_not_wait_for_releases_that_hang() {
    let world = World::new();
    let mut plain = Vec::new();
    for number in 0..32 {
        plain.push(world.claim(&format!("plain{number}")).await);
    }
    let round = round(&world.leases, 0).await;
    world.store.always(Op::Release, Fault::HangBefore);
    drop(plain);
    world.play(MS).await;
    assert_eq!(world.store.calls(Op::Release), 32);
    let running = tokio::spawn(round.run(|| None, async |_| Ok::<_, OwnError>(7)));
    world.play(MS).await;
    assert_eq!(ended(running).await.result.unwrap(), 7);
    assert_eq!(world.record().await, Record::finished(0));
}

#[tokio::test]
async fn a_round_whose_end_is_not_answered_for_longer_than_a_ttl_is_still_ours_and_then_recorded() {
    for all_dropped in [false, true] {
        let world = World::new();
        let other = world.other();
        let round = round(&world.leases, 0).await;
        world.store.always(Op::FinishSlot, Fault::HangBefore);
        let finishing = if all_dropped {
            poll_once(round.finish(Some(at(3))));
            drop(round);
            world.leases.shutdown();
            None
        } else {
            Some(tokio::spawn(async move { round.finish(Some(at(3))).await }))
        };
        world.play(SECOND * 19).await;
        assert!(!world.record().await.free);
        assert_eq!(unfinished(&other).await, []);
        assert!(matches!(claim(&other, 1).await, SlotClaimed::Held(_)));
        world.store.heal();
        world.play(SECOND + MS).await;
        assert_eq!(world.record().await, Record::finished(3));
        if let Some(finishing) = finishing {
            assert_eq!(ended(finishing).await.unwrap(), FinishAnswer::Finished);
        }
        // Nor is anything asked of it afterwards.
        let sent = world.store.log().len();
        world.play(SECOND * 60).await;
        assert_eq!(world.store.log().len(), sent);
    }
}

#[tokio::test]
async fn a_round_whose_renewal_was_due_right_when_its_end_was_told_is_renewed_on() {
    // Which of the two the task that renews sees first is a throw of dice.
    for _ in 0..40 {
        let world = World::new();
        let round = round(&world.leases, 0).await;
        world.play(SECOND).await;
        world.store.always(Op::FinishSlot, Fault::HangBefore);
        world.clock.jump(SECOND);
        poll_once(round.finish(None));
        world.play(SECOND * 17).await;
        assert!(!world.record().await.free);
    }
}

#[tokio::test]
async fn a_renewal_that_comes_after_the_end_moves_nothing_and_harms_no_other() {
    let world = World::new();
    let other = world.other();
    // Renewed in one batch; of which the one that has ended is then asked for alone.
    let (first, second) = (round(&world.leases, 0).await, round_of(&world.leases, "second").await);
    world.store.next(Op::FinishSlot, Fault::HangAfter);
    let finishing = tokio::spawn(async move { first.finish(None).await });
    world.play(SECOND * 4).await;
    assert!(world.store.calls(Op::RenewMany) > 0 && world.store.calls(Op::Renew) > 0);
    assert_eq!(world.record().await, Record::finished(0));
    let next = round(&other, 1).await;
    assert_eq!(next.superseded(), None);
    world.play(SECOND * 2).await;
    assert_eq!(ended(finishing).await.unwrap(), FinishAnswer::Lost { recorded: false });
    assert!(next.lease().check() && second.lease().check());
    assert_eq!(world.record().await.unfinished, Some(1));
}

#[tokio::test]
async fn an_end_told_again_under_a_new_tenure_is_recorded_when_the_one_before_is() {
    let world = World::new();
    world.play(SECOND * 5).await;
    let round = round(&world.leases, 0).await;
    world.store.next(Op::FinishSlot, Fault::DelayAfter(SECOND));
    let (one, two) = (round.finish(None), round.finish(Some(at(5))));
    let begun = async {
        world.play(MS).await;
        let tenure = round.lease().tenure();
        tokio::join!(two, async {
            world.play(SECOND * 2).await;
            drop(tenure);
        })
        .0
    };
    let (one, two) = tokio::join!(one, begun);
    assert_eq!((one.unwrap(), two.unwrap()), (FinishAnswer::Finished, FinishAnswer::Finished));
    assert_eq!(world.record().await, Record::finished(5));
}

#[tokio::test]
async fn a_release_after_an_end_that_failed_when_told_again_returns() {
    for release_first in [false, true] {
        let world = World::new();
        let round = round(&world.leases, 0).await;
        if release_first {
            round.release().await.unwrap();
        } else {
            round.finish(None).await.unwrap();
        }
        world.store.always(Op::FinishSlot, Fault::FailBefore(lease_core::ErrorKind::Unavailable));
        let again = async {
            let (again, ()) = tokio::join!(round.finish(None), world.play(SECOND * 30));
            again.unwrap_err();
            round.release().await.unwrap();
        };
        tokio::time::timeout(SECOND * 60, again).await.unwrap();
    }
}

#[tokio::test]
async fn everything_ends_when_a_round_is_lost_while_its_end_is_recorded() {
    for renewals_work in [false, true] {
        let world = World::new();
        let rounds = many(&world.leases).await;
        for op in [Op::FinishSlot, Op::Release] {
            world.store.always(op, Fault::HangBefore);
        }
        if !renewals_work {
            world.store.always(Op::Renew, Fault::HangBefore);
            world.store.always(Op::RenewMany, Fault::HangBefore);
        }
        let finishing: Vec<_> = rounds
            .into_iter()
            .map(|round| tokio::spawn(async move { round.finish(None).await.unwrap_err() }))
            .collect();
        let leases = world.leases.clone();
        let closing = tokio::spawn(async move { leases.close().await });
        // A ttl, a margin and two attempts; and as long again to give the names back.
        let once = SECOND * 25 + MS * 501;
        world.play(once).await;
        for finishing in finishing {
            assert_eq!(ended(finishing).await.kind(), lease_core::ErrorKind::Timeout);
        }
        world.play(once).await;
        assert!(closing.is_finished());
        let sent = world.store.log().len();
        world.play(SECOND * 60).await;
        assert_eq!(world.store.log().len(), sent);
        assert_eq!(world.other().unfinished_slots(["job0", "job199"]).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_round_refused_while_its_end_hangs_is_told_so_and_harms_no_other() {
    let world = World::new();
    let other = world.other();
    let first = round(&world.leases, 0).await;
    world.store.next(Op::FinishSlot, Fault::HangBefore);
    let finishing = tokio::spawn(async move { first.finish(Some(at(4))).await });
    world.play(SECOND).await;
    world.clear();
    let again = super::job::rerun(&other).await;
    world.play(SECOND * 5).await;
    assert_eq!(ended(finishing).await.unwrap(), FinishAnswer::Lost { recorded: true });
    assert!(again.lease().check());
    // What passed is recorded by who has the name alone.
    assert_eq!(world.leases.last_slot(JOB).await.unwrap(), Some(super::job::slot(0)));
    again.finish(None).await.unwrap();
    assert_eq!(world.record().await, Record { rerun: Some(0), ..Record::finished(0) });
    world.play(SECOND * 60).await;
    assert_eq!(world.store.calls(Op::Release), 0);
}
