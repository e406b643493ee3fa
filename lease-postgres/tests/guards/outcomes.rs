//! How guarded transactions end.

use lease_core::store::ClaimAnswer;
use lease_core::{ErrorKind, GuardError, GuardedError};

use crate::support::{Scene, is_failed, is_lost};

#[tokio::test]
async fn what_is_committed_is_there_and_the_connection_comes_back() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    assert_eq!(tx.tenure().term(), held.lease.term());
    assert_eq!(tx.execute(&scene.insert(1), &[]).await.unwrap(), 1);
    assert_eq!(scene.rows().await, [0; 0]);
    let client = tx.commit().await.unwrap();
    assert_eq!(scene.rows().await, [1]);
    // In a transaction of its own again.
    client.execute(&scene.insert(2), &[]).await.unwrap();
    assert_eq!(scene.rows().await, [1, 2]);
}

#[tokio::test]
async fn what_is_rolled_back_is_not_there_and_the_connection_comes_back() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    let client = tx.rollback().await.unwrap();
    client.execute(&scene.insert(2), &[]).await.unwrap();
    assert_eq!(scene.rows().await, [2]);
}

#[tokio::test]
async fn the_closure_commits_what_it_answers() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let (guard, client) = (scene.store.guard(&held.tenure), scene.client().await);
    let insert = scene.insert(1);
    // On another task, as services do.
    let ran = tokio::spawn(async move { guard.run(client, async |tx| tx.execute(&insert, &[]).await).await });
    assert_eq!(ran.await.unwrap().unwrap(), 1);
    assert_eq!(scene.rows().await, [1]);
}

#[tokio::test]
async fn an_error_of_the_closure_rolls_back_and_comes_back_as_it_is() {
    #[derive(Debug, PartialEq)]
    struct TooLate(&'static str);
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let guard = scene.store.guard(&held.tenure);
    let ran = guard.run(scene.client().await, async |tx| {
        tx.execute(&scene.insert(1), &[]).await.unwrap();
        Err::<(), _>(TooLate("for today"))
    });
    let Err(GuardedError::Work(error)) = ran.await else { panic!("no error of the work's") };
    assert_eq!(error, TooLate("for today"));
    assert_eq!(scene.rows().await, [0; 0]);
}

#[tokio::test]
async fn a_lease_known_to_be_lost_sends_nothing() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let (proxy, url) = crate::support::proxied(&scene.url);
    let client = scene.client_at(&url).await;
    drop(held.lease);
    proxy.reset();
    is_lost(scene.store.guard(&held.tenure).begin(client).await);
    assert_eq!(proxy.trips(), 0);
}

#[tokio::test]
async fn a_lease_that_only_the_database_knows_to_be_lost_runs_no_statement_of_the_programs() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    scene.expire("a").await;
    let guard = scene.store.guard(&held.tenure);
    is_lost(guard.begin(scene.client().await).await);
    let ran = guard.run(scene.client().await, async |_| -> Result<(), ()> { panic!("it ran") }).await;
    assert!(matches!(ran, Err(GuardedError::Guard(GuardError::Lost(_)))), "{ran:?}");
    assert!(matches!(scene.claim("a").await, ClaimAnswer::Granted(_)), "the row is still locked");
    is_lost(guard.begin(scene.client().await).await);
    scene.no_session_is_left().await;
}

#[tokio::test]
async fn a_claim_on_the_row_of_an_open_transaction_is_answered_held_at_once() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    scene.expire("a").await;
    // Had it waited, it would wait until the transaction ends.
    assert_eq!(scene.claim("a").await, ClaimAnswer::Held);
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    tx.commit().await.unwrap();
    scene.succeed("a").await;
    assert_eq!(scene.rows().await, [1]);
}

#[tokio::test]
async fn a_statement_that_failed_and_was_passed_over_fails_the_commit() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    tx.execute("SELECT 1 / 0", &[]).await.unwrap_err();
    // Which PostgreSQL would answer with a rollback and no error.
    let error = is_failed(tx.commit().await, ErrorKind::Other);
    assert!(error.to_string().contains("25P02"), "{error}");
    assert_eq!(scene.rows().await, [0; 0]);
}

#[tokio::test]
async fn what_the_server_refuses_at_the_commit_is_surely_not_committed() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    scene.run(&format!("ALTER TABLE {} ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED", scene.rows)).await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    for _ in 0..2 {
        tx.execute(&scene.insert(1), &[]).await.unwrap();
    }
    let error = is_failed(tx.commit().await, ErrorKind::Other);
    assert!(error.to_string().contains("23505"), "{error}");
    assert_eq!(scene.rows().await, [0; 0]);
}

#[tokio::test]
async fn a_division_by_zero_at_the_commit_is_no_end_of_the_transaction_before_it() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let (rows, function) = (&scene.rows, crate::common::unique("refuse"));
    scene
        .run(&format!(
            "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN 1 / 0; END';
             CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON {rows} DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION {function}()"
        ))
        .await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    is_failed(tx.commit().await, ErrorKind::Other);
}

#[tokio::test]
async fn the_statement_bound_does_not_cut_the_commit_short() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let (rows, function) = (&scene.rows, crate::common::unique("slow"));
    scene
        .run(&format!(
            "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN PERFORM pg_sleep(1.5); RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON {rows} DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION {function}()"
        ))
        .await;
    let bounds = lease_postgres::Bounds {
        statement: Some(std::time::Duration::from_secs(1)),
        ..lease_postgres::Bounds::of_ttl(crate::support::TTL)
    };
    loop {
        let guard = scene.store.guard(&held.tenure).bounds(bounds);
        let tx = guard.begin(scene.client().await).await.unwrap();
        match tx.execute(&scene.insert(1), &[]).await {
            Ok(_) => {}
            // On a slow machine.
            Err(error) if error.to_string().contains("57014") => continue,
            Err(error) => panic!("{error:?}"),
        }
        tx.commit().await.unwrap();
        break;
    }
    assert_eq!(scene.rows().await, [1]);
}
