//! Asking a holder to step down.

use lease_core::store::{LeaseRow, RenewAnswer, Renewed, ResignAnswer, VerifyAnswer};

use super::Damage;
use super::context::{Context, slot, term};
use super::process::RENEWED;
use super::same::same_row;

pub(crate) async fn the_holder_of_the_term_learns_of_it_and_keeps_the_lease(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    let row = cx.row(&round.name).await;
    cx.store.resign(&round.name, term(1)).await.is(ResignAnswer::Asked);
    same_row(&cx.row(&round.name).await, &LeaseRow { resign_term: 1, ..row });
    cx.store.verify(&round.name, &round.holder).await.is(VerifyAnswer::Held(term(1)));
    cx.store.renew(&round).await.is(RenewAnswer::Renewed(Renewed { step_down: true }));
}

pub(crate) async fn a_request_can_be_repeated(cx: &Context) {
    let held = cx.hold("job").await;
    for _ in 0..3 {
        cx.store.resign(&held.name, term(1)).await.is(ResignAnswer::Asked);
    }
    cx.another().await.resign(&held.name, term(1)).await.is(ResignAnswer::Asked);
}

pub(crate) async fn another_term_has_moved_and_nothing_changes(cx: &Context) {
    let former = cx.hold("job").await;
    cx.release(&former).await;
    let held = cx.hold_again(&former.name).await;
    let row = cx.row(&held.name).await;
    for other in [1, 3, i64::MAX] {
        cx.store.resign(&held.name, term(other)).await.is(ResignAnswer::Moved);
    }
    same_row(&cx.row(&held.name).await, &row);
    cx.store.renew(&held).await.is(RENEWED);
}

pub(crate) async fn a_request_concerns_no_later_term(cx: &Context) {
    let former = cx.hold("job").await;
    cx.store.resign(&former.name, term(1)).await.is(ResignAnswer::Asked);
    cx.release(&former).await;
    let held = cx.hold_again(&former.name).await;
    cx.store.renew(&held).await.is(RENEWED);
    cx.store.resign(&held.name, term(2)).await.is(ResignAnswer::Asked);
    cx.store.renew(&held).await.is(RenewAnswer::Renewed(Renewed { step_down: true }));
}

pub(crate) async fn a_missing_row_has_moved_and_stays_missing(cx: &Context) {
    let held = cx.hold("job").await;
    cx.damage(&held.name, Damage::RowDeleted).await;
    for name in [held.name, cx.name("never")] {
        cx.store.resign(&name, term(1)).await.is(ResignAnswer::Moved);
        assert_eq!(cx.find_row(&name).await, None);
    }
}

pub(crate) async fn only_the_lease_named_is_asked(cx: &Context) {
    let (held, neighbour) = (cx.hold("job").await, cx.hold("job 2").await);
    cx.store.resign(&held.name, term(1)).await.is(ResignAnswer::Asked);
    cx.store.renew(&neighbour).await.is(RENEWED);
}
