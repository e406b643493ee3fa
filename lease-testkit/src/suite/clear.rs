//! Freeing a name whose row is still as it was observed.

use std::time::Duration;

use lease_core::LeaseName;
use lease_core::store::{ClaimAnswer, ClearAnswer, DbTime, LeaseRow, Observed, RenewAnswer};

use super::Damage;
use super::context::{Context, LONG, after, claim_of, slot, term};
use super::same::same_row;

pub(crate) async fn a_live_lease_unchanged_since_is_freed_and_nothing_else_changes(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let row = cx.row(&round.name).await;
    cx.store.clear(&round.name, &row.observed()).await.is(ClearAnswer::Cleared);
    same_row(&cx.row(&round.name).await, &LeaseRow { expires_at: DbTime::RELEASED, ..row });
    cx.store.renew(&round).await.is(RenewAnswer::Lost);
    cx.store.claim(&claim_of(&round.name)).await.is(ClaimAnswer::Granted(term(2)));
}

pub(crate) async fn an_expired_lease_unchanged_since_is_freed(cx: &Context) {
    let held = cx.hold_briefly("job").await;
    cx.expire().await;
    let row = cx.row(&held.name).await;
    cx.store.clear(&held.name, &row.observed()).await.is(ClearAnswer::Cleared);
    same_row(&cx.row(&held.name).await, &LeaseRow { expires_at: DbTime::RELEASED, ..row });
}

pub(crate) async fn a_free_row_observed_as_free_is_cleared_again(cx: &Context) {
    let held = cx.hold("job").await;
    cx.release(&held).await;
    let row = cx.row(&held.name).await;
    cx.store.clear(&held.name, &row.observed()).await.is(ClearAnswer::Cleared);
    same_row(&cx.row(&held.name).await, &row);
}

/// Holds the store to answer that the row has moved, and to leave it as it is.
async fn has_moved(cx: &Context, observed: &Observed, name: &LeaseName) {
    let row = cx.find_row(name).await;
    cx.store.clear(name, observed).await.is(ClearAnswer::Moved);
    same_row(cx.find_row(name).await.as_ref(), row.as_ref());
}

pub(crate) async fn a_lease_renewed_since_is_left_alone(cx: &Context) {
    let held = cx.hold("job").await;
    let seen = cx.row(&held.name).await.observed();
    cx.store.renew_as(&held.name, &held.holder, LONG * 2).await.ok();
    has_moved(cx, &seen, &held.name).await;
}

pub(crate) async fn a_lease_released_or_cleared_since_is_left_alone(cx: &Context) {
    let (released, cleared) = (cx.hold("released").await, cx.hold("cleared").await);
    let seen = (cx.row(&released.name).await.observed(), cx.row(&cleared.name).await.observed());
    cx.release(&released).await;
    cx.store.clear(&cleared.name, &seen.1).await.is(ClearAnswer::Cleared);
    has_moved(cx, &seen.0, &released.name).await;
    has_moved(cx, &seen.1, &cleared.name).await;
}

pub(crate) async fn a_lease_claimed_since_is_left_alone(cx: &Context) {
    let former = cx.hold("job").await;
    let live = cx.row(&former.name).await.observed();
    cx.release(&former).await;
    let free = cx.row(&former.name).await.observed();
    let held = cx.hold_again(&former.name).await;
    has_moved(cx, &live, &held.name).await;
    has_moved(cx, &free, &held.name).await;
}

pub(crate) async fn the_holder_must_be_the_one_observed(cx: &Context) {
    let held = cx.hold("job").await;
    let seen = cx.row(&held.name).await.observed();
    has_moved(cx, &Observed { holder: cx.claim("x").holder, ..seen }, &held.name).await;
}

pub(crate) async fn the_expiry_must_be_the_one_observed(cx: &Context) {
    let held = cx.hold("job").await;
    let seen = cx.row(&held.name).await.observed();
    let earlier = DbTime::from_millis(seen.expires_at.as_millis() - 1);
    for expires_at in [after(seen.expires_at, Duration::from_millis(1)), earlier, DbTime::RELEASED] {
        has_moved(cx, &Observed { expires_at, ..seen }, &held.name).await;
    }
}

pub(crate) async fn a_missing_row_has_moved_and_stays_missing(cx: &Context) {
    let held = cx.hold("job").await;
    let seen = cx.row(&held.name).await.observed();
    cx.damage(&held.name, Damage::RowDeleted).await;
    for name in [held.name, cx.name("never")] {
        has_moved(cx, &seen, &name).await;
        assert_eq!(cx.find_row(&name).await, None);
    }
}

pub(crate) async fn only_the_lease_named_is_freed(cx: &Context) {
    let (held, neighbour) = (cx.hold("job").await, cx.hold("job 2").await);
    let row = cx.row(&neighbour.name).await;
    cx.store.clear(&held.name, &cx.row(&held.name).await.observed()).await.ok();
    same_row(&cx.row(&neighbour.name).await, &row);
}
