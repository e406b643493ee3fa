//! A lease that is lost while a transaction is open, and one that lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lease_core::guard::{GuardError, GuardedError};
use lease_core::store::ClaimAnswer;
use lease_core::{Claimed, Leases, RunError, Timings};
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Error, Row};
use lease_mysql::{Bounds, MysqlStore};
use lease_testkit::Direction::{ToClient, ToServer};
use test_servers::Product;

use crate::support::{LONG, Sandbox, TTL, on_both};
use crate::world::{NAME, World, insert, proxy, through, until};

on_both! {
    a_lost_lease_ends_a_running_statement_and_nothing_is_run_afterwards
    a_lost_lease_drops_the_work_of_the_closure_form
    a_transaction_that_nobody_looks_after_is_ended_when_the_lease_is_lost
    a_session_that_was_given_back_is_not_ended
    a_commit_under_way_is_not_ended_and_one_that_arrives_late_commits_nothing
    a_server_out_of_reach_does_not_keep_the_tenure
    a_transaction_longer_than_its_ttl_commits_and_blocks_no_renewal
}

fn is_lost<T: std::fmt::Debug>(answer: Result<T, Error>) {
    match answer {
        Err(Error::Other(error)) => {
            let error = error.downcast::<GuardError>().unwrap();
            assert!(matches!(*error, GuardError::Lost(_)), "{error:?}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

async fn a_lost_lease_ends_a_running_statement_and_nothing_is_run_afterwards(product: Product) {
    let world = World::new(product).await;
    let proxy = proxy(&world.sandbox);
    let mut tx = world.guard().begin(through(&proxy, &world.sandbox).await).await.unwrap();
    let id = tx.id();
    insert(&mut tx, 1).await.unwrap();
    // The server's word on its transactions is a little old, and older the more often it is asked.
    until("the server knows of it", async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.open().await == 1
    })
    .await;
    let sleeping = tokio::spawn(async move {
        let answer = tx.query_drop("SELECT SLEEP(600)").await;
        (tx, answer)
    });
    let runs = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE '%SLEEP%'"
    );
    until("it runs", async || world.ask::<u64>(&runs).await[0] > 0).await;
    let lost = Instant::now();
    world.lose().await;
    let (mut tx, answer) = sleeping.await.unwrap();
    println!("{product:?}: a SLEEP(600) ended {:?} after the loss", lost.elapsed());
    answer.unwrap_err();
    proxy.reset();
    is_lost(insert(&mut tx, 2).await);
    is_lost(tx.query_drop("SET autocommit = 1; INSERT INTO work (id) VALUES (3)").await);
    is_lost(tx.query::<Row, _>("SELECT 1").await);
    assert_eq!(proxy.trips(), 0, "{:?}", proxy.log());
    world.gone(id).await;
    until("no transaction is open", async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.open().await == 0
    })
    .await;
    let end = tx.commit().await;
    assert!(matches!(end, Err(GuardError::Lost(_))), "{end:?}");
    assert_eq!(world.ids().await, [0; 0]);
}

async fn a_lost_lease_drops_the_work_of_the_closure_form(product: Product) {
    let world = World::new(product).await;
    let pool = world.pool(Vec::new());
    let conn = pool.get_conn().await.unwrap();
    let id = conn.id();
    let guard = world.guard();
    let run = guard.run(conn, async |tx| {
        insert(tx, 1).await?;
        world.lose().await;
        std::future::pending::<Result<(), Error>>().await
    });
    let answer = run.await;
    assert!(matches!(answer, Err(GuardedError::Guard(GuardError::Lost(_)))), "{answer:?}");
    world.gone(id).await;
    assert_ne!(pool.get_conn().await.unwrap().id(), id);
    assert_eq!(world.ids().await, [0; 0]);
    pool.disconnect().await.unwrap();
}

async fn a_transaction_that_nobody_looks_after_is_ended_when_the_lease_is_lost(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    let id = tx.id();
    insert(&mut tx, 1).await.unwrap();
    world.lose().await;
    world.gone(id).await;
    // What it had locked is free.
    world.sandbox.run("INSERT INTO work (id) VALUES (1)").await;
    let end = tx.rollback().await;
    assert!(matches!(end, Err(GuardError::Lost(_))), "{end:?}");
}

async fn a_session_that_was_given_back_is_not_ended(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    let mut committed = tx.commit().await.unwrap();
    let mut rolled_back = world.guard().begin(world.conn().await).await.unwrap().rollback().await.unwrap();
    let tx = world.guard().begin(world.conn().await).await.unwrap();
    world.lose().await;
    world.gone(tx.id()).await;
    insert(&mut committed, 2).await.unwrap();
    insert(&mut rolled_back, 3).await.unwrap();
}

async fn a_commit_under_way_is_not_ended_and_one_that_arrives_late_commits_nothing(product: Product) {
    let world = World::on(Sandbox::new(product).await, TTL, Duration::from_secs(600)).await;
    let proxy = proxy(&world.sandbox);
    // Its answer is on its way when the lease is lost, and another's transaction is ended for that.
    let mut tx = world.guard().begin(through(&proxy, &world.sandbox).await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    proxy.hold(ToClient);
    let commit = tokio::spawn(tx.commit());
    until("it is committed", async || world.ids().await == [1]).await;
    let other = world.guard().begin(world.conn().await).await.unwrap();
    world.lose().await;
    world.gone(other.id()).await;
    proxy.release(ToClient);
    let mut conn = commit.await.unwrap().unwrap();
    insert(&mut conn, 3).await.unwrap();
    // It is on its way itself when the lease is lost and somebody else's.
    let world = World::new(product).await;
    let proxy = crate::world::proxy(&world.sandbox);
    let mut tx = world.guard().begin(through(&proxy, &world.sandbox).await).await.unwrap();
    insert(&mut tx, 2).await.unwrap();
    proxy.reset();
    proxy.hold(ToServer);
    let commit = tokio::spawn(tx.commit());
    world.expire().await;
    let claim = world.claim().await;
    assert!(matches!(claim, ClaimAnswer::Granted(_)), "{claim:?}");
    proxy.release(ToServer);
    let end = commit.await.unwrap();
    assert!(matches!(end, Err(GuardError::Lost(_))), "{end:?}");
    assert_eq!(world.ids().await, [0; 0]);
}

async fn a_server_out_of_reach_does_not_keep_the_tenure(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let proxy = proxy(&sandbox);
    let store = MysqlStore::open(&sandbox.url_of("root", Some(proxy.port()))).unwrap();
    let leases = Leases::builder(store.clone())
        .timings(Timings::from_ttl(Duration::from_secs(4)).unwrap())
        .on_stuck(|_| {})
        .build()
        .unwrap();
    let Claimed::Granted(lease) = leases.claim(NAME).await.unwrap() else { panic!("the name is held") };
    let conn = sandbox.other().await;
    let begun = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&begun);
    let run = tokio::spawn(lease.run(move |tenure| async move {
        // The session would be looked for for hours.
        let guard = store.guard(&tenure).bounds(Bounds::of_ttl(TTL));
        drop(tenure);
        guard
            .run(conn, async |_| {
                told.store(true, Ordering::SeqCst);
                std::future::pending::<Result<(), Error>>().await
            })
            .await
    }));
    until("it has begun", async || begun.load(Ordering::SeqCst) || run.is_finished()).await;
    proxy.refuse();
    proxy.cut();
    let ended = tokio::time::timeout(LONG, run).await.expect("it must not wait for the server").unwrap();
    assert!(matches!(ended, Err(RunError::Lost { .. })), "{ended:?}");
}

async fn a_transaction_longer_than_its_ttl_commits_and_blocks_no_renewal(product: Product) {
    let sandbox = Sandbox::new(product).await;
    sandbox.run("CREATE TABLE work (id BIGINT PRIMARY KEY)").await;
    let store = sandbox.store();
    let leases = Leases::builder(store.clone()).on_stuck(|_| {}).build().unwrap();
    let Claimed::Granted(lease) = leases.claim(NAME).await.unwrap() else { panic!("the name is held") };
    let mut tx = store.guard(&lease.tenure()).begin(sandbox.other().await).await.unwrap();
    let renewed = "SELECT renewed_at_ms FROM leases";
    let (begun, mut renewals, mut last) = (Instant::now(), 0, 0_u64);
    let mut id = 0;
    while begun.elapsed() < Duration::from_secs(20) {
        insert(&mut tx, id).await.unwrap();
        id += 1;
        let at: Option<u64> = sandbox.other().await.query_first(renewed).await.unwrap();
        if at.unwrap() > last {
            (renewals, last) = (renewals + 1, at.unwrap());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tx.commit().await.unwrap();
    println!("{product:?}: {renewals} renewals during a transaction of {:?}", begun.elapsed());
    assert!(renewals > 3, "{renewals}");
    let rows: Option<u64> = sandbox.other().await.query_first("SELECT COUNT(*) FROM work").await.unwrap();
    assert_eq!(rows, Some(id));
    leases.shutdown();
}
