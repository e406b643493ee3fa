//! Futures that are dropped midway.

use std::future::Future;
use std::slice;
use std::time::Duration;

use futures_util::FutureExt;
use lease_core::LeaseName;
use lease_core::store::{ClaimAnswer, ReleaseAnswer, SlotAnswer};

use super::context::{Context, claim_of, holding, slot_at, unfinished};
use super::process::{RENEWED, WITHIN};
use super::start::{Before, Start, Write};
use super::statement::{Statement, shape};

/// Polls a future once and drops it, done or not.
fn drop_after_first_poll(future: impl Future) {
    // Whether it was done already is the store's business.
    let _ = future.now_or_never();
}

pub(crate) async fn a_write_on_a_held_name_takes_place_whole_or_not_at_all(cx: &Context) {
    takes_place_whole_or_not_at_all(cx, Before::Held).await;
}

pub(crate) async fn a_write_on_an_expired_name_takes_place_whole_or_not_at_all(cx: &Context) {
    takes_place_whole_or_not_at_all(cx, Before::Expired).await;
}

pub(crate) async fn a_write_on_a_new_name_takes_place_whole_or_not_at_all(cx: &Context) {
    takes_place_whole_or_not_at_all(cx, Before::New).await;
}

async fn takes_place_whole_or_not_at_all(cx: &Context, before: Before) {
    let store = cx.shared_store();
    let mut starts = Vec::new();
    for write in Write::ALL {
        let start = Start::new(cx, &format!("{write:?}"), before);
        start.make(&*store).await.unwrap_or_else(|error| panic!("a name failed to be made: {error}"));
        starts.push((write, start));
    }
    if before == Before::Expired {
        cx.expire().await;
    }
    for (write, start) in starts {
        let [claim] = start.claims();
        let writes = [(write, &claim)];
        let (before, after) = (start.model(writes, &[]).await.1, start.model(writes, &[0]).await.1);
        let [statement] = start.statements(&*store, writes).await.expect("inspect works");
        drop_after_first_poll(statement.run(&*store));
        // The statement may still be under way: whenever one looks, it is one or the other.
        for _ in 0..5 {
            let found = shape(&*store, start.name()).await.expect("inspect works");
            assert!(
                found == before || found == after,
                "{write:?}, dropped after its first poll, left neither the row before it nor the one after it: {found:?}"
            );
        }
    }
}

pub(crate) async fn a_claim_can_be_undone_by_releasing_its_token(cx: &Context) {
    for n in 0..5 {
        let ghost = cx.claim(&format!("job {n}"));
        let store = cx.shared_store();
        drop_after_first_poll(store.claim(&ghost, WITHIN));
        // It may land at any moment from now on: the token is released until the name has gone to another.
        let held = loop {
            cx.store.release(&ghost.name, &ghost.holder).await.ok();
            let claim = claim_of(&ghost.name);
            if let ClaimAnswer::Granted(term) = cx.store.claim(&claim).await.ok() {
                assert!(term.get() <= 2, "two claims were sent, and the term is {term}");
                break claim;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        cx.store.release(&ghost.name, &ghost.holder).await.is(ReleaseAnswer::Gone);
        cx.store.renew(&held).await.is(RENEWED);
    }
}

pub(crate) async fn a_round_granted_without_anybody_knowing_is_still_to_be_had_once(cx: &Context) {
    for n in 0..5 {
        let ghost = cx.claim(&format!("job {n}"));
        let store = cx.shared_store();
        drop_after_first_poll(store.claim_slot(&ghost, slot_at(1), WITHIN));
        // Whoever comes next has the instant itself, or its rerun when the token has been released: one of the two.
        let term = loop {
            cx.store.release(&ghost.name, &ghost.holder).await.ok();
            match cx.store.claim_slot(&claim_of(&ghost.name), slot_at(1)).await.ok() {
                SlotAnswer::Granted { term, superseded: None } => break term,
                SlotAnswer::Passed => {}
                SlotAnswer::Held => continue,
                answer => panic!("the first instant of a name was answered {answer:?}"),
            }
            cx.store.release(&ghost.name, &ghost.holder).await.is(ReleaseAnswer::Released);
            cx.store.unfinished_slots(slice::from_ref(&ghost.name)).await.is(vec![unfinished(
                &ghost.name,
                slot_at(1),
                1,
            )]);
            let rerun = claim_of(&ghost.name);
            break cx.store.claim_rerun(&rerun, &unfinished(&ghost.name, slot_at(1), 1)).await.granted();
        };
        cx.store.release(&ghost.name, &ghost.holder).await.is(ReleaseAnswer::Gone);
        assert_eq!(cx.row(&ghost.name).await.term, term);
    }
}

pub(crate) async fn statements_in_great_number_leave_the_store_usable(cx: &Context) {
    let store = cx.shared_store();
    let held = cx.hold("held").await;
    let name: LeaseName = cx.name("job");
    for n in 0..200 {
        let statement = match n % 6 {
            0 => Statement::Claim(claim_of(&name)),
            1 => Statement::Verify(holding(&held)),
            2 => Statement::RenewMany(vec![holding(&held)], held.ttl),
            3 => Statement::ClaimSlot(claim_of(&name), slot_at(n + 1)),
            4 => Statement::UnfinishedSlots(vec![name.clone()]),
            _ => Statement::LastSlot(name.clone()),
        };
        drop_after_first_poll(statement.run(&*store));
    }
    cx.store.renew(&held).await.is(RENEWED);
    cx.hold("another").await;
}
