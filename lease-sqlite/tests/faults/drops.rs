//! Futures dropped at every point.

use std::future::Future;
use std::pin::pin;

use lease_core::store::{ClaimAnswer, Holding, Page, RenewAnswer, SlotEnd};
use lease_core::{LeaseStore, Slot};
use lease_sqlite::SqliteStore;

use crate::support::{Journal, LONG, Sandbox, TTL, granted, is_pending, name, new_claim, row_term, take};

/// Polls at most so often, letting other threads work between, then drops.
async fn drop_after(polls: usize, future: impl Future) {
    let mut future = pin!(future);
    for _ in 0..polls {
        if !is_pending(&mut future) {
            return;
        }
        std::thread::yield_now();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_claim_dropped_anywhere_takes_place_whole_or_not_at_all() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    let mut term = 0;
    let (mut whole, mut not_at_all) = (0, 0);
    let mut polls = 0;
    // How many polls a claim takes depends on the machine: more and more, until both have been seen.
    while polls < 60 || whole == 0 || not_at_all == 0 {
        polls += 1;
        let dropped = new_claim("a");
        drop_after(polls - 1, store.claim(&dropped, LONG)).await;
        // Only the token of that claim can have it, and it gives it back.
        store.release(&dropped.name, &dropped.holder, LONG).await.unwrap();
        let next = take_after(&store, &dropped.name, &dropped.holder).await;
        match next - term {
            1 => not_at_all += 1,
            2 => whole += 1,
            _ => panic!("term {next} after {term}"),
        }
        term = next;
    }
}

/// Claims the name; a ghost that lands late is released again and again, as `lease-core` does.
async fn take_after(store: &SqliteStore, name: &lease_core::LeaseName, ghost: &lease_core::Holder) -> i64 {
    loop {
        let claim = new_claim(name.as_str());
        if let ClaimAnswer::Granted(term) = store.claim(&claim, LONG).await.unwrap() {
            store.release(name, &claim.holder, LONG).await.unwrap();
            return term.get();
        }
        store.release(name, ghost, LONG).await.unwrap();
    }
}

#[tokio::test]
async fn no_dropped_future_hurts_the_store_or_a_lease() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    let held = take(&store, "held").await;
    let holdings = [Holding { name: held.name.clone(), holder: held.holder }];
    let stranger = new_claim("stranger");
    let slot = Slot::from_millis(1).unwrap();
    let end =
        SlotEnd { name: stranger.name.clone(), holder: stranger.holder, slot, passed: None, lost: false };
    let page = Page { limit: 10, ..Page::default() };
    for polls in 0..40 {
        drop_after(polls, store.renew(&held.name, &held.holder, TTL, LONG)).await;
        drop_after(polls, store.renew_many(&holdings, TTL, LONG)).await;
        drop_after(polls, store.verify(&held.name, &held.holder, LONG)).await;
        drop_after(polls, store.release(&stranger.name, &stranger.holder, LONG)).await;
        drop_after(polls, store.inspect(&held.name, LONG)).await;
        drop_after(polls, store.list(&page, LONG)).await;
        drop_after(polls, store.claim_slot(&stranger, slot, LONG)).await;
        drop_after(polls, store.finish_slot(&end, LONG)).await;
        drop_after(polls, store.last_slot(&held.name, LONG)).await;
        drop_after(polls, store.migrate()).await;
        drop_after(polls, store.check()).await;
        drop_after(polls, SqliteStore::open(sandbox.path())).await;
    }
    assert!(matches!(store.renew(&held.name, &held.holder, TTL, LONG).await, Ok(RenewAnswer::Renewed(_))));
    store.check().await.unwrap();
}

#[tokio::test]
async fn a_claim_dropped_while_it_stands_in_line_is_never_run() {
    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    let other = sandbox.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (first, dropped, last) = (new_claim("first"), new_claim("dropped"), new_claim("last"));
    let mut first = Box::pin(store.claim(&first, LONG));
    let mut line = Box::pin(store.claim(&dropped, LONG));
    let mut last = Box::pin(store.claim(&last, LONG));
    // Each look at the reader lets the claims pass it; then they stand in the writer's line, in order.
    for _ in 0..3 {
        assert!(is_pending(&mut first) && is_pending(&mut line) && is_pending(&mut last));
        store.inspect(&name("first"), LONG).await.unwrap();
    }
    drop(line);
    other.execute_batch("ROLLBACK").unwrap();
    granted(first.await);
    granted(last.await);
    assert_eq!(row_term(&store, "dropped").await, None);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_file_is_closed_when_the_last_clone_is_dropped_and_not_before() {
    use crate::support::{all_closed, open_files};

    let sandbox = Sandbox::new(Journal::Wal).await;
    let store = sandbox.store().await;
    let clone = store.clone();
    drop(store);
    take(&clone, "a").await;
    assert!(open_files(&sandbox) > 0);
    drop(clone);
    all_closed(&sandbox).await;
}

/// A runtime that ends takes its tasks along, wherever they are.
#[test]
fn a_runtime_that_ends_in_the_middle_leaves_a_sound_store() {
    let run = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let runtime = run();
    let sandbox = runtime.block_on(Sandbox::new(Journal::Wal));
    let store = runtime.block_on(sandbox.store());
    let other = sandbox.other();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for n in 0..100 {
        let (store, claim) = (store.clone(), new_claim(&format!("n{n}")));
        runtime.spawn(async move { store.claim(&claim, LONG).await });
    }
    // None of them can have ended.
    drop(runtime);
    other.execute_batch("ROLLBACK").unwrap();
    run().block_on(async {
        granted(store.claim(&new_claim("after"), LONG).await);
    });
}
