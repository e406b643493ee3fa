//! Statements of the program's that end the transaction, and those that do not.

use lease_core::GuardError;
use lease_core::store::ClaimAnswer;
use test_servers::{Product, Server, Setup};
use tokio_postgres::Client;

use lease_postgres::Guarded;

use crate::support::{Holding, Scene};

async fn begin(scene: &Scene) -> (Holding, Guarded<Client>) {
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    (held, tx)
}

#[track_caller]
fn is_ended<T: std::fmt::Debug>(answer: Result<T, GuardError>) {
    match answer {
        Err(GuardError::Ended(_)) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_transaction_that_the_program_has_ended_is_told_as_ended() {
    for (end, expected) in [
        ("COMMIT", vec![1]),
        ("ROLLBACK", vec![]),
        ("COMMIT; BEGIN", vec![1]),
        ("COMMIT AND CHAIN", vec![1]),
        ("ROLLBACK AND CHAIN", vec![]),
        ("COMMIT; BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT pg_current_xact_id()", vec![1]),
    ] {
        let scene = Scene::new().await;
        let (_held, tx) = begin(&scene).await;
        tx.batch_execute(end).await.unwrap();
        is_ended(tx.commit().await);
        scene.no_session_is_left().await;
        assert_eq!(scene.rows().await, expected, "{end}");
    }
}

#[tokio::test]
async fn what_the_program_writes_in_a_second_transaction_of_its_own_is_not_committed() {
    let scene = Scene::new().await;
    let (_held, tx) = begin(&scene).await;
    tx.batch_execute(&format!("COMMIT; BEGIN; {}", scene.insert(2))).await.unwrap();
    is_ended(tx.commit().await);
    scene.no_session_is_left().await;
    assert_eq!(scene.rows().await, [1]);
}

/// The commit fails for another reason, and all would be taken for rolled back.
#[tokio::test]
async fn a_second_transaction_that_has_failed_is_told_as_ended_too() {
    let scene = Scene::new().await;
    let (_held, tx) = begin(&scene).await;
    tx.batch_execute("COMMIT; BEGIN").await.unwrap();
    tx.batch_execute("SELECT 1 / 0").await.unwrap_err();
    is_ended(tx.commit().await);
    assert_eq!(scene.rows().await, [1]);
}

#[tokio::test]
async fn a_rollback_tells_of_a_commit_that_came_before_it() {
    let scene = Scene::new().await;
    let (_held, tx) = begin(&scene).await;
    tx.batch_execute("COMMIT").await.unwrap();
    is_ended(tx.rollback().await);
}

#[tokio::test]
async fn savepoints_lose_neither_the_lock_nor_the_transaction() {
    for statements in [
        "SAVEPOINT s; ROLLBACK TO s",
        "SAVEPOINT s; RELEASE s",
        // The lock is made stronger and given back.
        "SAVEPOINT s; SELECT 1 FROM leases FOR UPDATE; ROLLBACK TO s",
        "SAVEPOINT s; UPDATE leases SET address = 'x'; ROLLBACK TO s",
        "SAVEPOINT s; SELECT 1 FROM leases FOR KEY SHARE; RELEASE s; SAVEPOINT s; ROLLBACK TO s",
        "RESET ALL",
    ] {
        let scene = Scene::new().await;
        let (_held, tx) = begin(&scene).await;
        tx.batch_execute(&statements.replace("leases", &scene.table)).await.unwrap();
        scene.expire("a").await;
        assert_eq!(scene.claim("a").await, ClaimAnswer::Held, "{statements}");
        tx.commit().await.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
        assert_eq!(scene.rows().await, [1]);
        assert!(matches!(scene.claim("a").await, ClaimAnswer::Granted(_)));
    }
}

/// Its lock lasts until somebody commits or undoes it, so it does not commit after a claim either.
#[tokio::test]
async fn a_prepared_transaction_is_told_as_ended_and_keeps_claims_off() {
    let setup = ["-c", "max_prepared_transactions=5"].map(str::to_owned).to_vec();
    let server = Server::start(Product::Postgres, Setup { arguments: setup, ..Setup::default() });
    let scene = Scene::on(&server.url()).await;
    let (_held, tx) = begin(&scene).await;
    tx.batch_execute("PREPARE TRANSACTION 'p'").await.unwrap();
    is_ended(tx.commit().await);
    scene.expire("a").await;
    assert_eq!(scene.claim("a").await, ClaimAnswer::Held);
    scene.run("COMMIT PREPARED 'p'").await;
    assert!(matches!(scene.claim("a").await, ClaimAnswer::Granted(_)));
    assert_eq!(scene.rows().await, [1]);
}
