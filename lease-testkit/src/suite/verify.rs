//! Whether a lease is still held.

use lease_core::store::VerifyAnswer;

use super::Damage;
use super::context::{Context, term};
use super::same::same_row;

pub(crate) async fn a_held_lease_is_held_under_its_term(cx: &Context) {
    let former = cx.hold("job").await;
    cx.store.verify(&former.name, &former.holder).await.is(VerifyAnswer::Held(term(1)));
    cx.release(&former).await;
    let held = cx.hold_again(&former.name).await;
    cx.store.verify(&held.name, &held.holder).await.is(VerifyAnswer::Held(term(2)));
    cx.another().await.verify(&held.name, &held.holder).await.is(VerifyAnswer::Held(term(2)));
}

pub(crate) async fn a_lease_of_another_holder_is_lost(cx: &Context) {
    let (held, other) = (cx.hold("job").await, cx.claim("job"));
    cx.store.verify(&held.name, &other.holder).await.is(VerifyAnswer::Lost);
}

pub(crate) async fn an_expired_lease_is_lost(cx: &Context) {
    let held = cx.hold_briefly("job").await;
    cx.expire().await;
    cx.store.verify(&held.name, &held.holder).await.is(VerifyAnswer::Lost);
}

pub(crate) async fn a_released_lease_is_lost_also_after_a_successor_came(cx: &Context) {
    let held = cx.hold("job").await;
    cx.release(&held).await;
    cx.store.verify(&held.name, &held.holder).await.is(VerifyAnswer::Lost);
    cx.hold_again(&held.name).await;
    cx.store.verify(&held.name, &held.holder).await.is(VerifyAnswer::Lost);
}

pub(crate) async fn a_missing_row_is_lost(cx: &Context) {
    let (held, never) = (cx.hold("job").await, cx.claim("never"));
    cx.damage(&held.name, Damage::RowDeleted).await;
    cx.store.verify(&held.name, &held.holder).await.is(VerifyAnswer::Lost);
    cx.store.verify(&never.name, &never.holder).await.is(VerifyAnswer::Lost);
    assert_eq!(cx.find_row(&never.name).await, None);
}

pub(crate) async fn verifying_changes_nothing(cx: &Context) {
    let (held, other) = (cx.hold("job").await, cx.claim("job"));
    let row = cx.row(&held.name).await;
    cx.store.verify(&held.name, &held.holder).await.ok();
    cx.store.verify(&held.name, &other.holder).await.ok();
    same_row(&cx.row(&held.name).await, &row);
}
