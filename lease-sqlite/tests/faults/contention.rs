//! Other people's transactions, long and many.

use std::collections::HashSet;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use lease_core::store::{ClaimAnswer, Holding, Page, RenewAnswer, SlotAnswer, VerifyAnswer};
use lease_core::{LeaseStore, Slot, Term};
use lease_sqlite::SqliteStore;

use crate::support::{
    JOURNALS, Journal, LONG, SHORT, Sandbox, TTL, granted, is_busy, is_pending, name, new_claim, row_term,
    take,
};

#[tokio::test]
async fn a_renewal_waits_for_a_foreign_transaction_and_goes_through_when_it_ends() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        let held = take(&store, "a").await;
        let other = sandbox.other();
        other.execute_batch("BEGIN IMMEDIATE; INSERT INTO other VALUES (1)").unwrap();
        let mut renewal = Box::pin(store.renew(&held.name, &held.holder, TTL, LONG));
        assert!(is_pending(&mut renewal));
        // Behind the first in line: when this one is given up, that one has long been trying.
        assert!(store.release(&name("b"), &held.holder, SHORT).await.is_err());
        assert!(is_pending(&mut renewal));
        let ended: i64 = other.query_row("SELECT unixepoch('subsec') * 1000 - 1", [], as_ms).unwrap();
        other.execute_batch("COMMIT").unwrap();
        assert!(matches!(renewal.await, Ok(RenewAnswer::Renewed(_))), "{journal:?}");
        // The clock was read after the wait, so the lease is not short by it.
        let row = store.inspect(&held.name, LONG).await.unwrap().row.unwrap();
        assert!(row.renewed_at.as_millis() >= ended, "{journal:?}: {row:?} after {ended}");
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a count of milliseconds fits")]
fn as_ms(row: &rusqlite::Row<'_>) -> rusqlite::Result<i64> {
    row.get::<_, f64>(0).map(|ms| ms as i64)
}

#[tokio::test]
async fn a_write_that_never_gets_the_lock_is_busy_and_changes_nothing() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        let held = take(&store, "a").await;
        let holdings = [Holding { name: held.name.clone(), holder: held.holder }];
        let before = store.inspect(&held.name, LONG).await.unwrap().row;
        let other = sandbox.other();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let began = Instant::now();
        is_busy(|within| store.renew(&held.name, &held.holder, TTL, within)).await;
        is_busy(|within| store.renew_many(&holdings, TTL, within)).await;
        is_busy(|within| store.release(&held.name, &held.holder, within)).await;
        let claim = new_claim("b");
        is_busy(|within| store.claim(&claim, within)).await;
        let slot = Slot::from_millis(1).unwrap();
        let claim = new_claim("c");
        is_busy(|within| store.claim_slot(&claim, slot, within)).await;
        assert!(began.elapsed() < LONG);
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(store.inspect(&held.name, LONG).await.unwrap().row, before);
        assert_eq!(row_term(&store, "b").await, None);
        assert_eq!(row_term(&store, "c").await, None);
        granted(store.claim(&new_claim("b"), LONG).await);
    }
}

#[tokio::test]
async fn refusals_and_reads_do_not_wait_for_a_foreign_transaction() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        let held = take(&store, "a").await;
        let other = sandbox.other();
        other.execute_batch("BEGIN IMMEDIATE; INSERT INTO other VALUES (1)").unwrap();
        store.migrate().await.unwrap();
        // A claim that has to wait keeps the writer's thread, too.
        let waiting = new_claim("b");
        let mut waiting = Box::pin(store.claim(&waiting, LONG));
        assert!(is_pending(&mut waiting));
        assert_eq!(store.claim(&new_claim("a"), LONG).await.unwrap(), ClaimAnswer::Held);
        let slot = Slot::from_millis(1).unwrap();
        assert_eq!(store.claim_slot(&new_claim("a"), slot, LONG).await.unwrap(), SlotAnswer::Held);
        let verified = store.verify(&held.name, &held.holder, LONG).await.unwrap();
        assert_eq!(verified, VerifyAnswer::Held(Term::FIRST));
        assert!(store.inspect(&held.name, LONG).await.unwrap().row.is_some());
        let page = Page { limit: 10, ..Page::default() };
        assert_eq!(store.list(&page, LONG).await.unwrap().rows.len(), 1);
        assert_eq!(store.last_slot(&held.name, LONG).await.unwrap(), None);
        assert!(store.unfinished_slots(std::slice::from_ref(&held.name), LONG).await.unwrap().is_empty());
        other.execute_batch("COMMIT").unwrap();
        granted(waiting.await);
    }
}

