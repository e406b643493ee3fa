//! The end of a round.

use std::time::Duration;

use lease_core::Slot;
use lease_core::store::{Claim, DbTime, FinishAnswer, LeaseRow, RenewAnswer, SlotEnd};

use super::Damage;
use super::context::{Context, claim_of, end_of, slot, slot_at, unfinished};
use super::process::RENEWED;
use super::same::same_row;

const RECORDED: FinishAnswer = FinishAnswer::Lost { recorded: true };
const NOT_RECORDED: FinishAnswer = FinishAnswer::Lost { recorded: false };

/// The row of a round whose end has been recorded and whose name was given back.
fn finished(row: LeaseRow, last: Slot) -> LeaseRow {
    LeaseRow { expires_at: DbTime::RELEASED, slot: Some(last), unfinished_slot: None, ..row }
}

pub(crate) async fn a_held_round_ends_and_the_name_is_free(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let row = cx.row(&round.name).await;
    cx.store.finish_slot(&end_of(&round, slot(1))).await.is(FinishAnswer::Finished);
    same_row(&cx.row(&round.name).await, &finished(row, slot(1)));
    cx.store.renew(&round).await.is(RenewAnswer::Lost);
    cx.hold_again(&round.name).await;
}

pub(crate) async fn an_end_can_be_recorded_again_with_the_same_answer(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let end = SlotEnd { passed: Some(slot(3)), ..end_of(&round, slot(1)) };
    cx.store.finish_slot(&end).await.is(FinishAnswer::Finished);
    let row = cx.row(&round.name).await;
    for _ in 0..2 {
        cx.store.finish_slot(&end).await.is(FinishAnswer::Finished);
        same_row(&cx.row(&round.name).await, &row);
    }
}

pub(crate) async fn a_round_that_expired_unclaimed_still_ends(cx: &Context) {
    let round = Claim { ttl: cx.brief(), ..cx.claim("job") };
    cx.store.claim_slot(&round, slot(1)).await.granted();
    cx.expire().await;
    let row = cx.row(&round.name).await;
    let end = SlotEnd { passed: Some(slot(2)), ..end_of(&round, slot(1)) };
    cx.store.finish_slot(&end).await.is(FinishAnswer::Finished);
    same_row(&cx.row(&round.name).await, &finished(row, slot(2)));
}

pub(crate) async fn a_released_round_still_ends(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let row = cx.row(&round.name).await;
    cx.store.finish_slot(&end_of(&round, slot(1))).await.is(FinishAnswer::Finished);
    same_row(&cx.row(&round.name).await, &finished(row, slot(1)));
    cx.store.unfinished_slots(&[round.name]).await.is(Vec::new());
}

pub(crate) async fn a_passed_instant_is_recorded_as_skipped(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let row = cx.row(&round.name).await;
    let end = SlotEnd { passed: Some(slot(4)), ..end_of(&round, slot(1)) };
    cx.store.finish_slot(&end).await.is(FinishAnswer::Finished);
    same_row(&cx.row(&round.name).await, &finished(row, slot(4)));
}

pub(crate) async fn a_passed_instant_not_later_than_the_last_is_ignored(cx: &Context) {
    for (tag, passed) in [("same", slot(5)), ("before", slot(4)), ("least", slot_at(1))] {
        let round = cx.round(tag, slot(5)).await;
        let row = cx.row(&round.name).await;
        let end = SlotEnd { passed: Some(passed), ..end_of(&round, slot(5)) };
        cx.store.finish_slot(&end).await.is(FinishAnswer::Finished);
        same_row(&cx.row(&round.name).await, &finished(row, slot(5)));
    }
}

pub(crate) async fn a_passed_instant_the_databases_clock_has_not_reached_is_ignored(cx: &Context) {
    let hour = slot_at(cx.now().await.as_millis() + 3_600_000);
    for (tag, passed) in [("hour", hour), ("end of time", slot_at(i64::MAX))] {
        let round = cx.round(tag, slot(1)).await;
        let row = cx.row(&round.name).await;
        let end = SlotEnd { passed: Some(passed), ..end_of(&round, slot(1)) };
        cx.store.finish_slot(&end).await.is(FinishAnswer::Finished);
        same_row(&cx.row(&round.name).await, &finished(row, slot(1)));
        cx.store.claim_slot(&claim_of(&round.name), slot(2)).await.granted();
    }
}

pub(crate) async fn a_passed_instant_is_recorded_once_the_databases_clock_reaches_it(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let row = cx.row(&round.name).await;
    let passed = slot_at(cx.now().await.as_millis() + 20);
    cx.pass(Duration::from_millis(20)).await;
    let end = SlotEnd { passed: Some(passed), ..end_of(&round, slot(1)) };
    cx.store.finish_slot(&end).await.is(FinishAnswer::Finished);
    same_row(&cx.row(&round.name).await, &finished(row, passed));
}

pub(crate) async fn a_lease_known_to_be_lost_is_not_given_back_but_its_end_recorded(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let row = cx.row(&round.name).await;
    let end = SlotEnd { lost: true, passed: Some(slot(2)), ..end_of(&round, slot(1)) };
    cx.store.finish_slot(&end).await.is(RECORDED);
    same_row(&cx.row(&round.name).await, &LeaseRow { unfinished_slot: None, ..row });
}

