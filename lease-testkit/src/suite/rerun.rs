//! Claims of a cut-short round for its second and last run.

use lease_core::store::{Claim, ConditionalAnswer, LeaseRow, RenewAnswer, UnfinishedSlot};

use super::Damage;
use super::context::{Context, claim_of, end_of, row_of, slot, slot_at, term, unfinished};
use super::process::RENEWED;
use super::same::same_row;

/// Holds the store to answer that something has moved, and to leave the row as it is.
async fn has_moved(cx: &Context, seen: &UnfinishedSlot) {
    let row = cx.find_row(&seen.name).await;
    cx.store.claim_rerun(&claim_of(&seen.name), seen).await.is(ConditionalAnswer::Moved);
    same_row(cx.find_row(&seen.name).await.as_ref(), row.as_ref());
}

pub(crate) async fn a_round_cut_short_is_granted_and_recorded_as_rerun(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let rerun = claim_of(&round.name);
    let before = cx.now().await;
    cx.store
        .claim_rerun(&rerun, &unfinished(&round.name, slot(1), 1))
        .await
        .is(ConditionalAnswer::Granted(term(2)));
    let row = cx.row(&rerun.name).await;
    assert!(before <= row.claimed_at && row.claimed_at <= cx.now().await, "{row:?}");
    let slots = LeaseRow {
        slot: Some(slot(1)),
        unfinished_slot: Some(slot(1)),
        rerun_slot: Some(slot(1)),
        ..row_of(&rerun, term(2), row.claimed_at)
    };
    same_row(&row, &slots);
    cx.store.renew(&rerun).await.is(RENEWED);
}

pub(crate) async fn an_expired_round_is_granted(cx: &Context) {
    let round = Claim { ttl: cx.brief(), ..cx.claim("job") };
    cx.store.claim_slot(&round, slot(1)).await.granted();
    cx.expire().await;
    cx.store.claim_rerun(&claim_of(&round.name), &unfinished(&round.name, slot(1), 1)).await.granted();
    cx.store.renew(&round).await.is(RenewAnswer::Lost);
}

pub(crate) async fn a_round_is_rerun_once_whatever_is_observed_afterwards(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let rerun = claim_of(&round.name);
    cx.store.claim_rerun(&rerun, &unfinished(&round.name, slot(1), 1)).await.granted();
    cx.release(&rerun).await;
    for seen in 1..=3 {
        has_moved(cx, &unfinished(&round.name, slot(1), seen)).await;
    }
    let row = cx.row(&round.name).await;
    assert_eq!(row.unfinished_slot, Some(slot(1)), "a rerun cut short stays unfinished");
}

pub(crate) async fn a_round_that_runs_is_not_rerun(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    has_moved(cx, &unfinished(&round.name, slot(1), 1)).await;
}

pub(crate) async fn a_rerun_that_runs_is_not_rerun(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    cx.store.claim_rerun(&claim_of(&round.name), &unfinished(&round.name, slot(1), 1)).await.granted();
    for seen in [1, 2] {
        has_moved(cx, &unfinished(&round.name, slot(1), seen)).await;
    }
}

pub(crate) async fn a_name_that_is_held_again_is_not_taken(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    cx.hold_again(&round.name).await;
    for seen in [1, 2] {
        has_moved(cx, &unfinished(&round.name, slot(1), seen)).await;
    }
}

pub(crate) async fn a_finished_round_is_not_rerun(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    cx.store.finish_slot(&end_of(&round, slot(1))).await.ok();
    has_moved(cx, &unfinished(&round.name, slot(1), 1)).await;
}

pub(crate) async fn a_round_finished_by_its_lost_holder_is_not_rerun(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let plain = cx.hold_again(&round.name).await;
    cx.store.finish_slot(&end_of(&round, slot(1))).await.ok();
    cx.release(&plain).await;
    has_moved(cx, &unfinished(&round.name, slot(1), 2)).await;
}

pub(crate) async fn the_term_must_be_the_one_seen(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let plain = cx.hold_again(&round.name).await;
    cx.release(&plain).await;
    for seen in [1, 3] {
        has_moved(cx, &unfinished(&round.name, slot(1), seen)).await;
    }
    cx.store
        .claim_rerun(&claim_of(&round.name), &unfinished(&round.name, slot(1), 2))
        .await
        .is(ConditionalAnswer::Granted(term(3)));
}

pub(crate) async fn the_slot_must_be_the_one_seen(cx: &Context) {
    let round = cx.cut_short("job", slot(2)).await;
    for other in [slot(1), slot(3), slot_at(slot(2).as_millis() + 1)] {
        has_moved(cx, &unfinished(&round.name, other, 1)).await;
    }
}

pub(crate) async fn a_round_with_a_later_slot_claimed_since_is_not_rerun(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    cx.cut_short("job", slot(2)).await;
    for seen in [1, 2] {
        has_moved(cx, &unfinished(&round.name, slot(1), seen)).await;
    }
    cx.store.claim_rerun(&claim_of(&round.name), &unfinished(&round.name, slot(2), 2)).await.granted();
}

pub(crate) async fn a_name_without_slots_has_none_to_rerun(cx: &Context) {
    let plain = cx.hold("job").await;
    cx.release(&plain).await;
    has_moved(cx, &unfinished(&plain.name, slot(1), 1)).await;
}

pub(crate) async fn a_missing_row_has_moved_and_stays_missing(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    cx.damage(&round.name, Damage::RowDeleted).await;
    for name in [round.name, cx.name("never")] {
        has_moved(cx, &unfinished(&name, slot(1), 1)).await;
        assert_eq!(cx.find_row(&name).await, None);
    }
}

pub(crate) async fn only_the_name_asked_for_is_rerun(cx: &Context) {
    let (round, neighbour) = (cx.cut_short("job", slot(1)).await, cx.cut_short("job 2", slot(1)).await);
    let row = cx.row(&neighbour.name).await;
    cx.store.claim_rerun(&claim_of(&round.name), &unfinished(&round.name, slot(1), 1)).await.granted();
    same_row(&cx.row(&neighbour.name).await, &row);
}
