//! Guards that lose their lease, and guards that are dropped: nothing is left open, and no connection goes back to
//! its pool with a transaction in it.

use std::future::pending;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{join, select};
use lease_core::store::ClaimAnswer;
use lease_core::{GuardError, GuardedError, Timings};
use lease_postgres::deadpool_postgres::{Manager, Object, Pool};
use lease_postgres::{Bounds, Guarded, PostgresStore};
use tokio::sync::oneshot;
use tokio_postgres::NoTls;

use crate::common::{role, unique};
use crate::support::{LONG, Scene, eventually, hold, is_lost, proxied};

/// Until somebody ends it.
const SLEEP: &str = "SELECT pg_sleep(3600)";

async fn sleeps(scene: &Scene) {
    let sql = crate::common::Sql::connect(&scene.url).await;
    let waits = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'PgSleep'";
    let is_there = async || !sql.client.query(waits, &[&scene.program]).await.unwrap().is_empty();
    eventually("the program's statement runs", is_there).await;
}

#[tokio::test]
async fn a_lost_lease_ends_a_running_statement_and_leaves_no_transaction_open() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    let lose = async {
        sleeps(&scene).await;
        drop(held.lease);
    };
    let both = tokio::time::timeout(LONG, join(tx.batch_execute(SLEEP), lose));
    let (slept, ()) = both.await.expect("the statement is ended");
    assert_eq!(slept.unwrap_err().code().unwrap().code(), "57P01");
    // Nor is it run in a transaction of its own.
    tx.execute(&scene.insert(2), &[]).await.unwrap_err();
    scene.no_session_is_left().await;
    is_lost(tx.commit().await);
    assert_eq!(scene.rows().await, [0; 0]);
}

#[tokio::test]
async fn a_lost_lease_drops_the_closure_and_is_its_answer() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let mut lease = Some(held.lease);
    let guard = scene.store.guard(&held.tenure);
    let ran = guard.run(scene.client().await, async |tx| {
        tx.execute(&scene.insert(1), &[]).await.unwrap();
        drop(lease.take());
        pending::<Result<(), ()>>().await
    });
    let ran = tokio::time::timeout(LONG, ran).await.expect("the work is dropped");
    assert!(matches!(ran, Err(GuardedError::Guard(GuardError::Lost(_)))), "{ran:?}");
    scene.no_session_is_left().await;
    assert_eq!(scene.rows().await, [0; 0]);
}

#[tokio::test]
async fn a_rollback_after_the_loss_says_lost() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    drop(held.lease);
    eventually("the loss is seen", async || scene.sessions().await.1 == 0).await;
    is_lost(tx.rollback().await);
}

#[tokio::test]
async fn a_guard_dropped_inside_a_statement_leaves_no_session() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    let mut sleep = Box::pin(tx.batch_execute(SLEEP));
    assert!((&mut sleep).now_or_never().is_none());
    sleeps(&scene).await;
    drop(sleep);
    drop(tx);
    scene.no_session_is_left().await;
    assert_eq!(scene.rows().await, [0; 0]);
}

/// A pool of one connection, which a connection that is not given back stays away from.
fn pool(scene: &Scene) -> Pool {
    let mut config: tokio_postgres::Config = scene.url.parse().unwrap();
    config.application_name(&scene.program);
    Pool::builder(Manager::new(config, NoTls)).max_size(1).build().unwrap()
}

/// The next that gets a connection of the pool is in no transaction.
async fn is_usable(scene: &Scene, pool: &Pool) {
    let object = tokio::time::timeout(LONG, pool.get()).await.unwrap().unwrap();
    object.execute(&scene.insert(7), &[]).await.unwrap();
    assert_eq!(scene.rows().await, [7]);
}

#[tokio::test]
async fn a_panic_of_the_closure_rolls_back_and_its_connection_does_not_go_back_to_the_pool() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let pool = pool(&scene);
    let (guard, object, insert) =
        (scene.store.guard(&held.tenure), pool.get().await.unwrap(), scene.insert(1));
    let ran = tokio::spawn(async move {
        let panics = async |tx: &mut Guarded<Object>| -> Result<(), ()> {
            tx.execute(&insert, &[]).await.unwrap();
            panic!("a defect of the program")
        };
        guard.run(object, panics).await
    });
    assert!(ran.await.unwrap_err().is_panic());
    scene.no_session_is_left().await;
    is_usable(&scene, &pool).await;
}

#[tokio::test]
async fn a_closure_dropped_midway_rolls_back_and_its_connection_does_not_go_back_to_the_pool() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let pool = pool(&scene);
    let guard = scene.store.guard(&held.tenure);
    let (begun, has_begun) = oneshot::channel();
    let running = guard.run(pool.get().await.unwrap(), async |tx| {
        tx.execute(&scene.insert(1), &[]).await.unwrap();
        begun.send(()).unwrap();
        tx.batch_execute(SLEEP).await
    });
    let running = Box::pin(running);
    let meanwhile = Box::pin(async {
        has_begun.await.unwrap();
        sleeps(&scene).await;
    });
    drop(tokio::time::timeout(LONG, select(running, meanwhile)).await.unwrap());
    scene.no_session_is_left().await;
    is_usable(&scene, &pool).await;
}

