//! Statements of the program's that end the transaction, and other people's transactions.

use std::time::Duration;

use lease_core::ErrorKind;
use lease_core::guard::GuardError;
use lease_mysql::mysql_async::prelude::{Query, Queryable, WithParams};
use lease_mysql::mysql_async::{Error, Row};
use lease_mysql::{Guarded, Isolation};
use test_servers::Product;

use crate::support::{Sandbox, on_both};
use crate::world::{World, insert, proxy, through, until};

on_both! {
    a_statement_that_ends_the_transaction_is_found_before_the_next_is_sent
    what_stands_behind_such_a_statement_in_its_text_is_not_committed
    a_transaction_begun_by_hand_is_not_taken_for_the_guards
    a_failed_statement_ends_nothing_and_one_that_ended_it_is_found
    savepoints_are_the_programs
    a_deadlock_is_contention
    a_row_of_the_lease_that_is_locked_for_long_is_contention
    a_dropped_statement_is_never_taken_for_answered
    what_was_left_unread_is_read_before_the_next_statement
    a_statement_by_the_drivers_other_way_passes_the_guard
    renewals_are_no_contention_at_any_level
}

/// What the guard holds against a statement.
fn refused(answer: Result<(), Error>) -> GuardError {
    match answer {
        Err(Error::Other(error)) => *error.downcast().unwrap(),
        other => panic!("not refused: {other:?}"),
    }
}

async fn begin(world: &World, proxy: &lease_testkit::Proxy) -> Guarded {
    world.guard().begin(through(proxy, &world.sandbox).await).await.unwrap()
}

async fn a_statement_that_ends_the_transaction_is_found_before_the_next_is_sent(product: Product) {
    let world = World::new(product).await;
    let proxy = proxy(&world.sandbox);
    for (n, sql) in [
        "CREATE TABLE t0 (a INT)",
        "ALTER TABLE t0 ADD COLUMN b INT",
        "TRUNCATE TABLE t0",
        "CREATE INDEX i ON t0 (a)",
        "ANALYZE TABLE t0",
        "COMMIT",
        "ROLLBACK",
        "SET autocommit = 1",
    ]
    .into_iter()
    .enumerate()
    {
        let id = n as u64;
        let mut tx = begin(&world, &proxy).await;
        insert(&mut tx, id).await.unwrap();
        tx.query_drop(sql).await.unwrap();
        proxy.reset();
        let error = refused(insert(&mut tx, 100 + id).await);
        assert!(matches!(error, GuardError::Ended(_)), "{sql}: {error:?}");
        assert!(!error.retry_helps());
        refused(tx.query_drop("INSERT INTO work (id) VALUES (1000)").await);
        refused(tx.ping().await);
        assert_eq!(proxy.trips(), 0, "{sql}: {:?}", proxy.log());
        let end = if n % 2 == 0 { tx.commit().await } else { tx.rollback().await };
        assert!(matches!(end, Err(GuardError::Ended(_))), "{sql}: {end:?}");
    }
    assert!(world.ids().await.iter().all(|id| *id < 100));
}

async fn what_stands_behind_such_a_statement_in_its_text_is_not_committed(product: Product) {
    let world = World::new(product).await;
    for (n, sql) in [
        "CREATE TABLE t1 (a INT); INSERT INTO work (id) VALUES (11)",
        "COMMIT; INSERT INTO work (id) VALUES (11)",
        "ROLLBACK; INSERT INTO work (id) VALUES (11)",
        "COMMIT AND CHAIN; INSERT INTO work (id) VALUES (11)",
        "START TRANSACTION; INSERT INTO work (id) VALUES (11)",
        "BEGIN; INSERT INTO work (id) VALUES (11)",
        "LOCK TABLES work WRITE; INSERT INTO work (id) VALUES (11)",
    ]
    .into_iter()
    .enumerate()
    {
        let mut tx = world.guard().begin(world.conn().await).await.unwrap();
        insert(&mut tx, n as u64).await.unwrap();
        tx.query_drop(sql).await.unwrap();
        // Nor what is sent afterwards: it is in a transaction of its own, which is not the guard's.
        insert(&mut tx, 12).await.unwrap();
        let end = tx.commit().await;
        assert!(matches!(end, Err(GuardError::Ended(_))), "{sql}: {end:?}");
        let ids = world.ids().await;
        assert!(!ids.contains(&11) && !ids.contains(&12), "{sql}: {ids:?}");
    }
}

