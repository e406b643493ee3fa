//! Renewals of many leases at once.

use std::time::Duration;

use futures_util::future::join_all;
use lease_core::Term;
use lease_core::store::{Claim, Holding, LeaseRow, Renewed};

use super::Damage;
use super::context::{Context, LONG, after, claim_of, holding};
use super::same::same_row;

const YES: Option<Renewed> = Some(Renewed { step_down: false });
const NO: Option<Renewed> = None;

pub(crate) async fn an_empty_batch_has_an_empty_answer(cx: &Context) {
    cx.store.renew_many(&[], LONG).await.is(Vec::new());
}

pub(crate) async fn a_batch_of_one_renews_it(cx: &Context) {
    let held = cx.hold("job").await;
    let claimed = cx.row(&held.name).await;
    cx.pass(Duration::from_millis(2)).await;
    cx.store.renew_many(&[holding(&held)], LONG * 2).await.is(vec![YES]);
    let row = cx.row(&held.name).await;
    assert!(row.renewed_at > claimed.renewed_at, "the heartbeat was not recorded: {row:?}");
    let expires_at = after(row.renewed_at, LONG * 2);
    same_row(&row, &LeaseRow { renewed_at: row.renewed_at, expires_at, ..claimed });
}

pub(crate) async fn a_batch_of_a_thousand_renews_each(cx: &Context) {
    let mut claims: Vec<Claim> = (0..1_000).map(|n| cx.claim(&format!("job {n}"))).collect();
    for some in claims.chunks(50) {
        for reply in join_all(some.iter().map(|claim| cx.store.claim(claim))).await {
            reply.granted();
        }
    }
    // Neither the order of the names nor that of the claims.
    claims.rotate_left(377);
    claims.reverse();
    let mut leases: Vec<Holding> = claims.iter().map(holding).collect();
    leases[500].holder = cx.claim("job").holder;
    let mut answers = vec![YES; 1_000];
    answers[500] = NO;
    cx.store.renew_many(&leases, LONG * 2).await.is(answers);
    for (n, claim) in claims.iter().enumerate().filter(|(n, _)| n % 50 == 0) {
        let row = cx.row(&claim.name).await;
        let ttl = if n == 500 { LONG } else { LONG * 2 };
        assert_eq!(row.expires_at, after(row.renewed_at, ttl), "lease {n} of the batch");
    }
}

pub(crate) async fn answers_come_in_the_order_asked_and_only_held_rows_change(cx: &Context) {
    let expired = cx.hold_briefly("b expired").await;
    cx.expire().await;
    let held = [cx.hold("d held").await, cx.hold("a held").await, cx.hold("f held").await];
    let foreign = Claim { holder: cx.claim("x").holder, ..cx.hold("c foreign").await };
    let missing = cx.claim("e missing");
    let released = cx.hold("a released").await;
    cx.release(&released).await;
    let deleted = cx.hold("a deleted").await;
    cx.damage(&deleted.name, Damage::RowDeleted).await;
    let taken = cx.hold("g taken").await;
    cx.release(&taken).await;
    cx.hold_again(&taken.name).await;

    let untouched = [&expired, &foreign, &missing, &released, &deleted, &taken];
    let before = join_all(untouched.map(|claim| cx.find_row(&claim.name))).await;
    let asked = [&missing, &held[0], &expired, &held[1], &foreign, &released, &held[2], &deleted, &taken];
    let leases = asked.map(holding);
    cx.store.renew_many(&leases, LONG * 2).await.is(vec![NO, YES, NO, YES, NO, NO, YES, NO, NO]);
    for claim in &held {
        let row = cx.row(&claim.name).await;
        assert_eq!(
            row.expires_at,
            after(row.renewed_at, LONG * 2),
            "{:?} was said to be renewed",
            claim.name
        );
    }
    let after = join_all(untouched.map(|claim| cx.find_row(&claim.name))).await;
    assert_eq!(after, before, "a lease that was not said to be renewed has changed");
}

pub(crate) async fn a_batch_of_lost_leases_renews_none(cx: &Context) {
    let held = cx.hold("job").await;
    let row = cx.row(&held.name).await;
    let foreign = ["job", "job", "none"].map(|end| holding(&cx.claim(end)));
    cx.store.renew_many(&foreign, LONG * 2).await.is(vec![NO; 3]);
    same_row(&cx.row(&held.name).await, &row);
}

pub(crate) async fn a_name_twice_in_a_batch_is_answered_by_its_holder(cx: &Context) {
    let (one, two) = (cx.hold("one").await, cx.hold("two").await);
    let (not_one, not_two) = (claim_of(&one.name), claim_of(&two.name));
    let leases = [&one, &not_one, &not_two, &two].map(holding);
    cx.store.renew_many(&leases, LONG).await.is(vec![YES, NO, NO, YES]);
    // The very same lease twice: each entry has its answer, and the lease is renewed.
    let leases = [&one, &two, &one].map(holding);
    cx.store.renew_many(&leases, LONG * 2).await.is(vec![YES; 3]);
    let row = cx.row(&one.name).await;
    assert_eq!(row.expires_at, after(row.renewed_at, LONG * 2));
}

pub(crate) async fn holders_swapped_between_two_names_renew_neither(cx: &Context) {
    let (one, two) = (cx.hold("one").await, cx.hold("two").await);
    let rows = (cx.row(&one.name).await, cx.row(&two.name).await);
    let swapped = [
        Holding { name: one.name.clone(), holder: two.holder },
        Holding { name: two.name.clone(), holder: one.holder },
    ];
    cx.store.renew_many(&swapped, LONG * 2).await.is(vec![NO; 2]);
    assert_eq!((cx.row(&one.name).await, cx.row(&two.name).await), rows);
}

pub(crate) async fn batches_within_one_millisecond_are_not_lost(cx: &Context) {
    let leases = [cx.hold("one").await, cx.hold("two").await].map(|claim| holding(&claim));
    for _ in 0..50 {
        cx.store.renew_many(&leases, LONG).await.is(vec![YES; 2]);
    }
}

pub(crate) async fn a_step_down_is_told_for_the_lease_it_was_asked_of(cx: &Context) {
    let held = [cx.hold("b").await, cx.hold("c").await, cx.hold("a").await];
    cx.store.resign(&held[1].name, Term::FIRST).await.ok();
    let asked = Some(Renewed { step_down: true });
    cx.store.renew_many(&held.each_ref().map(holding), LONG).await.is(vec![YES, asked, YES]);
}

pub(crate) async fn only_the_leases_named_are_renewed(cx: &Context) {
    let (held, neighbour) = (cx.hold("job").await, cx.hold("job 2").await);
    let row = cx.row(&neighbour.name).await;
    cx.store.renew_many(&[holding(&held)], LONG * 2).await.is(vec![YES]);
    same_row(&cx.row(&neighbour.name).await, &row);
}
