//! Sessions that are in another database, speak another character set, or meet others at the lease table.

use std::time::Duration;

use lease_core::LossReason;
use lease_core::guard::GuardError;
use lease_core::store::ClaimAnswer;
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Conn, Error, Opts, OptsBuilder, Pool};
use lease_mysql::{Fence, MysqlStore};
use lease_testkit::Direction::ToServer;
use test_servers::Product;

use crate::support::{LONG, Sandbox, on_both, with_options};
use crate::world::{World, insert, proxy, through, until};

on_both! {
    the_lease_is_read_where_the_store_has_it
    a_store_on_a_pool_knows_its_database
    a_character_set_of_the_sessions_mixes_up_no_sessions
    an_open_transaction_keeps_nobody_from_the_table
    the_fence_keeps_claims_off_until_the_commit_is_done
    the_fence_keeps_claims_off_while_the_log_is_written
    a_commit_that_never_arrives_is_given_up
}

async fn the_lease_is_read_where_the_store_has_it(product: Product) {
    let world = World::new(product).await;
    let other = format!("{}_other", world.sandbox.database);
    world.sandbox.run(format!("CREATE DATABASE {other}")).await;
    // No such table there.
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    tx.query_drop(format!("USE {other}")).await.unwrap();
    tx.commit().await.unwrap();
    // One of other people.
    world.sandbox.run(format!("CREATE TABLE {other}.leases LIKE leases")).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 2).await.unwrap();
    tx.query_drop(format!("USE {other}")).await.unwrap();
    tx.commit().await.unwrap();
    // From the beginning on.
    let opts = OptsBuilder::from_opts(Opts::from_url(&world.sandbox.url).unwrap()).prefer_socket(false);
    let there = async |database: Option<&str>| Conn::new(opts.clone().db_name(database)).await.unwrap();
    for database in [Some(other.as_str()), None] {
        let tx = world.guard().begin(there(database).await).await.unwrap();
        tx.commit().await.unwrap();
    }
    let (fence, mut conn) = (world.store.fence(&world.tenure), there(Some(&other)).await);
    conn.query_drop("START TRANSACTION").await.unwrap();
    let verified: Option<i64> = conn.exec_first(fence.verify(), fence.parameters().to_vec()).await.unwrap();
    assert_eq!(verified, Some(1));
    conn.query_drop(fence.commit()).await.unwrap();
    // A copy, and a successor.
    world.sandbox.run(format!("INSERT INTO {other}.leases SELECT * FROM leases")).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 3).await.unwrap();
    tx.query_drop(format!("USE {other}")).await.unwrap();
    world.expire().await;
    assert!(matches!(world.claim().await, ClaimAnswer::Granted(_)));
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Lost(LossReason::Refused)), "{error:?}");
    let lost = conn.query_drop(fence.commit()).await;
    assert!(matches!(&lost, Err(Error::Server(error)) if error.code == Fence::LOST), "{lost:?}");
    assert_eq!(world.ids().await, [1, 2]);
    world.sandbox.run(format!("DROP DATABASE {other}")).await;
}

async fn a_store_on_a_pool_knows_its_database(product: Product) {
    let world = World::new(product).await;
    let opts = OptsBuilder::from_opts(Opts::from_url(&world.sandbox.url).unwrap()).prefer_socket(false);
    let by_setup = opts.clone().db_name(None::<&str>).setup(vec![format!("USE {}", world.sandbox.database)]);
    for (id, pool) in [opts.clone(), by_setup].into_iter().enumerate() {
        let pool = Pool::new(pool);
        let store = MysqlStore::options().open_pool(pool.clone()).unwrap();
        let conn = Conn::new(opts.clone().db_name(None::<&str>)).await.unwrap();
        let mut tx = store.guard(&world.tenure).begin(conn).await.unwrap();
        let insert = format!("INSERT INTO {}.work (id) VALUES ({id})", world.sandbox.database);
        tx.query_drop(insert).await.unwrap();
        tx.commit().await.unwrap();
        // The pieces know it from then on.
        let fence = store.fence(&world.tenure);
        assert!(fence.fence().contains(&format!("`{}`.`leases`", world.sandbox.database)), "{fence:?}");
        pool.disconnect().await.unwrap();
    }
    assert_eq!(world.ids().await, [0, 1]);
}

async fn a_character_set_of_the_sessions_mixes_up_no_sessions(product: Product) {
    let world = World::new(product).await;
    for set in ["utf16", "ucs2", "latin1"] {
        let conn = async || {
            let mut conn = world.conn().await;
            conn.query_drop(format!("SET character_set_connection = {set}")).await.unwrap();
            conn
        };
        let first = world.guard().begin(conn().await).await.unwrap();
        let mut second = world.guard().begin(conn().await).await.unwrap();
        insert(&mut second, 1).await.unwrap();
        let (id, lives) = (first.id(), second.id());
        {
            // In the middle of a statement, which the server does not end by itself.
            let mut first = first;
            let mut sleep = Box::pin(first.query_drop("SELECT SLEEP(600)"));
            assert!(futures_util::poll!(&mut sleep).is_pending());
        }
        world.gone(id).await;
        assert!(world.is_connected(lives).await, "{set}");
        let mut conn = second.rollback().await.unwrap();
        assert_eq!(crate::world::locks(&mut conn).await, 0);
    }
}