pub(crate) async fn a_plain_successor_keeps_its_lease_and_the_end_is_recorded(cx: &Context) {
    for lost in [false, true] {
        let round = cx.cut_short(&format!("job {lost}"), slot(1)).await;
        let held = cx.hold_again(&round.name).await;
        let row = cx.row(&held.name).await;
        let end = SlotEnd { lost, passed: Some(slot(2)), ..end_of(&round, slot(1)) };
        cx.store.finish_slot(&end).await.is(RECORDED);
        same_row(&cx.row(&held.name).await, &LeaseRow { unfinished_slot: None, ..row });
        cx.store.renew(&held).await.is(RENEWED);
    }
}

pub(crate) async fn the_end_recorded_after_a_loss_says_so_once(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    cx.hold_again(&round.name).await;
    let end = end_of(&round, slot(1));
    cx.store.finish_slot(&end).await.is(RECORDED);
    cx.store.finish_slot(&end).await.is(NOT_RECORDED);
}

pub(crate) async fn a_later_slot_claimed_meanwhile_stays_as_it_is(cx: &Context) {
    for lost in [false, true] {
        let round = cx.cut_short(&format!("job {lost}"), slot(1)).await;
        let later = claim_of(&round.name);
        cx.store.claim_slot(&later, slot(2)).await.granted();
        let row = cx.row(&later.name).await;
        let end = SlotEnd { lost, passed: Some(slot(3)), ..end_of(&round, slot(1)) };
        cx.store.finish_slot(&end).await.is(NOT_RECORDED);
        same_row(&cx.row(&later.name).await, &row);
        // Its own end is still to come.
        cx.store.finish_slot(&end_of(&later, slot(2))).await.is(FinishAnswer::Finished);
    }
}

pub(crate) async fn a_later_slot_finished_meanwhile_is_not_reopened(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let later = claim_of(&round.name);
    cx.store.claim_slot(&later, slot(3)).await.granted();
    cx.store.finish_slot(&end_of(&later, slot(3))).await.ok();
    let row = cx.row(&later.name).await;
    for passed in [None, Some(slot(2))] {
        let end = SlotEnd { passed, ..end_of(&round, slot(1)) };
        cx.store.finish_slot(&end).await.is(NOT_RECORDED);
        same_row(&cx.row(&later.name).await, &row);
    }
}

pub(crate) async fn the_first_run_ends_its_instant_though_a_rerun_holds_the_lease(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let rerun = claim_of(&round.name);
    cx.store.claim_rerun(&rerun, &unfinished(&round.name, slot(1), 1)).await.granted();
    let row = cx.row(&rerun.name).await;
    cx.store.finish_slot(&end_of(&round, slot(1))).await.is(RECORDED);
    same_row(&cx.row(&rerun.name).await, &LeaseRow { unfinished_slot: None, ..row });
    cx.store.renew(&rerun).await.is(RENEWED);
    cx.store.finish_slot(&end_of(&rerun, slot(1))).await.is(FinishAnswer::Finished);
}

pub(crate) async fn a_rerun_ends_its_instant(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let rerun = claim_of(&round.name);
    cx.store.claim_rerun(&rerun, &unfinished(&round.name, slot(1), 1)).await.granted();
    let row = cx.row(&rerun.name).await;
    cx.store.finish_slot(&end_of(&rerun, slot(1))).await.is(FinishAnswer::Finished);
    same_row(&cx.row(&rerun.name).await, &finished(row, slot(1)));
}

pub(crate) async fn without_the_lease_only_the_unfinished_instant_itself_is_ended(cx: &Context) {
    let round = cx.cut_short("job", slot(2)).await;
    let row = cx.row(&round.name).await;
    for other in [slot(1), slot(3)] {
        let end = SlotEnd { lost: true, ..end_of(&round, other) };
        cx.store.finish_slot(&end).await.is(NOT_RECORDED);
        cx.store.finish_slot(&end_of(&claim_of(&round.name), other)).await.is(NOT_RECORDED);
    }
    same_row(&cx.row(&round.name).await, &row);
}

pub(crate) async fn a_missing_row_has_nothing_to_record_and_stays_missing(cx: &Context) {
    let (deleted, never) = (cx.round("job", slot(1)).await, cx.claim("never"));
    cx.damage(&deleted.name, Damage::RowDeleted).await;
    for round in [deleted, never] {
        for lost in [false, true] {
            let end = SlotEnd { lost, passed: Some(slot(2)), ..end_of(&round, slot(1)) };
            cx.store.finish_slot(&end).await.is(NOT_RECORDED);
            assert_eq!(cx.find_row(&round.name).await, None);
        }
    }
}

pub(crate) async fn only_the_name_asked_for_is_ended(cx: &Context) {
    let (round, neighbour) = (cx.round("job", slot(1)).await, cx.round("job 2", slot(1)).await);
    let row = cx.row(&neighbour.name).await;
    cx.store.finish_slot(&SlotEnd { lost: true, ..end_of(&round, slot(1)) }).await.is(RECORDED);
    cx.store.finish_slot(&end_of(&round, slot(1))).await.is(FinishAnswer::Finished);
    same_row(&cx.row(&neighbour.name).await, &row);
}
