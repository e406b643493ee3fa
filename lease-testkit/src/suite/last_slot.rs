//! The last instant on record.

use lease_core::store::SlotEnd;

use super::context::{Context, claim_of, end_of, slot};
use super::same::same_row;

pub(crate) async fn a_name_that_never_had_one_has_none(cx: &Context) {
    cx.store.last_slot(&cx.name("never")).await.is(None);
    let held = cx.hold("job").await;
    cx.store.last_slot(&held.name).await.is(None);
    assert_eq!(cx.find_row(&cx.name("never")).await, None);
}

pub(crate) async fn the_last_instant_claimed_is_named_whatever_became_of_its_round(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    cx.store.last_slot(&round.name).await.is(Some(slot(1)));
    cx.another().await.last_slot(&round.name).await.is(Some(slot(1)));
    cx.release(&round).await;
    cx.store.last_slot(&round.name).await.is(Some(slot(1)));
    let later = claim_of(&round.name);
    cx.store.claim_slot(&later, slot(2)).await.granted();
    cx.store.last_slot(&round.name).await.is(Some(slot(2)));
    cx.store.finish_slot(&end_of(&later, slot(2))).await.ok();
    cx.store.last_slot(&round.name).await.is(Some(slot(2)));
}

pub(crate) async fn a_skipped_instant_is_named(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    cx.store.finish_slot(&SlotEnd { passed: Some(slot(3)), ..end_of(&round, slot(1)) }).await.ok();
    cx.store.last_slot(&round.name).await.is(Some(slot(3)));
}

pub(crate) async fn asking_changes_nothing(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let row = cx.row(&round.name).await;
    cx.store.last_slot(&round.name).await.ok();
    same_row(&cx.row(&round.name).await, &row);
}
