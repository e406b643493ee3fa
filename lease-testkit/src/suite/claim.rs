//! Claims of names that are free or held.

use std::time::Duration;

use lease_core::store::{Claim, ClaimAnswer, RenewAnswer, VerifyAnswer};
use lease_core::{ErrorKind, Instance, TTL_MAX};

use super::Damage;
use super::context::{Context, LONG, claim_of, row_of, slot, slot_at, term, unfinished};
use super::process::RENEWED;
use super::same::same_row;

pub(crate) async fn a_new_name_is_granted_under_term_1(cx: &Context) {
    let claim = cx.claim("job");
    assert_eq!(cx.find_row(&claim.name).await, None);
    cx.store.claim(&claim).await.is(ClaimAnswer::Granted(term(1)));
}

pub(crate) async fn a_grant_writes_every_column_by_the_databases_clock(cx: &Context) {
    let claim = cx.claim("job");
    let before = cx.now().await;
    cx.store.claim(&claim).await.granted();
    let after = cx.now().await;
    let row = cx.row(&claim.name).await;
    assert!(
        before <= row.claimed_at && row.claimed_at <= after,
        "claimed at {:?}, though the claim ran between {before:?} and {after:?}",
        row.claimed_at
    );
    same_row(&row, &row_of(&claim, term(1), row.claimed_at));
}

