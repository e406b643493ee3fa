//! Who is granted an instant, and whom it is refused.

use std::time::Duration;

use lease_core::{ErrorKind, SlotClaimed, Superseded};
use lease_testkit::{Fault, Op};

use super::job::{JOB, Record, at, claim, rerun, round, slot, unfinished};
use crate::common::{MS, SECOND, World};

#[tokio::test]
async fn an_instant_is_granted_once_and_refused_for_ever_once_it_is_finished() {
    let world = World::new();
    let first = round(&world.leases, 0).await;
    assert_eq!((first.slot(), first.is_rerun(), first.superseded()), (slot(0), false, None));
    assert!(matches!(claim(&world.other(), 0).await, SlotClaimed::Passed));
    world.play(MS * 10).await;
    first.finish(None).await.unwrap();
    assert_eq!(world.record().await, Record::finished(0));
    world.play(SECOND * 5).await;
    for leases in [&world.leases, &world.other()] {
        assert!(matches!(claim(leases, 0).await, SlotClaimed::Passed));
        assert_eq!(unfinished(leases).await, []);
        assert_eq!(leases.last_slot(JOB).await.unwrap(), Some(slot(0)));
    }
}

#[tokio::test]
async fn an_older_instant_is_refused_everywhere_after_a_newer_one_whatever_became_of_that() {
    let world = World::new();
    let (newer, late) = (round(&world.leases, -10).await, world.other());
    for seconds in [-11, -3_600] {
        assert!(matches!(claim(&late, seconds).await, SlotClaimed::Passed), "while the newer one runs");
    }
    drop(newer);
    world.play(MS).await;
    for leases in [&world.leases, &late, &world.other()] {
        assert!(matches!(claim(leases, -11).await, SlotClaimed::Passed), "cut short");
    }
    rerun(&late).await.finish(None).await.unwrap();
    for leases in [&world.leases, &late, &world.other()] {
        assert!(matches!(claim(leases, -11).await, SlotClaimed::Passed), "finished");
    }
}

#[tokio::test]
async fn who_asks_an_hour_ahead_skips_nothing_for_the_others() {
    let world = World::new();
    let ahead = claim(&world.leases, 3_600).await;
    assert!(matches!(ahead, SlotClaimed::NotYet(left) if left == SECOND * 3_600));
    assert_eq!(world.leases.last_slot(JOB).await.unwrap(), None);
    let other = world.other();
    let held = round(&other, 0).await;
    // Nor by what it says has passed.
    held.finish(Some(at(3_600))).await.unwrap();
    assert_eq!(world.record().await, Record::finished(0));
    world.play(SECOND).await;
    drop(round(&other, 1).await);
}

#[tokio::test]
async fn a_name_that_is_held_refuses_the_next_instant_until_it_is_free() {
    let world = World::new();
    let first = round(&world.leases, -2).await;
    let other = world.other();
    let SlotClaimed::Held(refusal) = claim(&other, -1).await else { panic!("not held") };
    assert_eq!(refusal.holder().await.unwrap().row().unwrap().slot, Some(slot(-2)));
    first.finish(None).await.unwrap();
    let next = round(&other, -1).await;
    assert_eq!(next.superseded(), None);
    // A name held without an instant is held as well.
    next.finish(None).await.unwrap();
    let _plain = crate::common::granted(other.claim(JOB).await.unwrap());
    assert!(matches!(claim(&world.leases, 0).await, SlotClaimed::Held(_)));
}

#[tokio::test]
async fn a_round_cut_short_is_rerun_once_and_then_given_up() {
    let world = World::new();
    let other = world.other();
    drop(round(&world.leases, -3).await);
    world.play(MS).await;
    assert_eq!(world.record().await, Record::cut_short(-3));
    let second = rerun(&other).await;
    assert_eq!((second.slot(), second.is_rerun(), second.superseded()), (slot(-3), true, None));
    assert_eq!(unfinished(&world.leases).await, []);
    second.release().await.unwrap();
    assert_eq!(world.record().await, Record::used_up(-3));
    assert_eq!(unfinished(&world.leases).await, []);

    let next = round(&world.leases, -2).await;
    assert_eq!(next.superseded(), Some(Superseded { slot: slot(-3), rerun: true }));
    drop(next);
    world.play(MS).await;
    let next = round(&world.leases, -1).await;
    assert_eq!(next.superseded(), Some(Superseded { slot: slot(-2), rerun: false }));
    next.finish(None).await.unwrap();
    assert_eq!(round(&world.leases, 0).await.superseded(), None);
}

#[tokio::test]
async fn a_rerun_is_refused_when_anything_has_moved_since_it_was_found() {
    for moved in ["taken", "rerun", "finished", "later instant", "nothing"] {
        let world = World::new();
        let (other, late) = (world.other(), world.other());
        let first = round(&world.leases, -1).await;
        let tenure = first.lease().tenure();
        world.clear();
        let found = unfinished(&late).await;
        match moved {
            "taken" => drop(other.claim(JOB).await.unwrap()),
            "rerun" => rerun(&other).await.release().await.unwrap(),
            "finished" => {
                drop(tenure);
                first.finish(None).await.map(|_| ()).unwrap();
            }
            "later instant" => drop(round(&other, 0).await),
            _ => {}
        }
        world.play(MS).await;
        assert!(world.is_free(JOB).await);
        let granted = late.claim_rerun(&found[0]).await.unwrap();
        assert_eq!(granted.is_some(), moved == "nothing", "{moved}");
    }
}

#[tokio::test]
async fn unfinished_rounds_of_many_names_are_found_by_one_statement() {
    let world = World::new();
    assert_eq!(world.leases.unfinished_slots([""; 0]).await.unwrap(), []);
    assert_eq!(world.store.calls(Op::UnfinishedSlots), 0);
    for name in ["a", "b", "c"] {
        let round = world.leases.claim_slot(name, at(0), Duration::ZERO).await.unwrap();
        let round = super::job::granted(round);
        if name == "b" {
            round.finish(None).await.unwrap();
        } else {
            round.release().await.unwrap();
        }
    }
    let found = world.leases.unfinished_slots(["a", "b", "c", "a", "never"]).await.unwrap();
    let mut names: Vec<_> = found.iter().map(|found| found.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "c"]);
    assert_eq!(world.store.calls(Op::UnfinishedSlots), 1);

    assert_eq!(world.leases.unfinished_slots(["a", ""]).await.unwrap_err().kind(), ErrorKind::Invalid);
    world.store.next(Op::UnfinishedSlots, Fault::FailBefore(ErrorKind::Busy));
    let error = world.leases.unfinished_slots(["a"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().starts_with("cannot read the unfinished slots in memory"), "{error}");
}

#[tokio::test]
async fn a_round_of_a_holder_that_vanished_is_found_when_its_row_has_expired() {
    let world = World::new();
    let _vanished = round(&world.leases, 0).await;
    world.store.always(Op::Renew, Fault::HangBefore);
    let other = world.other();
    world.play(SECOND * 14 + MS * 999).await;
    assert_eq!(unfinished(&other).await, []);
    world.play(MS).await;
    rerun(&other).await.finish(None).await.unwrap();
}