/// In this mode a commit waits for readers, so it is the commit that fails, after the row came back.
#[tokio::test]
async fn a_claim_whose_commit_is_refused_is_not_granted() {
    let sandbox = Sandbox::new(Journal::Delete).await;
    let store = sandbox.store().await;
    let other = sandbox.other();
    other.execute_batch("BEGIN; SELECT * FROM other").unwrap();
    let _: i64 = other.query_row("SELECT count(*) FROM leases", [], |row| row.get(0)).unwrap();
    let claim = new_claim("a");
    is_busy(|within| store.claim(&claim, within)).await;
    let slot = Slot::from_millis(1).unwrap();
    let claim = new_claim("a");
    is_busy(|within| store.claim_slot(&claim, slot, within)).await;
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(row_term(&store, "a").await, None);
    assert_eq!(granted(store.claim(&new_claim("a"), LONG).await), Term::FIRST);
}

#[tokio::test]
async fn renewals_and_releases_go_before_a_thousand_claims_that_came_earlier() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    let held = take(&store, "held").await;
    let other = sandbox.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Else the runtime would let only some of so many futures be polled at a time.
    let claims_before = tokio::task::unconstrained(async {
        let claims: Vec<_> = (0..1_000).map(|n| new_claim(&format!("n{n}"))).collect();
        let mut done: FuturesUnordered<_> = claims
            .iter()
            .map(|claim| store.claim(claim, LONG).map(|answer| ("claim", answer.is_ok())).boxed())
            .collect();
        // One turn through the reader's line: every claim has been looked at and stands in the writer's.
        while done.next().now_or_never().is_some() {}
        store.inspect(&held.name, LONG).await.unwrap();
        assert!(done.next().now_or_never().is_none());
        done.push(
            store
                .renew(&held.name, &held.holder, TTL, LONG)
                .map(|answer| ("renewal", answer.is_ok()))
                .boxed(),
        );
        assert!(done.next().now_or_never().is_none());
        other.execute_batch("ROLLBACK").unwrap();
        let mut claims_before = 0;
        while let Some((what, ok)) = done.next().await {
            assert!(ok, "{what} failed");
            if what == "renewal" {
                break;
            }
            claims_before += 1;
        }
        claims_before
    })
    .await;
    // Those that were asking SQLite for the lock just then, together, may have got it.
    assert!(claims_before <= 256, "the renewal came after {claims_before} claims");
}

#[tokio::test]
async fn a_claim_that_waits_for_the_lock_makes_way_for_a_renewal() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    let held = take(&store, "held").await;
    let other = sandbox.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = new_claim("waits");
    let mut waiting = Box::pin(store.claim(&waiting, LONG));
    assert!(is_pending(&mut waiting));
    store.inspect(&held.name, LONG).await.unwrap();
    assert!(is_pending(&mut waiting));
    // Behind the claim in line: when this one is given up, the claim has long been trying.
    assert!(store.resign(&held.name, Term::FIRST, SHORT).await.is_err());
    // Busy, not timed out in line: it was the renewal that asked for the lock.
    is_busy(|within| store.renew(&held.name, &held.holder, TTL, within)).await;
    other.execute_batch("ROLLBACK").unwrap();
    granted(waiting.await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_claims_from_two_stores_and_four_tasks_repeat_no_term() {
    // A commit with a rollback journal costs ten times as much.
    for (journal, each) in [(Journal::Wal, 250), (Journal::Delete, 25)] {
        let sandbox = Sandbox::new(journal).await;
        let stores = [sandbox.store().await, sandbox.store().await];
        let tasks: Vec<_> = (0..4).map(|n| tokio::spawn(claim_often(stores[n % 2].clone(), each))).collect();
        let mut terms = Vec::new();
        for task in tasks {
            terms.extend(task.await.unwrap());
        }
        let distinct: HashSet<i64> = terms.iter().copied().collect();
        assert_eq!((terms.len(), distinct.len()), (4 * each, 4 * each), "{journal:?}");
        assert_eq!(distinct.iter().max().copied(), i64::try_from(4 * each).ok());
    }
}

/// Claims and releases one name until it has held it so often.
async fn claim_often(store: SqliteStore, times: usize) -> Vec<i64> {
    let mut terms = Vec::new();
    while terms.len() < times {
        let claim = new_claim("shared");
        if let ClaimAnswer::Granted(term) = store.claim(&claim, LONG).await.unwrap() {
            terms.push(term.get());
            store.release(&claim.name, &claim.holder, LONG).await.unwrap();
        }
    }
    terms
}
