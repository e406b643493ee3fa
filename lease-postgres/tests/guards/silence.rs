//! Connections that say nothing any more, or have ended, when the transaction is to end.

use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use lease_core::store::ClaimAnswer;
use lease_core::{ErrorKind, GuardError};
use lease_postgres::Bounds;
use lease_testkit::Direction;
use tokio::net::TcpStream;
use tokio_postgres::{Config, NoTls};

use crate::support::{
    Holding, LONG, Scene, TTL, eventually, hold, impatient, is_failed, leaves_running, proxied,
};

async fn impatiently(scene: &Scene) -> Holding {
    hold(&scene.store, "a", impatient()).await
}

/// Of what the program has sent, something still runs when it gives up.
#[tokio::test]
async fn a_rollback_behind_a_statement_that_still_runs_ends_the_session_before_the_name_is_given_back() {
    let scene = Scene::new().await;
    let held = impatiently(&scene).await;
    let tx = leaves_running(&scene.store.guard(&held.tenure), scene.client().await, &scene).await;
    is_failed(tx.rollback().await, ErrorKind::Timeout);
    drop(held.tenure);
    held.lease.release().await.unwrap();
    assert_eq!(scene.sessions().await.0, 0);
    assert!(matches!(scene.claim("a").await, ClaimAnswer::Granted(_)));
}

#[tokio::test]
async fn a_commit_whose_answer_never_comes_is_unknown_while_the_lease_is_held() {
    let scene = Scene::new().await;
    let held = impatiently(&scene).await;
    let (proxy, url) = proxied(&scene.url);
    let tx = scene.store.guard(&held.tenure).begin(scene.client_at(&url).await).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    proxy.hold(Direction::ToClient);
    let answer = tokio::time::timeout(LONG, tx.commit()).await.expect("somebody looks");
    assert!(matches!(answer, Err(GuardError::Unknown(_))), "{answer:?}");
    assert!(held.tenure.check());
    assert_eq!(scene.rows().await, [1]);
}

#[tokio::test]
async fn a_commit_that_never_arrives_is_failed_as_the_server_has_rolled_back() {
    let scene = Scene::new().await;
    let held = impatiently(&scene).await;
    let (proxy, url) = proxied(&scene.url);
    let bounds = Bounds::of_ttl(TTL).idle(Duration::from_secs(3));
    let tx = loop {
        let guard = scene.store.guard(&held.tenure).bounds(bounds);
        let tx = guard.begin(scene.client_at(&url).await).await.unwrap();
        // Else a slow machine was in the way.
        if tx.execute(&scene.insert(1), &[]).await.is_ok() {
            break tx;
        }
    };
    proxy.hold(Direction::ToServer);
    proxy.hold(Direction::ToClient);
    let answer = tokio::time::timeout(LONG, tx.commit()).await.expect("somebody looks");
    assert!(matches!(answer, Err(GuardError::Failed(_))), "{answer:?}");
    assert_eq!(scene.rows().await, [0; 0]);
}

/// As one that waits for a standby, or for the checks of a large write.
#[tokio::test]
async fn a_commit_that_takes_many_attempts_is_awaited_while_it_is_in_progress() {
    let scene = Scene::new().await;
    let held = impatiently(&scene).await;
    let (rows, function) = (&scene.rows, crate::common::unique("slow"));
    scene
        .run(&format!(
            "CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN PERFORM pg_sleep(7); RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON {rows} DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION {function}()"
        ))
        .await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(scene.rows().await, [1]);
}

#[tokio::test]
async fn a_transaction_that_outlived_a_bound_is_not_one_to_be_run_again() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let bounds = Bounds::of_ttl(TTL).idle(Duration::from_millis(300));
    let guard = scene.store.guard(&held.tenure).bounds(bounds);
    let tx = guard.begin(scene.client().await).await.unwrap();
    eventually("the connection has ended", async || tx.is_closed()).await;
    let error = is_failed(tx.commit().await, ErrorKind::Other);
    assert!(!error.retry_helps() && error.to_string().contains("raise"), "{error}");
    // Before anybody has seen it.
    let tx = guard.begin(scene.client().await).await.unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(scene.no_session_is_left());
        });
    });
    let error = is_failed(tx.commit().await, ErrorKind::Other);
    assert!(!error.retry_helps() && error.to_string().contains("raise"), "{error}");
    assert!(matches!(scene.claim("a").await, ClaimAnswer::Held), "the lease is held");
}

#[tokio::test]
async fn a_transaction_cut_off_within_its_bounds_may_be_run_again() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let (proxy, url) = proxied(&scene.url);
    let guard = scene.store.guard(&held.tenure);
    let tx = guard.begin(scene.client_at(&url).await).await.unwrap();
    proxy.cut();
    eventually("the connection has ended", async || tx.is_closed()).await;
    assert!(is_failed(tx.commit().await, ErrorKind::Unavailable).retry_helps());
    // Cut while the commit is sent.
    let tx = guard.begin(scene.client_at(&url).await).await.unwrap();
    proxy.cut_before(1, Direction::ToServer);
    assert!(is_failed(tx.commit().await, ErrorKind::Unavailable).retry_helps());
    assert_eq!(proxy.planned(), 0);
}

/// The program's side has ended, and the server does not know.
#[tokio::test]
async fn a_session_whose_connection_has_ended_on_one_side_is_ended_by_the_store() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let mut config: Config = scene.url.parse().unwrap();
    config.application_name(&scene.program);
    let tokio_postgres::config::Host::Tcp(host) = &config.get_hosts()[0] else { panic!("no TCP") };
    let stream = TcpStream::connect((host.as_str(), config.get_ports()[0])).await.unwrap();
    let stream = stream.into_std().unwrap();
    // Keeps it open.
    let _other = stream.try_clone().unwrap();
    let stream = TcpStream::from_std(stream).unwrap();
    let (client, connection) = config.connect_raw(stream, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let tx = scene.store.guard(&held.tenure).begin(client).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    connection.abort();
    eventually("the connection has ended", async || tx.is_closed()).await;
    assert_eq!(scene.sessions().await.0, 1);
    is_failed(tx.commit().await, ErrorKind::Unavailable);
    scene.no_session_is_left().await;
    assert!(Box::pin(held.tenure.lost()).now_or_never().is_none());
}

#[tokio::test]
async fn a_commit_of_the_programs_before_the_connection_ended_is_told_as_ended() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let (proxy, url) = proxied(&scene.url);
    let tx = scene.store.guard(&held.tenure).begin(scene.client_at(&url).await).await.unwrap();
    tx.batch_execute(&format!("{}; COMMIT", scene.insert(1))).await.unwrap();
    proxy.cut();
    eventually("the connection has ended", async || tx.is_closed()).await;
    let answer = tx.commit().await;
    assert!(matches!(answer, Err(GuardError::Ended(_))), "{answer:?}");
    assert_eq!(scene.rows().await, [1]);
}
