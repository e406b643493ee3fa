//! Claims of a name for one instant of a schedule.

use std::slice;
use std::time::Duration;

use lease_core::store::{
    Claim, ClaimAnswer, DbTime, FinishAnswer, LeaseRow, RenewAnswer, SlotAnswer, SlotEnd, Superseded,
};
use lease_core::{LeaseName, Slot, TTL_MAX};

use super::context::{Context, LONG, claim_of, end_of, row_of, slot, slot_at, term, unfinished};
use super::process::RENEWED;
use super::same::same_row;

/// A grant under the `n`th term that gives nothing up.
fn granted(n: i64) -> SlotAnswer {
    SlotAnswer::Granted { term: term(n), superseded: None }
}

/// Holds the store to answer `slot` on `name` with this, and to leave the row as it is.
async fn is_refused(cx: &Context, name: &LeaseName, slot: Slot, expected: SlotAnswer) {
    let row = cx.find_row(name).await;
    cx.store.claim_slot(&claim_of(name), slot).await.is(expected);
    same_row(cx.find_row(name).await.as_ref(), row.as_ref());
}

/// An hour after the database's now.
async fn in_an_hour(cx: &Context) -> Slot {
    slot_at(cx.now().await.as_millis() + 3_600_000)
}

pub(crate) async fn a_new_name_is_granted_and_the_slot_recorded_as_unfinished(cx: &Context) {
    let claim = cx.claim("job");
    let before = cx.now().await;
    cx.store.claim_slot(&claim, slot(1)).await.is(granted(1));
    let row = cx.row(&claim.name).await;
    assert!(before <= row.claimed_at && row.claimed_at <= cx.now().await, "{row:?}");
    let plain = row_of(&claim, term(1), row.claimed_at);
    same_row(&row, &LeaseRow { slot: Some(slot(1)), unfinished_slot: Some(slot(1)), ..plain });
}

pub(crate) async fn a_free_name_is_granted_under_the_next_term(cx: &Context) {
    let former = cx.hold("job").await;
    cx.release(&former).await;
    let claim = claim_of(&former.name);
    cx.store.claim_slot(&claim, slot(1)).await.is(granted(2));
    let row = cx.row(&claim.name).await;
    let plain = row_of(&claim, term(2), row.claimed_at);
    same_row(&row, &LeaseRow { slot: Some(slot(1)), unfinished_slot: Some(slot(1)), ..plain });
}

pub(crate) async fn an_expired_name_is_granted_and_its_cut_short_instant_given_up(cx: &Context) {
    let round = Claim { ttl: cx.brief(), ..cx.claim("job") };
    cx.store.claim_slot(&round, slot(1)).await.is(granted(1));
    cx.expire().await;
    let superseded = Some(Superseded { slot: slot(1), rerun: false });
    cx.store
        .claim_slot(&claim_of(&round.name), slot(2))
        .await
        .is(SlotAnswer::Granted { term: term(2), superseded });
    cx.store.renew(&round).await.is(RenewAnswer::Lost);
}

pub(crate) async fn a_held_name_is_refused_for_a_later_slot(cx: &Context) {
    let (held, round) = (cx.hold("plain").await, cx.round("round", slot(1)).await);
    is_refused(cx, &held.name, slot(1), SlotAnswer::Held).await;
    is_refused(cx, &round.name, slot(2), SlotAnswer::Held).await;
}

pub(crate) async fn an_instant_is_claimed_once_while_its_round_runs_and_ever_after(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    is_refused(cx, &round.name, slot(1), SlotAnswer::Passed).await;
    cx.store.finish_slot(&end_of(&round, slot(1))).await.ok();
    is_refused(cx, &round.name, slot(1), SlotAnswer::Passed).await;
    let plain = cx.hold_again(&round.name).await;
    is_refused(cx, &round.name, slot(1), SlotAnswer::Passed).await;
    cx.release(&plain).await;
    is_refused(cx, &round.name, slot(1), SlotAnswer::Passed).await;
}

pub(crate) async fn an_instant_cut_short_is_not_claimed_again_as_a_slot(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    is_refused(cx, &round.name, slot(1), SlotAnswer::Passed).await;
}

pub(crate) async fn an_instant_before_the_last_is_passed_held_or_free(cx: &Context) {
    let round = cx.round("job", slot(5)).await;
    for earlier in [slot(4), slot_at(slot(5).as_millis() - 1), slot_at(1)] {
        is_refused(cx, &round.name, earlier, SlotAnswer::Passed).await;
    }
    cx.store.finish_slot(&end_of(&round, slot(5))).await.ok();
    for earlier in [slot(4), slot_at(slot(5).as_millis() - 1), slot_at(1)] {
        is_refused(cx, &round.name, earlier, SlotAnswer::Passed).await;
    }
}

pub(crate) async fn instants_a_millisecond_apart_are_two(cx: &Context) {
    for (n, ms) in [(1, 1), (2, 2), (3, slot(1).as_millis()), (4, slot(1).as_millis() + 1)] {
        let claim = cx.claim("job");
        cx.store.claim_slot(&claim, slot_at(ms)).await.is(granted(n));
        cx.store.finish_slot(&end_of(&claim, slot_at(ms))).await.ok();
        cx.store.last_slot(&claim.name).await.is(Some(slot_at(ms)));
    }
}

pub(crate) async fn an_instant_that_has_not_come_is_refused_with_the_wait(cx: &Context) {
    let (name, slot) = (cx.name("job"), in_an_hour(cx).await);
    let at = DbTime::from_millis(slot.as_millis());
    let before = cx.now().await;
    let answer = cx.store.claim_slot(&claim_of(&name), slot).await.ok();
    let after = cx.now().await;
    let SlotAnswer::NotYet(wait) = answer else {
        panic!("a slot an hour ahead of the database's clock was answered with {answer:?}");
    };
    assert!(
        at.since(after) <= wait && wait <= at.since(before),
        "the slot was between {:?} and {:?} away, not {wait:?}",
        at.since(after),
        at.since(before)
    );
    assert_eq!(cx.find_row(&name).await, None);
}