async fn an_open_transaction_keeps_nobody_from_the_table(product: Product) {
    let world = World::new(product).await;
    let mut conn = world.conn().await;
    conn.query_drop("SET autocommit = 0").await.unwrap();
    for conn in [conn, world.conn().await] {
        let mut tx = world.guard().begin(conn).await.unwrap();
        insert(&mut tx, 1).await.unwrap();
        // It would wait for the transaction's end, and all renewals behind it.
        let mut other = world.conn().await;
        other.query_drop("SET SESSION lock_wait_timeout = 5").await.unwrap();
        other.query_drop("ALTER TABLE leases ADD COLUMN extra INT").await.unwrap();
        other.query_drop("ALTER TABLE leases DROP COLUMN extra").await.unwrap();
        assert!(world.lease.renew().await.unwrap());
        tx.rollback().await.unwrap();
    }
    // And what keeps the commit from the table is contention, within the attempt.
    let sandbox = Sandbox::new(product).await;
    let world = World::on(sandbox, Duration::from_secs(15), Duration::from_secs(1)).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    let mut other = world.conn().await;
    other.query_drop("LOCK TABLES leases WRITE").await.unwrap();
    let end = tokio::time::timeout(LONG, tx.commit()).await.expect("it waits for the lock");
    assert!(matches!(end, Err(GuardError::Failed(_) | GuardError::Lost(_))), "{end:?}");
    other.query_drop("UNLOCK TABLES").await.unwrap();
    assert_eq!(world.ids().await, [0; 0]);
}

const EXPIRED: &str = "SELECT expires_at_ms <= UNIX_TIMESTAMP(NOW(3)) * 1000 FROM leases";

async fn the_fence_keeps_claims_off_until_the_commit_is_done(product: Product) {
    // On a slow machine the lease has expired before the fence.
    loop {
        let world =
            World::on(Sandbox::new(product).await, Duration::from_secs(4), Duration::from_secs(1)).await;
        let (fence, mut conn) = (world.store.fence(&world.tenure), world.conn().await);
        conn.query_drop("START TRANSACTION").await.unwrap();
        if conn.exec_drop(fence.fence(), fence.parameters().to_vec()).await.is_err() {
            continue;
        }
        until("it has expired", async || world.ask::<u64>(EXPIRED).await[0] == 1).await;
        assert_eq!(world.claim().await, ClaimAnswer::Held);
        conn.query_drop("COMMIT").await.unwrap();
        assert!(matches!(world.claim().await, ClaimAnswer::Granted(_)));
        return;
    }
}

async fn the_fence_keeps_claims_off_while_the_log_is_written(product: Product) {
    use lease_core::LeaseStore;
    // The commit itself takes two seconds.
    let options: &[&str] = match product {
        Product::MySql => &["--binlog-group-commit-sync-delay=1000000"],
        _ => &["--log-bin", "--binlog-commit-wait-count=100", "--binlog-commit-wait-usec=1000000"],
    };
    let server = with_options(product, options).await;
    let sandbox = Sandbox::empty(&server.url()).await;
    sandbox.store().migrate().await.unwrap();
    let world = World::new_in(sandbox).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    let id = tx.id();
    insert(&mut tx, 1).await.unwrap();
    let commit = tokio::spawn(tx.commit());
    // No claim is granted, since the lease is held; that the row is locked shows who wants to write it.
    let mut other = world.conn().await;
    let locked = "SELECT name FROM leases FOR UPDATE NOWAIT";
    let runs = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE 'COMMIT%'"
    );
    let mut seen = 0;
    while !commit.is_finished() {
        let before = world.ask::<u64>(&runs).await[0] > 0;
        let is_locked = other.query_drop(locked).await.is_err();
        let after = world.ask::<u64>(&runs).await[0] > 0;
        if before && after {
            assert!(is_locked, "the commit goes on without the lock");
            seen += 1;
        }
    }
    commit.await.unwrap().unwrap();
    println!("{product:?}: seen locked {seen} times during the commit");
    assert!(seen > 0);
    assert_eq!(world.ids().await, [1]);
}

async fn a_commit_that_never_arrives_is_given_up(product: Product) {
    let world = World::on(Sandbox::new(product).await, Duration::from_secs(6), Duration::from_secs(1)).await;
    let proxy = proxy(&world.sandbox);
    let mut tx = world.guard().begin(through(&proxy, &world.sandbox).await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    proxy.hold(ToServer);
    let commit = tokio::spawn(tx.commit());
    // While renewals go well.
    until("it is given up", async || {
        let _ = world.lease.renew().await;
        commit.is_finished()
    })
    .await;
    let end = commit.await.unwrap();
    assert!(matches!(end, Err(GuardError::Unknown(_))), "{end:?}");
}