async fn a_transaction_begun_by_hand_is_not_taken_for_the_guards(product: Product) {
    let world = World::new(product).await;
    for (n, end) in ["COMMIT", "ROLLBACK"].into_iter().enumerate() {
        let mut tx = world.guard().begin(world.conn().await).await.unwrap();
        tx.query_drop(format!("{end}; START TRANSACTION")).await.unwrap();
        insert(&mut tx, n as u64).await.unwrap();
        let ended = tx.rollback().await;
        assert!(matches!(ended, Err(GuardError::Ended(_))), "{end}: {ended:?}");
        // The lost lease of one that was ended is not said: what it had committed is not undone.
        let mut tx = world.guard().begin(world.conn().await).await.unwrap();
        tx.query_drop(format!("{end}; START TRANSACTION")).await.unwrap();
        insert(&mut tx, n as u64).await.unwrap();
        let expiry: u64 = world.ask("SELECT expires_at_ms FROM leases").await[0];
        world.expire().await;
        let ended = tx.commit().await;
        assert!(matches!(ended, Err(GuardError::Ended(_))), "{end}: {ended:?}");
        world.sandbox.run(format!("UPDATE leases SET expires_at_ms = {expiry}")).await;
    }
    assert_eq!(world.ids().await, [0; 0]);
}

async fn a_failed_statement_ends_nothing_and_one_that_ended_it_is_found(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    insert(&mut tx, 1).await.unwrap_err();
    tx.query_drop("nonsense").await.unwrap_err();
    insert(&mut tx, 2).await.unwrap();
    tx.query_drop("nonsense").await.unwrap_err();
    tx.commit().await.unwrap();
    assert_eq!(world.ids().await, [1, 2]);
    // DDL that fails has committed before it failed.
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 3).await.unwrap();
    tx.query_drop("CREATE TABLE work (a INT)").await.unwrap_err();
    let error = refused(insert(&mut tx, 4).await);
    assert!(matches!(error, GuardError::Ended(_)), "{error:?}");
    drop(tx);
    assert_eq!(world.ids().await, [1, 2, 3]);
}

async fn savepoints_are_the_programs(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    tx.query_drop("SAVEPOINT mine").await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    insert(&mut tx, 1).await.unwrap_err();
    tx.query_drop("ROLLBACK TO SAVEPOINT mine").await.unwrap();
    insert(&mut tx, 2).await.unwrap();
    tx.query_drop("RELEASE SAVEPOINT mine").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.ids().await, [2]);
}

async fn a_deadlock_is_contention(product: Product) {
    let world = World::new(product).await;
    world.sandbox.run("INSERT INTO work (id) VALUES (1), (2)").await;
    for reads in [false, true] {
        let mut tx = world.guard().begin(world.conn().await).await.unwrap();
        let mut other = world.conn().await;
        // The one that has written less is the victim.
        other.query_drop("START TRANSACTION").await.unwrap();
        other
            .query_drop("INSERT INTO work (id) VALUES (101), (102), (103), (104), (105), (106)")
            .await
            .unwrap();
        other.query_drop("SELECT * FROM work WHERE id = 1 FOR UPDATE").await.unwrap();
        let _: Vec<Row> = tx.query("SELECT * FROM work WHERE id = 2 FOR UPDATE").await.unwrap();
        let (theirs, ours) =
            tokio::join!(other.query_drop("SELECT * FROM work WHERE id = 2 FOR UPDATE"), async {
                if reads {
                    tx.query::<Row, _>("SELECT * FROM work WHERE id = 1 FOR UPDATE").await.map(drop)
                } else {
                    tx.query_drop("UPDATE work SET note = 'x' WHERE id = 1").await
                }
            });
        theirs.unwrap();
        match ours {
            Err(Error::Server(error)) => assert_eq!(error.code, 1213),
            other => panic!("no deadlock: {other:?}"),
        }
        other.query_drop("ROLLBACK").await.unwrap();
        // Whoever passes over it is told again, and what comes behind is not committed alone.
        let error = refused(insert(&mut tx, 3).await);
        assert!(error.retry_helps(), "{error:?}");
        let id = tx.id();
        if reads {
            assert_eq!(tx.rollback().await.unwrap().id(), id);
        } else {
            let error = tx.commit().await.unwrap_err();
            assert_eq!(error.kind(), Some(ErrorKind::Busy), "{error:?}");
        }
    }
    assert_eq!(world.ids().await, [1, 2]);
}

async fn a_row_of_the_lease_that_is_locked_for_long_is_contention(product: Product) {
    let world = World::on(Sandbox::new(product).await, Duration::from_secs(15), Duration::from_secs(1)).await;
    let mut other = world.conn().await;
    other.query_drop("START TRANSACTION").await.unwrap();
    other.query_drop("SELECT * FROM leases FOR UPDATE").await.unwrap();
    let pool = world.pool(Vec::new());
    let mut tx = world.guard().begin(pool.get_conn().await.unwrap()).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Failed(_)), "{error:?}");
    assert_eq!(error.kind(), Some(ErrorKind::Busy));
    other.query_drop("ROLLBACK").await.unwrap();
    drop(pool.get_conn().await.unwrap());
    pool.disconnect().await.unwrap();
    // A shorter wait is only waited for, also when it is longer than the server waits at once.
    let world = World::new(product).await;
    let mut other = world.conn().await;
    other.query_drop("START TRANSACTION").await.unwrap();
    other.query_drop("SELECT * FROM leases FOR UPDATE").await.unwrap();
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 2).await.unwrap();
    let commit = tokio::spawn(tx.commit());
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(!commit.is_finished());
    other.query_drop("ROLLBACK").await.unwrap();
    commit.await.unwrap().unwrap();
    assert_eq!(world.ids().await, [2]);
}

