//! PgBouncer in transaction mode between, which gives sessions to others in turn.

use lease_core::store::ClaimAnswer;
use test_servers::{PgBouncer, Product, Server, Setup};
use tokio_postgres::Client;

use crate::common::Sql;
use crate::support::{Scene, eventually};

async fn pid(client: &Client) -> i32 {
    // Nothing that is prepared, which a pooler could give to another.
    let messages = client.simple_query("SELECT pg_backend_pid()").await.unwrap();
    let pid = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    pid.unwrap()
}

#[tokio::test]
async fn the_promise_is_kept_behind_a_pooler() {
    let server = Server::start(Product::Postgres, Setup::default());
    let pooler = PgBouncer::start(&server);
    let scene = Scene::on(&server.url()).await;
    let held = scene.hold("a").await;
    let guard = scene.store.guard(&held.tenure);
    let mut client = scene.client_at(&pooler.url()).await;
    for n in 1..4 {
        let tx = guard.begin(client).await.unwrap();
        tx.batch_execute(&scene.insert(n)).await.unwrap();
        client = tx.commit().await.unwrap();
    }
    let tx = guard.begin(client).await.unwrap();
    tx.batch_execute(&scene.insert(4)).await.unwrap();
    scene.expire("a").await;
    assert_eq!(scene.claim("a").await, ClaimAnswer::Held);
    drop(held.lease);
    // It is ended by the store, which goes past the pooler.
    let fails = async || tx.batch_execute("SELECT 1").await.is_err();
    eventually("the session is ended", fails).await;
    scene.succeed("a").await;
    assert_eq!(scene.rows().await, [1, 2, 3]);
}

/// The program has ended the transaction itself, and its session is another's now.
#[tokio::test]
async fn the_end_of_a_guard_never_hits_the_session_of_another() {
    let server = Server::start(Product::Postgres, Setup::default());
    let pooler = PgBouncer::start(&server);
    let scene = Scene::on(&server.url()).await;
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client_at(&pooler.url()).await).await.unwrap();
    let ours = pid(&tx).await;
    tx.batch_execute("ROLLBACK").await.unwrap();
    let other = Sql::connect(&pooler.url()).await;
    other.run(&format!("BEGIN; {}", scene.insert(1))).await;
    assert_eq!(pid(&other.client).await, ours, "the pooler gave it another session");
    drop((tx, held.tenure));
    // It waits for the watcher.
    held.lease.release().await.unwrap();
    other.run("COMMIT").await;
    assert_eq!(scene.rows().await, [1]);
}
