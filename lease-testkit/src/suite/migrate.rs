//! The table itself: made, made again, and missing.

use std::slice;

use futures_util::future::join_all;
use lease_core::ErrorKind;
use lease_core::store::{ClaimAnswer, DbTime, Observed, Page};

use super::context::{Context, LONG, claim_of, end_of, holding, slot, term, unfinished};
use super::same::same_row;

pub(crate) async fn a_migrated_table_passes_the_check(cx: &Context) {
    cx.store.check().await.ok();
    cx.another().await.check().await.ok();
}

pub(crate) async fn a_store_describes_itself_in_one_line_and_names_a_least_ttl(cx: &Context) {
    let place = cx.store.describe();
    assert!(!place.trim().is_empty() && !place.contains('\n'), "{place:?} does not describe a store");
    let ttl = cx.store.min_ttl();
    assert!(!ttl.is_zero() && ttl <= LONG / 10, "the least ttl is {ttl:?}");
    assert_eq!(ttl.subsec_nanos() % 1_000_000, 0, "ttls are whole milliseconds, the least is {ttl:?}");
}

pub(crate) async fn migrating_again_keeps_every_row(cx: &Context) {
    let (held, round) = (cx.hold("held").await, cx.cut_short("round", slot(1)).await);
    let rows = (cx.row(&held.name).await, cx.row(&round.name).await);
    cx.store.migrate().await.ok();
    cx.another().await.migrate().await.ok();
    assert_eq!((cx.row(&held.name).await, cx.row(&round.name).await), rows);
}

pub(crate) async fn a_check_changes_nothing(cx: &Context) {
    let held = cx.hold("job").await;
    let row = cx.row(&held.name).await;
    cx.store.check().await.ok();
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn eight_that_migrate_at_once_beside_claims_keep_every_row(cx: &Context) {
    let held = cx.hold("held").await;
    let row = cx.row(&held.name).await;
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.extend([cx.store.clone(), cx.another().await]);
    }
    let tasks = stores.into_iter().enumerate().map(|(n, store)| {
        let claim = cx.claim(&format!("job {n}"));
        tokio::spawn(async move {
            store.migrate().await.ok();
            store.claim(&claim).await.is(ClaimAnswer::Granted(term(1)));
        })
    });
    for task in join_all(tasks).await {
        task.expect("a migration among others, or a claim after it, failed");
    }
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn eight_that_make_a_new_table_at_once_make_one(cx: &Context) {
    let [one, two] = cx.without_table().await;
    let tasks = (0..4).flat_map(|_| [one.clone(), two.clone()]).map(|store| {
        tokio::spawn(async move {
            store.migrate().await.ok();
        })
    });
    for task in join_all(tasks).await {
        task.expect("a migration of a new table among others failed");
    }
    one.check().await.ok();
    let claim = cx.claim("job");
    one.claim(&claim).await.is(ClaimAnswer::Granted(term(1)));
    two.claim(&claim_of(&claim.name)).await.is(ClaimAnswer::Held);
}

pub(crate) async fn a_missing_table_fails_the_check_until_it_is_made(cx: &Context) {
    let [one, two] = cx.without_table().await;
    one.check().await.fails_as(ErrorKind::Schema);
    two.check().await.fails_as(ErrorKind::Schema);
    one.migrate().await.ok();
    two.check().await.ok();
    two.claim(&cx.claim("job")).await.is(ClaimAnswer::Granted(term(1)));
}

pub(crate) async fn without_the_table_every_statement_is_an_error_and_none_an_answer(cx: &Context) {
    let [store, _] = cx.without_table().await;
    let claim = cx.claim("job");
    let (name, holder) = (&claim.name, &claim.holder);
    let seen = Observed { holder: *holder, expires_at: DbTime::RELEASED };
    let page = Page { prefix: String::new(), after: None, limit: 10 };
    store.claim(&claim).await.fails_as(ErrorKind::Schema);
    store.renew(&claim).await.fails_as(ErrorKind::Schema);
    store.renew_many(&[holding(&claim)], LONG).await.fails_as(ErrorKind::Schema);
    store.verify(name, holder).await.fails_as(ErrorKind::Schema);
    store.release(name, holder).await.fails_as(ErrorKind::Schema);
    store.claim_observed(&claim, &seen).await.fails_as(ErrorKind::Schema);
    store.inspect(name).await.fails_as(ErrorKind::Schema);
    store.list(&page).await.fails_as(ErrorKind::Schema);
    store.clear(name, &seen).await.fails_as(ErrorKind::Schema);
    store.resign(name, term(1)).await.fails_as(ErrorKind::Schema);
    store.claim_slot(&claim, slot(1)).await.fails_as(ErrorKind::Schema);
    store.finish_slot(&end_of(&claim, slot(1))).await.fails_as(ErrorKind::Schema);
    store.unfinished_slots(slice::from_ref(name)).await.fails_as(ErrorKind::Schema);
    store.claim_rerun(&claim, &unfinished(name, slot(1), 1)).await.fails_as(ErrorKind::Schema);
    store.last_slot(name).await.fails_as(ErrorKind::Schema);
}
