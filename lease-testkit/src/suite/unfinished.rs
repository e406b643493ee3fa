//! Rounds cut short that may run once more.

use std::slice;

use lease_core::LeaseName;
use lease_core::store::{Claim, UnfinishedSlot};

use super::Damage;
use super::context::{Context, claim_of, end_of, slot, slot_at, unfinished};
use super::same::same_row;

pub(crate) async fn no_names_have_no_unfinished_slots(cx: &Context) {
    cx.cut_short("job", slot(1)).await;
    cx.store.unfinished_slots(&[]).await.is(Vec::new());
}

pub(crate) async fn a_round_cut_short_is_found_released_or_expired(cx: &Context) {
    let expired = Claim { ttl: cx.brief(), ..cx.claim("b expired") };
    cx.store.claim_slot(&expired, slot(2)).await.granted();
    let released = cx.cut_short("a released", slot(1)).await;
    cx.expire().await;
    let names = [expired.name, released.name];
    let found = vec![unfinished(&names[1], slot(1), 1), unfinished(&names[0], slot(2), 1)];
    cx.store.unfinished_slots(&names).await.is(found);
}

/// Holds the store to find nothing to rerun for `name`.
async fn has_none(cx: &Context, name: &LeaseName) {
    cx.store.unfinished_slots(slice::from_ref(name)).await.is(Vec::new());
}

/// Holds the store to find this to rerun, asked for its name alone.
async fn has_one(cx: &Context, found: &UnfinishedSlot) {
    cx.store.unfinished_slots(slice::from_ref(&found.name)).await.is(vec![found.clone()]);
}

pub(crate) async fn a_round_that_runs_is_not_found(cx: &Context) {
    has_none(cx, &cx.round("job", slot(1)).await.name).await;
}

pub(crate) async fn a_round_whose_name_is_held_again_is_not_found(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    cx.hold_again(&round.name).await;
    has_none(cx, &round.name).await;
}

pub(crate) async fn a_finished_round_is_not_found(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    cx.store.finish_slot(&end_of(&round, slot(1))).await.ok();
    has_none(cx, &round.name).await;
}

pub(crate) async fn a_round_cut_short_twice_is_not_found(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let rerun = claim_of(&round.name);
    cx.store.claim_rerun(&rerun, &unfinished(&round.name, slot(1), 1)).await.granted();
    has_none(cx, &round.name).await;
    cx.release(&rerun).await;
    has_none(cx, &round.name).await;
}

pub(crate) async fn a_later_round_cut_short_is_found_though_an_earlier_one_was_rerun(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let rerun = claim_of(&round.name);
    cx.store.claim_rerun(&rerun, &unfinished(&round.name, slot(1), 1)).await.granted();
    cx.release(&rerun).await;
    cx.cut_short("job", slot(2)).await;
    has_one(cx, &unfinished(&round.name, slot(2), 3)).await;
}

pub(crate) async fn a_name_without_slots_is_not_found_claimed_or_not(cx: &Context) {
    let held = cx.hold("job").await;
    has_none(cx, &held.name).await;
    cx.release(&held).await;
    has_none(cx, &held.name).await;
    has_none(cx, &cx.name("never")).await;
    cx.damage(&held.name, Damage::RowDeleted).await;
    has_none(cx, &held.name).await;
}

pub(crate) async fn the_term_named_is_the_one_in_the_row(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let plain = cx.hold_again(&round.name).await;
    cx.release(&plain).await;
    has_one(cx, &unfinished(&round.name, slot(1), 2)).await;
}

pub(crate) async fn only_the_names_asked_for_are_answered(cx: &Context) {
    let asked = cx.cut_short("job", slot(1)).await;
    cx.cut_short("job 2", slot(1)).await;
    cx.cut_short("JOB", slot(1)).await;
    has_one(cx, &unfinished(&asked.name, slot(1), 1)).await;
}

pub(crate) async fn a_name_given_twice_is_answered_once(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let names = [round.name.clone(), cx.name("never"), round.name.clone()];
    cx.store.unfinished_slots(&names).await.is(vec![unfinished(&round.name, slot(1), 1)]);
}

pub(crate) async fn a_thousand_names_are_asked_for_at_once(cx: &Context) {
    let mut names: Vec<LeaseName> = (0..1_000).map(|n| cx.name(&format!("none {n}"))).collect();
    let mut found = Vec::new();
    // The last of them at the very end.
    for n in [1, 2, 3] {
        let name = cx.cut_short(&format!("round {n}"), slot_at(n)).await.name;
        found.push(unfinished(&name, slot_at(n), 1));
        names.insert(334 * usize::try_from(n).expect("a small number"), name);
    }
    cx.store.unfinished_slots(&names).await.is(found);
}

pub(crate) async fn asking_changes_nothing(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let row = cx.row(&round.name).await;
    cx.store.unfinished_slots(&[round.name.clone(), cx.name("never")]).await.ok();
    same_row(&cx.row(&round.name).await, &row);
    assert_eq!(cx.find_row(&cx.name("never")).await, None);
}
