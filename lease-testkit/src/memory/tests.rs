use std::time::Duration;

use lease_core::store::{Claim, ClaimAnswer};
use lease_core::{Holder, Instance, LeaseStore, Slot};

use super::*;
use crate::ManualClock;

const TTL: Duration = Duration::from_secs(15);

fn claim(name: &str) -> Claim {
    Claim {
        name: LeaseName::new(name).unwrap(),
        holder: Holder::mint().unwrap(),
        ttl: TTL,
        instance: Instance::named("test"),
    }
}

async fn is_granted(store: &MemoryStore, claim: &Claim) -> bool {
    matches!(store.claim(claim, TTL).await.unwrap(), ClaimAnswer::Granted(_))
}

#[tokio::test]
async fn a_lease_is_held_to_the_last_millisecond_of_its_ttl_and_free_at_its_end() {
    let clock = ManualClock::new();
    let store = MemoryStore::with_clock(clock.clone());
    assert!(is_granted(&store, &claim("n")).await);
    clock.advance(Duration::from_millis(14_999));
    assert!(!is_granted(&store, &claim("n")).await);
    clock.advance(Duration::from_millis(1));
    assert!(is_granted(&store, &claim("n")).await);
}

#[tokio::test]
async fn the_databases_clock_can_be_stepped_apart_from_the_local_one() {
    let clock = ManualClock::new();
    let store = MemoryStore::with_clock(clock.clone());
    let (claim, local) = (claim("n"), clock.now());
    let before = store.inspect(&claim.name, TTL).await.unwrap().now.as_millis();
    store.step_clock(5_000);
    store.step_clock(-8_000);
    assert_eq!(store.inspect(&claim.name, TTL).await.unwrap().now.as_millis(), before - 3_000);
    assert_eq!(clock.now(), local);
}

#[tokio::test]
async fn without_a_clock_of_the_tests_the_database_keeps_the_systems_time() {
    let before = Slot::new(SystemTime::now()).unwrap().as_millis();
    let now = MemoryStore::new().inspect(&claim("n").name, TTL).await.unwrap().now.as_millis();
    let after = Slot::new(SystemTime::now()).unwrap().as_millis();
    assert!((before..=after).contains(&now), "{now} is not between {before} and {after}");
}

#[tokio::test]
async fn an_edited_row_is_what_the_store_finds_and_keeps_its_name() {
    let (store, claim) = (MemoryStore::new(), claim("n"));
    assert!(is_granted(&store, &claim).await);
    store.edit_row(&claim.name, |row| {
        row.name = LeaseName::new("other").unwrap();
        row.expires_at = DbTime::from_millis(i64::MAX);
    });
    let row = store.inspect(&claim.name, TTL).await.unwrap().row.unwrap();
    assert_eq!((row.name, row.expires_at.as_millis()), (claim.name, i64::MAX));
}

#[tokio::test]
async fn a_ttl_beyond_the_last_expiry_is_refused_and_changes_nothing() {
    let store = MemoryStore::new();
    let (granted, endless) = (claim("n"), Claim { ttl: Duration::MAX, ..claim("m") });
    assert_eq!(store.claim(&endless, TTL).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(store.inspect(&endless.name, TTL).await.unwrap().row, None);
    assert!(is_granted(&store, &granted).await);
    let before = store.inspect(&granted.name, TTL).await.unwrap().row;
    assert!(store.renew(&granted.name, &granted.holder, Duration::MAX, TTL).await.is_err());
    assert_eq!(store.inspect(&granted.name, TTL).await.unwrap().row, before);
}

#[tokio::test]
async fn clones_share_one_table() {
    let (store, claim_of_one) = (MemoryStore::new(), claim("n"));
    assert!(is_granted(&store.clone(), &claim_of_one).await);
    assert!(!is_granted(&store, &claim("n")).await);
    assert_eq!(store.remove_row(&claim_of_one.name).map(|row| row.holder), Some(claim_of_one.holder));
    assert!(is_granted(&store, &claim("n")).await);
}