async fn a_dropped_statement_is_never_taken_for_answered(product: Product) {
    let world = World::new(product).await;
    let pool = world.pool(Vec::new());
    let mut tx = world.guard().begin(pool.get_conn().await.unwrap()).await.unwrap();
    let id = tx.id();
    insert(&mut tx, 1).await.unwrap();
    tokio::select! {
        biased;
        _ = tx.query_drop("SELECT SLEEP(60)") => panic!("it cannot have slept"),
        () = until("it runs", async || {
            world.ask::<u64>(&format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND INFO LIKE '%SLEEP%'")).await[0] > 0
        }) => {}
    }
    let error = refused(insert(&mut tx, 2).await);
    assert_eq!(error.kind(), Some(ErrorKind::Unavailable), "{error:?}");
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Failed(_)), "{error:?}");
    world.gone(id).await;
    assert_ne!(pool.get_conn().await.unwrap().id(), id);
    assert_eq!(world.ids().await, [0; 0]);
    pool.disconnect().await.unwrap();
}

async fn what_was_left_unread_is_read_before_the_next_statement(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    drop(tx.query_iter("SELECT 1; SELECT 2; INSERT INTO work (id) VALUES (1)").await.unwrap());
    drop(tx.exec_iter("SELECT 1 UNION ALL SELECT ?", (2,)).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(world.ids().await, [1]);
    // DDL among it, too.
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    drop(tx.query_iter("SELECT 1; CREATE TABLE t2 (a INT)").await.unwrap());
    let error = refused(insert(&mut tx, 2).await);
    assert!(matches!(error, GuardError::Ended(_)), "{error:?}");
    drop(tx);
    // A failure that nobody has read keeps it from being committed.
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    drop(tx.query_iter("INSERT INTO work (id) VALUES (3); nonsense").await.unwrap());
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Failed(_)), "{error:?}");
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    drop(tx.query_iter("INSERT INTO work (id) VALUES (4); nonsense").await.unwrap());
    tx.rollback().await.unwrap();
    assert_eq!(world.ids().await, [1]);
}

async fn a_statement_by_the_drivers_other_way_passes_the_guard(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    "INSERT INTO work (id) VALUES (?)".with((1,)).ignore(&mut tx).await.unwrap();
    let id: Option<u64> = "SELECT id FROM work".first(&mut tx).await.unwrap();
    assert_eq!(id, Some(1));
    "CREATE TABLE t3 (a INT)".ignore(&mut tx).await.unwrap();
    let error = refused("INSERT INTO work (id) VALUES (2)".ignore(&mut tx).await);
    assert!(matches!(error, GuardError::Ended(_)), "{error:?}");
    drop(tx);
    assert_eq!(world.ids().await, [1]);
}

async fn renewals_are_no_contention_at_any_level(product: Product) {
    let world = World::new(product).await;
    for snapshot in ["OFF", "ON"] {
        for (id, isolation) in [Isolation::ReadCommitted, Isolation::RepeatableRead].into_iter().enumerate() {
            let mut conn = world.conn().await;
            if product == Product::MariaDb {
                conn.query_drop(format!("SET SESSION innodb_snapshot_isolation = {snapshot}")).await.unwrap();
            }
            let saved = world
                .guard()
                .isolation(isolation)
                .run(conn, async |tx| {
                    let seen: Vec<u64> = tx.query("SELECT id FROM work").await?;
                    assert!(world.lease.renew().await.unwrap());
                    insert(tx, id as u64).await?;
                    Ok::<_, Error>(seen.len())
                })
                .await;
            assert!(saved.is_ok(), "{isolation:?}, {snapshot}: {saved:?}");
        }
        assert_eq!(world.ids().await, [0, 1]);
        world.sandbox.run("DELETE FROM work").await;
    }
    // What the program itself runs into there is contention.
    if product == Product::MariaDb {
        let mut conn = world.conn().await;
        conn.query_drop("SET SESSION innodb_snapshot_isolation = ON").await.unwrap();
        world.sandbox.run("INSERT INTO work (id) VALUES (7)").await;
        let mut tx = world.guard().isolation(Isolation::RepeatableRead).begin(conn).await.unwrap();
        world.sandbox.run("UPDATE work SET note = 'theirs'").await;
        let answer = tx.query_drop("UPDATE work SET note = 'ours'").await;
        assert!(matches!(&answer, Err(Error::Server(error)) if error.code == 1020), "{answer:?}");
        let error = tx.commit().await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::Busy), "{error:?}");
    }
}
