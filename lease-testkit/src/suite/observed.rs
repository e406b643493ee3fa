//! Claims of a name whose row is still as it was observed.

use std::time::Duration;

use lease_core::LeaseName;
use lease_core::store::{ConditionalAnswer, DbTime, LeaseRow, Observed, RenewAnswer};

use super::Damage;
use super::context::{Context, LONG, after, claim_of, row_of, slot, term};
use super::same::same_row;

const MOVED: ConditionalAnswer = ConditionalAnswer::Moved;

pub(crate) async fn a_live_lease_unchanged_since_is_taken(cx: &Context) {
    let former = cx.hold("job").await;
    let (claim, seen) = (claim_of(&former.name), cx.row(&former.name).await);
    let before = cx.now().await;
    cx.store.claim_observed(&claim, &seen.observed()).await.is(ConditionalAnswer::Granted(term(2)));
    let row = cx.row(&claim.name).await;
    assert!(before <= row.claimed_at && row.claimed_at <= cx.now().await, "{row:?}");
    same_row(&row, &row_of(&claim, term(2), row.claimed_at));
    cx.store.renew(&former).await.is(RenewAnswer::Lost);
}

pub(crate) async fn an_expired_and_a_released_row_unchanged_since_are_taken(cx: &Context) {
    let (expired, released) = (cx.hold_briefly("expired").await, cx.hold("released").await);
    cx.release(&released).await;
    cx.expire().await;
    for former in [expired, released] {
        let (claim, seen) = (claim_of(&former.name), cx.row(&former.name).await);
        cx.store.claim_observed(&claim, &seen.observed()).await.is(ConditionalAnswer::Granted(term(2)));
    }
}

pub(crate) async fn slots_stay_as_with_a_plain_claim(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let (claim, seen) = (claim_of(&round.name), cx.row(&round.name).await);
    cx.store.claim_observed(&claim, &seen.observed()).await.granted();
    let row = cx.row(&claim.name).await;
    let slots = LeaseRow {
        slot: Some(slot(1)),
        unfinished_slot: Some(slot(1)),
        ..row_of(&claim, term(2), row.claimed_at)
    };
    same_row(&row, &slots);
}

/// Holds the store to answer that the row has moved, and to leave it as it is.
async fn has_moved(cx: &Context, observed: &Observed, name: &LeaseName) {
    let row = cx.find_row(name).await;
    cx.store.claim_observed(&claim_of(name), observed).await.is(MOVED);
    same_row(cx.find_row(name).await.as_ref(), row.as_ref());
}

pub(crate) async fn a_lease_renewed_since_is_left_alone(cx: &Context) {
    let held = cx.hold("job").await;
    let seen = cx.row(&held.name).await.observed();
    cx.store.renew_as(&held.name, &held.holder, LONG * 2).await.ok();
    has_moved(cx, &seen, &held.name).await;
}

pub(crate) async fn a_lease_released_since_is_left_alone(cx: &Context) {
    let held = cx.hold("job").await;
    let seen = cx.row(&held.name).await.observed();
    cx.release(&held).await;
    has_moved(cx, &seen, &held.name).await;
}

pub(crate) async fn a_lease_claimed_since_is_left_alone(cx: &Context) {
    let former = cx.hold("job").await;
    cx.release(&former).await;
    let seen = cx.row(&former.name).await.observed();
    let held = cx.hold_again(&former.name).await;
    has_moved(cx, &seen, &held.name).await;
    // The observer's claim itself is one that others see.
    let seen = cx.row(&held.name).await.observed();
    cx.store.claim_observed(&claim_of(&held.name), &seen).await.granted();
    has_moved(cx, &seen, &held.name).await;
}

pub(crate) async fn the_holder_must_be_the_one_observed(cx: &Context) {
    let held = cx.hold("job").await;
    let row = cx.row(&held.name).await;
    has_moved(cx, &Observed { holder: cx.claim("x").holder, ..row.observed() }, &held.name).await;
    cx.release(&held).await;
    let released = Observed { holder: cx.claim("x").holder, expires_at: DbTime::RELEASED };
    has_moved(cx, &released, &held.name).await;
}

pub(crate) async fn the_expiry_must_be_the_one_observed(cx: &Context) {
    let held = cx.hold("job").await;
    let seen = cx.row(&held.name).await.observed();
    let millisecond = Duration::from_millis(1);
    let earlier = DbTime::from_millis(seen.expires_at.as_millis() - 1);
    for expires_at in [after(seen.expires_at, millisecond), earlier, DbTime::RELEASED] {
        has_moved(cx, &Observed { expires_at, ..seen }, &held.name).await;
    }
}

pub(crate) async fn a_missing_row_has_moved_and_stays_missing(cx: &Context) {
    let held = cx.hold("job").await;
    let seen = cx.row(&held.name).await.observed();
    cx.damage(&held.name, Damage::RowDeleted).await;
    for name in [held.name, cx.name("never")] {
        has_moved(cx, &seen, &name).await;
        has_moved(cx, &Observed { expires_at: DbTime::RELEASED, ..seen }, &name).await;
        assert_eq!(cx.find_row(&name).await, None);
    }
}

pub(crate) async fn only_the_lease_named_is_taken(cx: &Context) {
    let (held, neighbour) = (cx.hold("job").await, cx.hold("job 2").await);
    let row = cx.row(&neighbour.name).await;
    let seen = cx.row(&held.name).await.observed();
    cx.store.claim_observed(&claim_of(&held.name), &seen).await.granted();
    same_row(&cx.row(&neighbour.name).await, &row);
}