pub(crate) async fn an_instant_in_the_last_millisecond_of_all_is_far_away(cx: &Context) {
    let (name, round) = (cx.name("new"), cx.cut_short("job", slot(1)).await);
    let row = cx.row(&round.name).await;
    for name in [&name, &round.name] {
        let answer = cx.store.claim_slot(&claim_of(name), slot_at(i64::MAX)).await.ok();
        let SlotAnswer::NotYet(wait) = answer else {
            panic!("a slot at the end of time was answered with {answer:?}");
        };
        assert!(wait > TTL_MAX * 1_000, "{wait:?}");
    }
    assert_eq!(cx.find_row(&name).await, None);
    same_row(&cx.row(&round.name).await, &row);
}

pub(crate) async fn an_instant_that_has_not_come_changes_no_row_held_or_free(cx: &Context) {
    let (held, free) = (cx.round("held", slot(1)).await, cx.cut_short("free", slot(1)).await);
    for round in [held, free] {
        let row = cx.row(&round.name).await;
        let answer = cx.store.claim_slot(&claim_of(&round.name), in_an_hour(cx).await).await.ok();
        assert!(matches!(answer, SlotAnswer::NotYet(_)), "not yet comes before held: {answer:?}");
        same_row(&cx.row(&round.name).await, &row);
    }
}

pub(crate) async fn an_instant_is_granted_once_the_databases_clock_reaches_it(cx: &Context) {
    let slot = slot_at(cx.now().await.as_millis() + 20);
    cx.pass(Duration::from_millis(20)).await;
    cx.store.claim_slot(&cx.claim("job"), slot).await.is(granted(1));
}

pub(crate) async fn a_finished_round_is_not_given_up(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    cx.store.finish_slot(&end_of(&round, slot(1))).await.ok();
    cx.store.claim_slot(&claim_of(&round.name), slot(2)).await.is(granted(2));
}

pub(crate) async fn a_round_given_up_after_its_rerun_is_named_as_rerun(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let rerun = claim_of(&round.name);
    cx.store.claim_rerun(&rerun, &unfinished(&round.name, slot(1), 1)).await.granted();
    cx.release(&rerun).await;
    let superseded = Some(Superseded { slot: slot(1), rerun: true });
    let next = claim_of(&round.name);
    cx.store.claim_slot(&next, slot(2)).await.is(SlotAnswer::Granted { term: term(3), superseded });
    // The former rerun says nothing about the new instant.
    cx.release(&next).await;
    let superseded = Some(Superseded { slot: slot(2), rerun: false });
    cx.store
        .claim_slot(&claim_of(&round.name), slot(3))
        .await
        .is(SlotAnswer::Granted { term: term(4), superseded });
}

pub(crate) async fn a_round_whose_lease_a_plain_claim_took_is_given_up_by_the_next_slot(cx: &Context) {
    let round = cx.cut_short("job", slot(1)).await;
    let plain = cx.hold_again(&round.name).await;
    cx.release(&plain).await;
    let superseded = Some(Superseded { slot: slot(1), rerun: false });
    cx.store
        .claim_slot(&claim_of(&round.name), slot(2))
        .await
        .is(SlotAnswer::Granted { term: term(3), superseded });
}

pub(crate) async fn an_instant_skipped_by_the_former_round_is_passed(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    cx.store.finish_slot(&SlotEnd { passed: Some(slot(4)), ..end_of(&round, slot(1)) }).await.ok();
    for skipped in [slot(2), slot(3), slot(4)] {
        is_refused(cx, &round.name, skipped, SlotAnswer::Passed).await;
    }
    cx.store.claim_slot(&claim_of(&round.name), slot(5)).await.is(granted(2));
}

/// A replica whose clock is behind, or that was paused: what kept it out is not the lease, which is long gone.
pub(crate) async fn an_instant_finished_at_once_is_refused_to_who_comes_when_the_ttl_has_passed(
    cx: &Context,
) {
    let round = Claim { ttl: cx.brief(), ..cx.claim("job") };
    cx.store.claim_slot(&round, slot(1)).await.is(granted(1));
    cx.store.finish_slot(&end_of(&round, slot(1))).await.is(FinishAnswer::Finished);
    cx.expire().await;
    let late = cx.another().await;
    for n in [1, 0] {
        late.claim_slot(&claim_of(&round.name), slot(n)).await.is(SlotAnswer::Passed);
    }
    late.unfinished_slots(slice::from_ref(&round.name)).await.is(Vec::new());
    late.claim_slot(&claim_of(&round.name), slot(2)).await.is(granted(2));
}

pub(crate) async fn a_round_is_a_lease_like_any_other(cx: &Context) {
    let round = cx.round("job", slot(1)).await;
    cx.store.claim(&claim_of(&round.name)).await.is(ClaimAnswer::Held);
    cx.store.renew_as(&round.name, &round.holder, LONG * 2).await.is(RENEWED);
    let row = cx.row(&round.name).await;
    assert_eq!((row.slot, row.unfinished_slot), (Some(slot(1)), Some(slot(1))));
}

pub(crate) async fn only_the_name_asked_for_takes_the_slot(cx: &Context) {
    let neighbour = cx.cut_short("job 2", slot(1)).await;
    let row = cx.row(&neighbour.name).await;
    cx.round("job", slot(2)).await;
    same_row(&cx.row(&neighbour.name).await, &row);
}