pub(crate) async fn a_held_name_is_refused_and_its_row_stays(cx: &Context) {
    let held = cx.hold("job").await;
    let row = cx.row(&held.name).await;
    cx.store.claim(&claim_of(&held.name)).await.is(ClaimAnswer::Held);
    cx.another().await.claim(&claim_of(&held.name)).await.is(ClaimAnswer::Held);
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn a_refused_claim_holds_nothing(cx: &Context) {
    let (held, refused) = (cx.hold("job").await, cx.claim("job"));
    cx.store.claim(&refused).await.is(ClaimAnswer::Held);
    cx.store.renew(&refused).await.is(RenewAnswer::Lost);
    cx.store.renew(&held).await.is(RENEWED);
}

pub(crate) async fn the_term_rises_by_one_after_a_release(cx: &Context) {
    let mut held = cx.hold("job").await;
    for n in 2..=5 {
        cx.release(&held).await;
        held = claim_of(&held.name);
        cx.store.claim(&held).await.is(ClaimAnswer::Granted(term(n)));
    }
}

pub(crate) async fn the_term_rises_by_one_after_a_clear(cx: &Context) {
    let held = cx.hold("job").await;
    cx.store.clear(&held.name, &cx.row(&held.name).await.observed()).await.ok();
    cx.store.claim(&claim_of(&held.name)).await.is(ClaimAnswer::Granted(term(2)));
}

pub(crate) async fn the_term_rises_by_one_after_an_expiry(cx: &Context) {
    let held = cx.hold_briefly("job").await;
    cx.expire().await;
    cx.store.claim(&claim_of(&held.name)).await.is(ClaimAnswer::Granted(term(2)));
}

pub(crate) async fn the_term_rises_only_with_grants(cx: &Context) {
    let held = cx.hold("job").await;
    cx.store.claim(&claim_of(&held.name)).await.is(ClaimAnswer::Held);
    cx.store.renew(&held).await.is(RENEWED);
    cx.release(&held).await;
    cx.store.claim(&claim_of(&held.name)).await.is(ClaimAnswer::Granted(term(2)));
}

pub(crate) async fn the_term_of_the_answer_is_the_one_in_the_row(cx: &Context) {
    let first = cx.hold("job").await;
    cx.release(&first).await;
    let claim = claim_of(&first.name);
    let granted = cx.store.claim(&claim).await.granted();
    cx.store.verify(&claim.name, &claim.holder).await.is(VerifyAnswer::Held(granted));
    assert_eq!(cx.row(&claim.name).await.term, granted);
}

pub(crate) async fn a_grant_replaces_all_of_the_former_holders_columns(cx: &Context) {
    let former = cx.hold("job").await;
    cx.release(&former).await;
    let claim = Claim { ttl: LONG * 2, instance: Instance::named("b.example:1"), ..claim_of(&former.name) };
    cx.store.claim(&claim).await.granted();
    let row = cx.row(&claim.name).await;
    same_row(&row, &row_of(&claim, term(2), row.claimed_at));
}

pub(crate) async fn a_plain_claim_leaves_the_slots(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let rerun = claim_of(&round.name);
    cx.store.claim_rerun(&rerun, &unfinished(&round.name, slot(1), 1)).await.granted();
    cx.release(&rerun).await;
    let before = cx.row(&round.name).await;
    cx.hold_again(&round.name).await;
    let row = cx.row(&round.name).await;
    assert_eq!(
        (row.slot, row.unfinished_slot, row.rerun_slot),
        (before.slot, before.unfinished_slot, before.rerun_slot)
    );
    assert_eq!(
        (row.slot, row.unfinished_slot, row.rerun_slot),
        (Some(slot(1)), Some(slot(1)), Some(slot(1)))
    );
}

pub(crate) async fn identity_texts_of_191_bytes_are_kept_whole(cx: &Context) {
    for (tag, text) in [
        ("ascii", "x".repeat(191)),
        ("two bytes", format!("{}x", "ä".repeat(95))),
        ("three bytes", format!("{}xx", "漢".repeat(63))),
        ("four bytes", format!("{}xxx", "🦀".repeat(47))),
        ("hostile", r#"'; DROP TABLE leases; --"\%_${}?:1$1@x`\'"#.to_owned()),
        ("spaces", " both ends ".to_owned()),
        ("empty", String::new()),
    ] {
        let instance = Instance::named(&text).address(&text).version(&text);
        let claim = Claim { instance, ..cx.claim(tag) };
        cx.store.claim(&claim).await.granted();
        let row = cx.row(&claim.name).await;
        assert_eq!([&row.instance, &row.address, &row.version], [&text; 3], "{tag}");
    }
}

pub(crate) async fn a_ttl_is_kept_to_the_millisecond(cx: &Context) {
    for ttl in [cx.brief(), LONG + Duration::from_millis(1), TTL_MAX] {
        let claim = Claim { ttl, ..cx.claim(&format!("{}", ttl.as_millis())) };
        cx.store.claim(&claim).await.granted();
        let row = cx.row(&claim.name).await;
        same_row(&row, &row_of(&claim, term(1), row.claimed_at));
    }
}

pub(crate) async fn a_name_whose_row_was_deleted_is_a_new_name(cx: &Context) {
    let held = cx.hold("job").await;
    cx.damage(&held.name, Damage::RowDeleted).await;
    cx.store.claim(&claim_of(&held.name)).await.is(ClaimAnswer::Granted(term(1)));
}

pub(crate) async fn a_term_at_its_limit_fails_every_claim_and_stays(cx: &Context) {
    let round = cx.cut_short("job", slot_at(1)).await;
    cx.damage(&round.name, Damage::TermAtLimit).await;
    let row = cx.row(&round.name).await;
    assert_eq!(row.term, term(i64::MAX), "the subject's damage() did not set the term");
    let claim = || claim_of(&round.name);
    cx.store.claim(&claim()).await.fails_as(ErrorKind::Damaged);
    cx.store.claim_observed(&claim(), &row.observed()).await.fails_as(ErrorKind::Damaged);
    cx.store.claim_slot(&claim(), slot_at(2)).await.fails_as(ErrorKind::Damaged);
    let rerun = unfinished(&round.name, slot_at(1), i64::MAX);
    cx.store.claim_rerun(&claim(), &rerun).await.fails_as(ErrorKind::Damaged);
    same_row(&cx.row(&round.name).await, &row);
}
