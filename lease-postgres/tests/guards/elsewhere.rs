//! Transactions on another database than the lease's.

use lease_core::store::ClaimAnswer;

use crate::support::{Scene, is_lost, proxied};

/// Two databases: the one has the lease, the other the program's rows.
struct Two {
    leases: Scene,
    other: Scene,
}

async fn two() -> Two {
    let leases = Scene::new().await;
    let name = crate::common::unique("lease_database");
    leases.run(&format!("CREATE DATABASE {name}")).await;
    let (server, _) = leases.url.rsplit_once('/').unwrap();
    let other = Scene::on(&format!("{server}/{name}")).await;
    Two { leases, other }
}

#[tokio::test]
async fn a_transaction_elsewhere_is_verified_before_it_begins_and_before_it_commits() {
    let Two { leases, other } = two().await;
    let held = leases.hold("a").await;
    let guard = leases.store.guard(&held.tenure).on_another_database();
    let tx = guard.begin(other.client().await).await.unwrap();
    tx.execute(&other.insert(1), &[]).await.unwrap();
    tx.commit().await.unwrap();
    let tx = guard.begin(other.client().await).await.unwrap();
    tx.execute(&other.insert(2), &[]).await.unwrap();
    // Nothing keeps a successor off.
    leases.expire("a").await;
    assert!(matches!(leases.claim("a").await, ClaimAnswer::Granted(_)));
    is_lost(tx.commit().await);
    let ran = guard.run(other.client().await, async |_| -> Result<(), ()> { panic!("it ran") }).await;
    assert!(ran.is_err());
    other.no_session_is_left().await;
    assert_eq!(other.rows().await, [1]);
}

#[tokio::test]
async fn a_transaction_elsewhere_costs_no_round_trip_on_its_own_connection() {
    let Two { leases, other } = two().await;
    let held = leases.hold("a").await;
    let (proxy, url) = proxied(&other.url);
    let client = other.client_at(&url).await;
    proxy.reset();
    let guard = leases.store.guard(&held.tenure).on_another_database();
    let tx = guard.begin(client).await.unwrap();
    tx.batch_execute(&other.insert(1)).await.unwrap();
    let client = tx.commit().await.unwrap();
    assert_eq!(proxy.trips(), 3);
    guard.begin(client).await.unwrap().rollback().await.unwrap();
    assert_eq!((proxy.trips(), other.rows().await.len()), (5, 1));
}

/// Which another transaction's number of the lease's server would be.
#[tokio::test]
async fn nobody_is_asked_to_end_a_session_elsewhere() {
    let Two { leases, other } = two().await;
    let held = leases.hold("a").await;
    let (proxy, url) = proxied(&leases.url);
    let store = leases.options().open(&url).unwrap();
    let through =
        crate::support::hold(&store, "b", lease_core::Timings::from_ttl(crate::support::TTL).unwrap());
    let through = through.await;
    let tx = store.guard(&through.tenure).on_another_database().begin(other.client().await).await.unwrap();
    tx.execute(&other.insert(1), &[]).await.unwrap();
    proxy.reset();
    drop(tx);
    other.no_session_is_left().await;
    assert_eq!(proxy.trips(), 0);
    drop(held);
}
