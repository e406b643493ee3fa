//! Giving a lease back.

use lease_core::store::{ClaimAnswer, DbTime, LeaseRow, ReleaseAnswer};

use super::Damage;
use super::context::{Context, claim_of, slot, term};
use super::same::same_row;

pub(crate) async fn a_release_frees_the_name_and_changes_nothing_else(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let row = cx.row(&round.name).await;
    cx.store.release(&round.name, &round.holder).await.is(ReleaseAnswer::Released);
    same_row(&cx.row(&round.name).await, &LeaseRow { expires_at: DbTime::RELEASED, ..row });
    cx.store.claim(&claim_of(&round.name)).await.is(ClaimAnswer::Granted(term(2)));
}

pub(crate) async fn a_release_can_be_repeated(cx: &Context) {
    let held = cx.hold("job").await;
    for _ in 0..3 {
        cx.store.release(&held.name, &held.holder).await.is(ReleaseAnswer::Released);
    }
    cx.another().await.release(&held.name, &held.holder).await.is(ReleaseAnswer::Released);
}

pub(crate) async fn an_expired_lease_can_be_released(cx: &Context) {
    let held = cx.hold_briefly("job").await;
    cx.expire().await;
    cx.store.release(&held.name, &held.holder).await.is(ReleaseAnswer::Released);
    assert_eq!(cx.row(&held.name).await.expires_at, DbTime::RELEASED);
}

pub(crate) async fn another_holders_lease_is_never_released(cx: &Context) {
    let (held, other) = (cx.hold("job").await, cx.claim("job"));
    let row = cx.row(&held.name).await;
    cx.store.release(&held.name, &other.holder).await.is(ReleaseAnswer::Gone);
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn a_successors_lease_is_never_released(cx: &Context) {
    let former = cx.hold("job").await;
    cx.release(&former).await;
    let held = cx.hold_again(&former.name).await;
    let row = cx.row(&held.name).await;
    cx.store.release(&former.name, &former.holder).await.is(ReleaseAnswer::Gone);
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn a_missing_row_is_gone_and_stays_missing(cx: &Context) {
    let (held, never) = (cx.hold("job").await, cx.claim("never"));
    cx.damage(&held.name, Damage::RowDeleted).await;
    for claim in [held, never] {
        cx.store.release(&claim.name, &claim.holder).await.is(ReleaseAnswer::Gone);
        assert_eq!(cx.find_row(&claim.name).await, None);
    }
}

pub(crate) async fn only_the_lease_named_is_released(cx: &Context) {
    let (held, neighbour) = (cx.hold("job").await, cx.hold("job 2").await);
    let row = cx.row(&neighbour.name).await;
    cx.release(&held).await;
    same_row(&cx.row(&neighbour.name).await, &row);
}