#[tokio::test]
async fn a_beginning_dropped_midway_closes_the_connection() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let pool = pool(&scene);
    let guard = scene.store.guard(&held.tenure);
    let object = pool.get().await.unwrap();
    let mut beginning = Box::pin(guard.begin(object));
    assert!((&mut beginning).now_or_never().is_none());
    drop(beginning);
    scene.no_session_is_left().await;
    is_usable(&scene, &pool).await;
}

#[tokio::test]
async fn a_commit_dropped_midway_closes_the_connection_and_commits_all_or_nothing() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    tx.execute(&format!("{}, (2)", scene.insert(1)), &[]).await.unwrap();
    let mut committing = Box::pin(tx.commit());
    assert!((&mut committing).now_or_never().is_none());
    drop(committing);
    scene.no_session_is_left().await;
    let rows = scene.rows().await;
    assert!(rows.is_empty() || rows == [1, 2], "{rows:?}");
}

/// The lease is lost while the answer to the commit is out.
#[tokio::test]
async fn a_commit_that_is_not_answered_before_half_of_the_grace_after_the_loss_is_unknown() {
    let scene = Scene::new().await;
    let held = hold(&scene.store, "a", Timings::from_ttl(Duration::from_secs(60)).unwrap()).await;
    let (proxy, url) = proxied(&scene.url);
    let tx = scene.store.guard(&held.tenure).begin(scene.client_at(&url).await).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    proxy.hold(lease_testkit::Direction::ToClient);
    let mut committing = Box::pin(tx.commit());
    assert!((&mut committing).now_or_never().is_none());
    eventually("it is committed", async || {
        assert!((&mut committing).now_or_never().is_none());
        scene.rows().await == [1]
    })
    .await;
    drop(held.lease);
    let answer = tokio::time::timeout(LONG, committing).await.unwrap();
    assert!(matches!(answer, Err(GuardError::Unknown(_))), "{answer:?}");
}

/// What watches lives where the store's statements run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_on_the_programs_pool_ends_a_running_statement_too() {
    let scene = Scene::new().await;
    let manager = Manager::new(scene.url.parse().unwrap(), NoTls);
    let store = scene.options().open_pool(Pool::builder(manager).max_size(2).build().unwrap()).unwrap();
    let held = hold(&store, "a", Timings::default()).await;
    let tx = store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    let lose = async {
        sleeps(&scene).await;
        drop(held.lease);
    };
    let both = tokio::time::timeout(LONG, join(tx.batch_execute(SLEEP), lose));
    let (slept, ()) = both.await.expect("the statement is ended");
    assert_eq!(slept.unwrap_err().code().unwrap().code(), "57P01");
    scene.no_session_is_left().await;
}

#[tokio::test]
async fn a_session_that_the_stores_role_may_not_end_is_ended_by_the_bounds() {
    let scene = Scene::new().await;
    let role = role(&scene.url, "").await;
    scene.run(&format!("GRANT SELECT, INSERT, UPDATE ON {} TO {}", scene.table, role.name)).await;
    let store = PostgresStore::options().table(&scene.table).unwrap().open(&role.url).unwrap();
    let held = hold(&store, "a", Timings::from_ttl(crate::support::TTL).unwrap()).await;
    let bounds = Bounds { statement: Some(Duration::from_secs(2)), ..Bounds::of_ttl(crate::support::TTL) };
    let tx = loop {
        // A superuser's.
        match store.guard(&held.tenure).bounds(bounds).begin(scene.client().await).await {
            Ok(tx) => break tx,
            Err(error) if error.retry_helps() => {}
            Err(error) => panic!("{error:?}"),
        }
    };
    let mut sleep = Box::pin(tx.batch_execute(SLEEP));
    assert!((&mut sleep).now_or_never().is_none());
    drop(sleep);
    drop(tx);
    scene.no_session_is_left().await;
}

#[tokio::test]
async fn the_name_is_not_given_back_before_the_session_of_a_dropped_guard_has_ended() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let application = unique("watcher");
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    let mut sleep = Box::pin(tx.batch_execute(SLEEP));
    assert!((&mut sleep).now_or_never().is_none());
    sleeps(&scene).await;
    drop(sleep);
    drop((tx, held.tenure, application));
    held.lease.release().await.unwrap();
    assert_eq!(scene.sessions().await.0, 0);
    assert!(matches!(scene.claim("a").await, ClaimAnswer::Granted(_)));
}
