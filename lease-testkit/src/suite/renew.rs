//! Renewals of one lease.

use std::time::Duration;

use lease_core::store::{LeaseRow, RenewAnswer, Renewed};

use super::Damage;
use super::context::{Context, LONG, after, slot, term};
use super::process::RENEWED;
use super::same::same_row;

pub(crate) async fn a_renewal_moves_expiry_and_heartbeat_by_the_databases_clock(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let claimed = cx.row(&round.name).await;
    cx.pass(Duration::from_millis(2)).await;
    let earliest = cx.now().await;
    cx.store.renew(&round).await.is(RENEWED);
    let latest = cx.now().await;
    let row = cx.row(&round.name).await;
    assert!(
        earliest <= row.renewed_at && row.renewed_at <= latest,
        "renewed at {:?}, though the renewal ran between {earliest:?} and {latest:?}",
        row.renewed_at
    );
    let expires_at = after(row.renewed_at, LONG);
    same_row(&row, &LeaseRow { renewed_at: row.renewed_at, expires_at, ..claimed });
}

pub(crate) async fn a_renewal_lasts_as_long_as_it_asks(cx: &Context) {
    let held = cx.hold("job").await;
    cx.store.renew_as(&held.name, &held.holder, LONG * 3).await.is(RENEWED);
    let row = cx.row(&held.name).await;
    assert_eq!(row.expires_at, after(row.renewed_at, LONG * 3));
    cx.store.renew_as(&held.name, &held.holder, LONG).await.is(RENEWED);
    let row = cx.row(&held.name).await;
    assert_eq!(row.expires_at, after(row.renewed_at, LONG), "a shorter ttl shortens the lease");
}

pub(crate) async fn a_renewal_keeps_a_lease_beyond_the_ttl_of_its_claim(cx: &Context) {
    // The claim's own ttl is long too, so that a slow machine cannot lose the lease before the renewal.
    let held = cx.hold("job").await;
    cx.store.renew_as(&held.name, &held.holder, LONG * 2).await.is(RENEWED);
    let row = cx.row(&held.name).await;
    assert!(row.expires_at > after(row.claimed_at, LONG), "{row:?}");
}

pub(crate) async fn renewals_within_one_millisecond_are_not_lost(cx: &Context) {
    // An update that writes the values already there changes no row on some engines, and yet finds it.
    let held = cx.hold("job").await;
    for _ in 0..50 {
        cx.store.renew(&held).await.is(RENEWED);
    }
}

pub(crate) async fn a_lease_is_not_renewed_for_another_holder(cx: &Context) {
    let (held, other) = (cx.hold("job").await, cx.claim("job"));
    let row = cx.row(&held.name).await;
    cx.store.renew(&other).await.is(RenewAnswer::Lost);
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn an_expired_lease_is_lost_and_stays_expired(cx: &Context) {
    let held = cx.hold_briefly("job").await;
    let row = cx.row(&held.name).await;
    cx.expire().await;
    cx.store.renew_as(&held.name, &held.holder, LONG).await.is(RenewAnswer::Lost);
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn a_released_lease_is_lost_and_stays_free(cx: &Context) {
    let held = cx.hold("job").await;
    cx.release(&held).await;
    let row = cx.row(&held.name).await;
    cx.store.renew(&held).await.is(RenewAnswer::Lost);
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn a_cleared_lease_is_lost_and_stays_free(cx: &Context) {
    let held = cx.hold("job").await;
    cx.store.clear(&held.name, &cx.row(&held.name).await.observed()).await.ok();
    let row = cx.row(&held.name).await;
    cx.store.renew(&held).await.is(RenewAnswer::Lost);
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn a_lease_taken_over_is_lost_to_its_former_holder_for_good(cx: &Context) {
    let former = cx.hold("job").await;
    cx.release(&former).await;
    let held = cx.hold_again(&former.name).await;
    let row = cx.row(&held.name).await;
    cx.store.renew(&former).await.is(RenewAnswer::Lost);
    same_row(&cx.row(&held.name).await, &row);
    cx.release(&held).await;
    cx.store.renew(&former).await.is(RenewAnswer::Lost);
}

pub(crate) async fn a_name_never_claimed_is_lost_and_gets_no_row(cx: &Context) {
    let claim = cx.claim("job");
    cx.store.renew(&claim).await.is(RenewAnswer::Lost);
    assert_eq!(cx.find_row(&claim.name).await, None);
}

pub(crate) async fn a_deleted_row_is_not_made_again(cx: &Context) {
    let held = cx.hold("job").await;
    cx.store.renew(&held).await.is(RENEWED);
    cx.damage(&held.name, Damage::RowDeleted).await;
    cx.store.renew(&held).await.is(RenewAnswer::Lost);
    assert_eq!(cx.find_row(&held.name).await, None);
}

pub(crate) async fn a_second_process_renews_by_the_token_alone(cx: &Context) {
    let held = cx.hold("job").await;
    cx.another().await.renew(&held).await.is(RENEWED);
}

pub(crate) async fn only_the_lease_named_is_renewed(cx: &Context) {
    let (held, neighbour) = (cx.hold("job").await, cx.hold("job 2").await);
    let row = cx.row(&neighbour.name).await;
    cx.store.renew_as(&held.name, &held.holder, LONG * 2).await.is(RENEWED);
    same_row(&cx.row(&neighbour.name).await, &row);
}

pub(crate) async fn every_renewal_says_that_a_step_down_was_asked(cx: &Context) {
    let held = cx.hold("job").await;
    cx.store.renew(&held).await.is(RENEWED);
    cx.store.resign(&held.name, term(1)).await.ok();
    for _ in 0..2 {
        cx.store.renew(&held).await.is(RenewAnswer::Renewed(Renewed { step_down: true }));
    }
}
