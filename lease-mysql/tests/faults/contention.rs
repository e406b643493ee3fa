//! Other people's transactions.

use std::time::{Duration, Instant};

use lease_core::store::{ClaimAnswer, ConditionalAnswer, RenewAnswer, Renewed, SlotAnswer, UnfinishedSlot};
use lease_core::{ErrorKind, LeaseStore, Slot, Term};
use lease_mysql::mysql_async::prelude::Queryable;
use test_servers::Product;

use crate::support::{LONG, Sandbox, TTL, fails, granted, holding, name, new_claim, on_both, take};

on_both! {
    a_claim_of_a_row_that_another_transaction_has_is_refused_without_waiting
    a_batch_passes_over_a_row_that_another_transaction_has
    a_renewal_gets_the_row_when_the_other_transaction_ends
    a_renewal_that_never_gets_the_row_is_busy_and_changes_nothing
    renewals_of_locked_rows_keep_no_other_from_its_own_row
    a_name_that_another_transaction_is_making_is_refused_without_waiting
    claims_of_many_new_names_at_once_are_all_granted
    ddl_on_the_table_costs_no_renewal
}

const RENEWED: RenewAnswer = RenewAnswer::Renewed(Renewed { step_down: false });

async fn a_claim_of_a_row_that_another_transaction_has_is_refused_without_waiting(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let slot = Slot::from_millis(60_000).unwrap();
    let round = new_claim("a");
    store.claim_slot(&round, slot, LONG).await.unwrap();
    store.release(&round.name, &round.holder, LONG).await.unwrap();
    let seen = store.inspect(&round.name, LONG).await.unwrap().row.unwrap().observed();
    let unfinished = UnfinishedSlot { name: round.name.clone(), slot, term: Term::FIRST };
    for lock in [
        "UPDATE leases SET address = 'x' WHERE name = 'a'",
        "SELECT * FROM leases WHERE name = 'a' FOR UPDATE",
        "SELECT * FROM leases WHERE name = 'a' LOCK IN SHARE MODE",
    ] {
        let mut other = sandbox.other().await;
        other.query_drop("START TRANSACTION").await.unwrap();
        other.query_drop(lock).await.unwrap();
        // Whoever waited for the row would wait until the time is up.
        let claim = new_claim("a");
        assert_eq!(store.claim(&claim, LONG).await.unwrap(), ClaimAnswer::Held, "{lock}");
        let later = Slot::from_millis(120_000).unwrap();
        assert_eq!(store.claim_slot(&claim, later, LONG).await.unwrap(), SlotAnswer::Held, "{lock}");
        let observed = store.claim_observed(&claim, &seen, LONG).await.unwrap();
        assert_eq!(observed, ConditionalAnswer::Moved, "{lock}");
        let rerun = store.claim_rerun(&claim, &unfinished, LONG).await.unwrap();
        assert_eq!(rerun, ConditionalAnswer::Moved, "{lock}");
        other.query_drop("ROLLBACK").await.unwrap();
    }
    assert_eq!(granted(store.claim(&new_claim("a"), LONG).await).get(), 2);
}

async fn a_batch_passes_over_a_row_that_another_transaction_has(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let mut leases = Vec::new();
    for n in 0..5 {
        leases.push(holding(&take(&store, &format!("n{n}")).await));
    }
    let mut other = sandbox.other().await;
    other.query_drop("START TRANSACTION").await.unwrap();
    other.query_drop("UPDATE leases SET address = 'x' WHERE name = 'n1'").await.unwrap();
    other.query_drop("SELECT * FROM leases WHERE name = 'n3' LOCK IN SHARE MODE").await.unwrap();
    let answers = store.renew_many(&leases, TTL, LONG).await.unwrap();
    let renewed: Vec<bool> = answers.iter().map(Option::is_some).collect();
    assert_eq!(renewed, [true, false, true, false, true]);
    other.query_drop("COMMIT").await.unwrap();
    let answers = store.renew_many(&leases, TTL, LONG).await.unwrap();
    assert!(answers.iter().all(Option::is_some), "{answers:?}");
}

async fn a_renewal_gets_the_row_when_the_other_transaction_ends(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    let mut other = sandbox.other().await;
    other.query_drop("START TRANSACTION").await.unwrap();
    other.query_drop("SELECT * FROM leases WHERE name = 'a' FOR UPDATE").await.unwrap();
    let renewal = tokio::spawn(async move { store.renew(&held.name, &held.holder, TTL, LONG).await });
    // However long, the renewal must come through.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(!renewal.is_finished());
    other.query_drop("COMMIT").await.unwrap();
    assert_eq!(renewal.await.unwrap().unwrap(), RENEWED);
}

