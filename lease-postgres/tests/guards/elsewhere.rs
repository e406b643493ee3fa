//! Transactions on another database than the lease's.

use std::time::Duration;

use futures_util::FutureExt;
use lease_core::store::{ClaimAnswer, VerifyAnswer};
use lease_core::{GuardError, LeaseStore};
use lease_testkit::Direction;

use crate::common::Sql;
use crate::support::{LONG, Scene, is_lost, leaves_running, proxied};

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
async fn a_transaction_elsewhere_costs_one_round_trip_more_at_its_commit() {
    let Two { leases, other } = two().await;
    let held = leases.hold("a").await;
    let (proxy, url) = proxied(&other.url);
    let client = other.client_at(&url).await;
    proxy.reset();
    let guard = leases.store.guard(&held.tenure).on_another_database();
    let tx = guard.begin(client).await.unwrap();
    tx.batch_execute(&other.insert(1)).await.unwrap();
    let client = tx.commit().await.unwrap();
    assert_eq!(proxy.trips(), 4);
    guard.begin(client).await.unwrap().rollback().await.unwrap();
    assert_eq!((proxy.trips(), other.rows().await.len()), (6, 1));
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

/// The server of the program's rows answers in turn.
#[tokio::test]
async fn a_commit_elsewhere_behind_a_statement_that_still_runs_looks_at_the_lease_after_that() {
    let Two { leases, other } = two().await;
    let held = leases.hold("a").await;
    let tx =
        leases.store.guard(&held.tenure).on_another_database().begin(other.client().await).await.unwrap();
    tx.execute(&other.insert(1), &[]).await.unwrap();
    let lock = Sql::connect(&other.url).await;
    lock.run("SELECT pg_advisory_lock(1)").await;
    let mut waiting = Box::pin(tx.batch_execute("SELECT pg_advisory_xact_lock(1)"));
    assert!((&mut waiting).now_or_never().is_none());
    drop(waiting);
    let committing = tokio::spawn(tx.commit());
    // Long enough for a look at the lease that came too early.
    for _ in 0..5 {
        tokio::task::yield_now().await;
        let looked = leases.store.verify(held.tenure.name(), &held.tenure.holder(), LONG).await;
        assert!(matches!(looked, Ok(VerifyAnswer::Held(_))), "{looked:?}");
    }
    leases.expire("a").await;
    leases.succeed("a").await;
    lock.run("SELECT pg_advisory_unlock(1)").await;
    is_lost(committing.await.unwrap());
    other.no_session_is_left().await;
    assert_eq!(other.rows().await, [0; 0]);
}

#[tokio::test]
async fn a_lease_lost_before_the_commit_is_sent_elsewhere_is_lost_and_nothing_is_committed() {
    let Two { leases, other } = two().await;
    let held = leases.hold("a").await;
    let guard = leases.store.guard(&held.tenure).on_another_database();
    let tx = leaves_running(&guard, other.client().await, &other).await;
    let committing = tokio::spawn(tx.commit());
    drop(held.lease);
    is_lost(tokio::time::timeout(LONG, committing).await.unwrap().unwrap());
    // What runs there would run to its end, or to a bound.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name =";
    other.run(&format!("{end} '{}'", other.program)).await;
    other.no_session_is_left().await;
    assert_eq!(other.rows().await, [0; 0]);
}

/// It may still be on its way, and no lock keeps a successor off.
#[tokio::test]
async fn the_name_is_not_given_back_while_a_commit_elsewhere_has_no_answer() {
    let Two { leases, other } = two().await;
    let held = leases.hold("a").await;
    let (proxy, url) = proxied(&other.url);
    let guard = leases.store.guard(&held.tenure).on_another_database();
    let client = guard.begin(other.client_at(&url).await).await.unwrap().commit().await.unwrap();
    let tx = guard.begin(client).await.unwrap();
    proxy.cut_before(2, Direction::ToServer);
    let answer = tx.commit().await;
    assert!(matches!(answer, Err(GuardError::Unknown(_))), "{answer:?}");
    drop((guard, held.tenure));
    let released = tokio::time::timeout(Duration::from_secs(1), held.lease.release()).await;
    assert!(released.is_err(), "{released:?}");
    assert_eq!(leases.claim("a").await, ClaimAnswer::Held);
}

#[tokio::test]
async fn the_name_is_given_back_at_once_after_a_commit_elsewhere() {
    let Two { leases, other } = two().await;
    let held = leases.hold("a").await;
    let guard = leases.store.guard(&held.tenure).on_another_database();
    guard.begin(other.client().await).await.unwrap().commit().await.unwrap();
    drop((guard, held.tenure));
    tokio::time::timeout(LONG, held.lease.release()).await.unwrap().unwrap();
    leases.succeed("a").await;
}
