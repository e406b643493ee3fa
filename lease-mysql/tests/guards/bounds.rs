//! How long others wait for what a paused or vanished holder has locked. A successor's claim never does.

use std::time::{Duration, Instant};

use lease_core::guard::GuardError;
use lease_core::store::ClaimAnswer;
use lease_mysql::Bounds;
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Row, Value};
use lease_testkit::Direction::{ToClient, ToServer};
use test_servers::Product;

use crate::support::on_both;
use crate::world::{World, insert, proxy, through, until};

on_both! {
    paused_idle
    paused_inside_a_select
    paused_inside_a_write
    paused_while_a_large_result_is_unread
    vanished_with_its_host
    killed_between_statements
    killed_inside_a_select
}

const IDLE: Duration = Duration::from_secs(3);
const STATEMENT: Duration = Duration::from_secs(5);
const UNREAD: Duration = Duration::from_secs(4);

fn bounds() -> Bounds {
    Bounds::of_ttl(IDLE).statement(STATEMENT).unread(UNREAD)
}

/// Until others have the row, while the lease is held and nobody ends the session from outside; the successor's claim
/// is answered at once.
async fn freed(world: &World, product: Product, cell: &str, since: Instant, least: Duration) {
    world.expire().await;
    let claim = world.claim().await;
    let claimed = since.elapsed();
    assert!(matches!(claim, ClaimAnswer::Granted(_)), "{claim:?}");
    let mut other = world.conn().await;
    other.query_drop("SET SESSION innodb_lock_wait_timeout = 1").await.unwrap();
    until("others have the row", async || other.query_drop("INSERT INTO work (id) VALUES (1)").await.is_ok())
        .await;
    println!(
        "{product:?}, {cell}: claimed after {claimed:?}, rows free after {:?}, at least {least:?}",
        since.elapsed()
    );
    assert!(since.elapsed() >= least, "the bound was not what freed it");
}

async fn paused_idle(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().bounds(bounds()).begin(world.conn().await).await.unwrap();
    let since = Instant::now();
    insert(&mut tx, 1).await.unwrap();
    freed(&world, product, "idle", since, IDLE).await;
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Failed(_) | GuardError::Unknown(_)), "{error:?}");
    // A slow job is not run again for ever.
    assert!(!error.retry_helps(), "{error:?}");
    let world = World::new(product).await;
    let mut tx = world.guard().bounds(bounds()).begin(world.conn().await).await.unwrap();
    world.gone(tx.id()).await;
    tx.query_drop("SELECT 1").await.unwrap_err();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Failed(_)) && !error.retry_helps(), "{error:?}");
}

async fn paused_inside_a_select(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().bounds(bounds()).begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    let since = Instant::now();
    let mut select = Box::pin(tx.query_drop("SELECT SLEEP(600)"));
    // Sent, and not looked after any more.
    assert!(futures_util::poll!(&mut select).is_pending());
    freed(&world, product, "in a select", since, STATEMENT + IDLE).await;
}

async fn paused_inside_a_write(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().bounds(bounds()).begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    let since = Instant::now();
    let mut write = Box::pin(tx.query_drop("INSERT INTO work (id) SELECT 2 FROM (SELECT SLEEP(8)) AS s"));
    assert!(futures_util::poll!(&mut write).is_pending());
    // MySQL bounds no write: it runs to its end.
    let least = if product == Product::MariaDb { STATEMENT } else { Duration::from_secs(8) };
    freed(&world, product, "in a write of 8 s", since, least + IDLE).await;
}

async fn paused_while_a_large_result_is_unread(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().bounds(bounds()).begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    let since = Instant::now();
    let numbers = "(SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5)";
    let large = format!("SELECT REPEAT('x', 1000000) FROM {numbers} a, {numbers} b, {numbers} c");
    let mut result = tx.query_iter(large).await.unwrap();
    freed(&world, product, "a large result unread", since, UNREAD).await;
    let read = result.for_each(|row: Row| assert!(matches!(row.as_ref(0), Some(Value::Bytes(_))))).await;
    read.unwrap_err();
}

async fn vanished_with_its_host(product: Product) {
    let world = World::new(product).await;
    let proxy = proxy(&world.sandbox);
    let mut tx = world.guard().bounds(bounds()).begin(through(&proxy, &world.sandbox).await).await.unwrap();
    let since = Instant::now();
    insert(&mut tx, 1).await.unwrap();
    // Not a word comes from there any more, and none is acknowledged by whoever sent it.
    proxy.hold(ToServer);
    proxy.hold(ToClient);
    freed(&world, product, "vanished", since, IDLE).await;
}

async fn killed_between_statements(product: Product) {
    let world = World::new(product).await;
    let proxy = proxy(&world.sandbox);
    let mut tx = world.guard().bounds(bounds()).begin(through(&proxy, &world.sandbox).await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    let since = Instant::now();
    proxy.cut();
    freed(&world, product, "killed", since, Duration::ZERO).await;
}

async fn killed_inside_a_select(product: Product) {
    let world = World::new(product).await;
    let proxy = proxy(&world.sandbox);
    let mut tx = world.guard().bounds(bounds()).begin(through(&proxy, &world.sandbox).await).await.unwrap();
    let id = tx.id();
    insert(&mut tx, 1).await.unwrap();
    let since = Instant::now();
    let mut select = Box::pin(tx.query_drop("SELECT SLEEP(600)"));
    assert!(futures_util::poll!(&mut select).is_pending());
    let runs = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE '%SLEEP%'"
    );
    until("it runs", async || world.ask::<u64>(&runs).await[0] > 0).await;
    proxy.cut();
    // Neither server looks at its connections while a statement runs.
    freed(&world, product, "killed in a select", since, STATEMENT).await;
}