async fn a_renewal_that_never_gets_the_row_is_busy_and_changes_nothing(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    let before = store.inspect(&held.name, LONG).await.unwrap().row;
    let mut other = sandbox.other().await;
    other.query_drop("START TRANSACTION").await.unwrap();
    other.query_drop("SELECT * FROM leases WHERE name = 'a' FOR UPDATE").await.unwrap();
    fails(ErrorKind::Busy, |within| store.renew(&held.name, &held.holder, TTL, within)).await;
    fails(ErrorKind::Busy, |within| store.release(&held.name, &held.holder, within)).await;
    other.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(store.inspect(&held.name, LONG).await.unwrap().row, before);
    assert_eq!(store.renew(&held.name, &held.holder, TTL, LONG).await.unwrap(), RENEWED);
}

async fn renewals_of_locked_rows_keep_no_other_from_its_own_row(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let free = take(&store, "a").await;
    let mut locked = Vec::new();
    for n in 0..40 {
        locked.push(take(&store, &format!("locked {n}")).await);
    }
    let mut other = sandbox.other().await;
    other.query_drop("START TRANSACTION").await.unwrap();
    other.query_drop("UPDATE leases SET address = 'x' WHERE name LIKE 'locked%'").await.unwrap();
    let waiting: Vec<_> = locked
        .into_iter()
        .map(|held| {
            let store = store.clone();
            tokio::spawn(async move { store.renew(&held.name, &held.holder, TTL, LONG).await })
        })
        .collect();
    // Were they to hold their connections while they wait, hardly one of these would have its turn.
    for _ in 0..20 {
        let within = Duration::from_secs(5);
        assert_eq!(store.renew(&free.name, &free.holder, TTL, within).await.unwrap(), RENEWED);
    }
    assert!(waiting.iter().all(|renewal| !renewal.is_finished()));
    other.query_drop("ROLLBACK").await.unwrap();
    for renewal in waiting {
        assert_eq!(renewal.await.unwrap().unwrap(), RENEWED);
    }
}

async fn a_name_that_another_transaction_is_making_is_refused_without_waiting(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let slot = Slot::from_millis(60_000).unwrap();
    let mut other = sandbox.other().await;
    other.query_drop("START TRANSACTION").await.unwrap();
    let make = "INSERT INTO leases (name, holder, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms)
                VALUES ('a', REPEAT('0', 32), 1, 1, 1, 1, 1)";
    other.query_drop(make).await.unwrap();
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(store.claim(&new_claim("a"), LONG).await.unwrap(), ClaimAnswer::Held);
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "each has waited for a second: {:?}", begun.elapsed());
    assert_eq!(store.claim_slot(&new_claim("a"), slot, LONG).await.unwrap(), SlotAnswer::Held);
    other.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(granted(store.claim(&new_claim("a"), LONG).await), Term::FIRST);
}

/// A row that is not there is looked for with a lock: that must lock no gap.
async fn claims_of_many_new_names_at_once_are_all_granted(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let stores: Vec<_> = (0..8).map(|_| sandbox.store()).collect();
    let claims: Vec<_> = (0..64)
        .map(|n| {
            let store = stores[n % stores.len()].clone();
            tokio::spawn(async move { store.claim(&new_claim(&format!("n{n}")), LONG).await })
        })
        .collect();
    for claim in claims {
        assert_eq!(granted(claim.await.unwrap()), Term::FIRST);
    }
}

async fn ddl_on_the_table_costs_no_renewal(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    let mut reader = sandbox.other().await;
    reader.query_drop("START TRANSACTION").await.unwrap();
    reader.query_drop("SELECT * FROM leases").await.unwrap();
    // Waits for the reader, and whoever comes later waits for this.
    let mut ddl = sandbox.other().await;
    let ddl = tokio::spawn(async move { ddl.query_drop("ALTER TABLE leases ADD COLUMN later INT").await });
    let renewal = {
        let (store, held) = (store.clone(), held.clone());
        tokio::spawn(async move { store.renew(&held.name, &held.holder, TTL, LONG).await })
    };
    tokio::time::sleep(Duration::from_millis(1500)).await;
    reader.query_drop("COMMIT").await.unwrap();
    assert_eq!(renewal.await.unwrap().unwrap(), RENEWED);
    ddl.await.unwrap().unwrap();
    assert_eq!(store.renew(&held.name, &held.holder, TTL, LONG).await.unwrap(), RENEWED);
    assert!(store.inspect(&name("a"), LONG).await.unwrap().row.is_some());
}
