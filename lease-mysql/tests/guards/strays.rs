//! What was committed by hand is never said to be rolled back, nor is a rollback taken for anything else.

use lease_core::guard::{GuardError, GuardedError};
use lease_core::{ErrorKind, LeaseStore};
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Error, Row};
use lease_testkit::Direction::ToClient;
use test_servers::Product;

use crate::support::{Sandbox, on_both, with_options};
use crate::world::{World, insert, proxy, through, until};

on_both! {
    what_a_procedure_has_committed_is_not_rolled_back
    what_was_committed_by_hand_before_a_deadlock_is_not_rolled_back
    a_connection_that_dies_in_a_statement_that_commits_is_no_rollback
    a_batch_without_rows_ends_nothing
    a_deadlock_is_contention_without_a_list_of_errors
    a_wait_that_rolls_all_back_is_contention
    a_transaction_that_was_swapped_is_refused
}

/// Waits for a row that `other` has, while `other` waits for one that `ours` takes meanwhile: ours is the victim.
async fn deadlock<T>(world: &World, ours: impl Future<Output = T>) -> T {
    let mut other = world.conn().await;
    other.query_drop("START TRANSACTION").await.unwrap();
    // The one that has written less is the victim.
    other.query_drop("INSERT INTO work (id) VALUES (101), (102), (103), (104), (105), (106)").await.unwrap();
    other.query_drop("SELECT * FROM work WHERE id = 1 FOR UPDATE").await.unwrap();
    let theirs = async {
        // Until ours has the row.
        until("the row is locked", async || {
            let mut look = world.conn().await;
            let nowait = "SELECT id FROM work WHERE id = 2 FOR UPDATE NOWAIT";
            look.query::<u64, _>(nowait).await.is_err()
        })
        .await;
        other.query_drop("SELECT * FROM work WHERE id = 2 FOR UPDATE").await.unwrap();
        other.query_drop("ROLLBACK").await.unwrap();
    };
    tokio::join!(ours, theirs).0
}

fn is_deadlock<T: std::fmt::Debug>(answer: &Result<T, Error>) {
    assert!(matches!(answer, Err(Error::Server(error)) if error.code == 1213), "{answer:?}");
}

async fn what_a_procedure_has_committed_is_not_rolled_back(product: Product) {
    let world = World::new(product).await;
    world.sandbox.run("INSERT INTO work (id) VALUES (1), (2)").await;
    world
        .sandbox
        .run(
            "CREATE PROCEDURE p(n INT) BEGIN INSERT INTO work (id) VALUES (n); COMMIT;
             SELECT * FROM work WHERE id = 2 FOR UPDATE; SELECT * FROM work WHERE id = 1 FOR UPDATE; END",
        )
        .await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    is_deadlock(&deadlock(&world, tx.query_drop("CALL p(50)")).await);
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Ended(_)), "{error:?}");
    // Prepared, too.
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    is_deadlock(&deadlock(&world, tx.exec_drop("CALL p(?)", (51,))).await);
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Ended(_)), "{error:?}");
    // And the work's own error does not hide it.
    let (guard, conn) = (world.guard(), world.conn().await);
    let run = guard.run(conn, async |tx| {
        insert(tx, 30).await?;
        tx.query_drop("CALL p(52)").await
    });
    let answer = deadlock(&world, run).await;
    assert!(matches!(answer, Err(GuardedError::Guard(GuardError::Ended(_)))), "{answer:?}");
    assert_eq!(world.ids().await, [1, 2, 30, 50, 51, 52]);
}

async fn what_was_committed_by_hand_before_a_deadlock_is_not_rolled_back(product: Product) {
    let world = World::new(product).await;
    world.sandbox.run("INSERT INTO work (id) VALUES (1), (2)").await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 3).await.unwrap();
    tx.query_drop("COMMIT; START TRANSACTION").await.unwrap();
    let ours = async {
        let _: Vec<Row> = tx.query("SELECT * FROM work WHERE id = 2 FOR UPDATE").await.unwrap();
        tx.query_drop("UPDATE work SET note = 'x' WHERE id = 1").await
    };
    is_deadlock(&deadlock(&world, ours).await);
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Ended(_)), "{error:?}");
    assert_eq!(world.ids().await, [1, 2, 3]);
}

async fn a_connection_that_dies_in_a_statement_that_commits_is_no_rollback(product: Product) {
    let world = World::new(product).await;
    let proxy = proxy(&world.sandbox);
    for id in 0..3 {
        let mut tx = world.guard().begin(through(&proxy, &world.sandbox).await).await.unwrap();
        tx.query_drop(format!("INSERT INTO work (id) VALUES ({id})")).await.unwrap();
        let sql = format!("CREATE TABLE t{id} (a INT)");
        if id == 0 {
            proxy.cut_before(1, ToClient);
            tx.query_drop(sql).await.unwrap_err();
        } else if id == 1 {
            // Its preparation is answered.
            proxy.hold(ToClient);
            let statement = Box::pin(tx.exec_drop(sql, ()));
            proxy.cut_before(2, ToClient);
            proxy.release(ToClient);
            statement.await.unwrap_err();
        } else {
            // A result of which the rest is still to come.
            let result = tx.query_iter(format!("SELECT 1; {sql}")).await.unwrap();
            drop(result);
            proxy.cut();
        }
        let error = tx.commit().await.unwrap_err();
        // Of a prepared statement nobody but the driver knows whether it commits.
        let is_prepared = id == 1;
        assert!(
            matches!((&error, is_prepared), (GuardError::Ended(_), false) | (GuardError::Unknown(_), true)),
            "{id}: {error:?}"
        );
        assert!(!error.retry_helps());
        if id < 2 {
            until("it is committed", async || world.ids().await.contains(&id)).await;
        }
    }
    // What cannot have committed is only undone.
    let mut tx = world.guard().begin(through(&proxy, &world.sandbox).await).await.unwrap();
    tx.query_drop("INSERT INTO work (id) VALUES (9)").await.unwrap();
    proxy.cut_before(1, ToClient);
    tx.query_drop("UPDATE work SET note = 'x'").await.unwrap_err();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Failed(_)) && error.retry_helps(), "{error:?}");
    assert!(!world.ids().await.contains(&9));
}

async fn a_batch_without_rows_ends_nothing(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    tx.exec_batch("UPDATE work SET note = 'x' WHERE id = ?", Vec::<(u64,)>::new()).await.unwrap();
    insert(&mut tx, 2).await.unwrap();
    tx.exec_batch("UPDATE work SET note = 'y' WHERE id = ?", Vec::<(u64,)>::new()).await.unwrap();
    tx.exec_batch("INSERT INTO work (id) VALUES (?)", [(3,), (4,)]).await.unwrap();
    tx.exec_batch("UPDATE work SET note = 'z' WHERE id = ?", Vec::<(u64,)>::new()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(world.ids().await, [1, 2, 3, 4]);
}

async fn a_deadlock_is_contention_without_a_list_of_errors(product: Product) {
    let world = World::new(product).await;
    world.sandbox.run("INSERT INTO work (id) VALUES (1), (2)").await;
    let update = "UPDATE work SET note = 'x' WHERE id = 1";
    for prepared in [false, true] {
        let mut conn = world.conn().await;
        conn.query_drop("SET SESSION max_error_count = 0, sql_select_limit = 0").await.unwrap();
        let mut tx = world.guard().begin(conn).await.unwrap();
        let ours = async {
            let _: Vec<Row> = tx.query("SELECT * FROM work WHERE id = 2 LIMIT 1 FOR UPDATE").await.unwrap();
            if prepared { tx.exec_drop(update, ()).await } else { tx.query_drop(update).await }
        };
        is_deadlock(&deadlock(&world, ours).await);
        let error = tx.commit().await.unwrap_err();
        assert!(error.retry_helps(), "{prepared}: {error:?}");
    }
}

async fn a_wait_that_rolls_all_back_is_contention(product: Product) {
    let server = with_options(product, &["--innodb-rollback-on-timeout=ON"]).await;
    let sandbox = Sandbox::empty(&server.url()).await;
    sandbox.store().migrate().await.unwrap();
    let world = World::new_in(sandbox).await;
    let mut other = world.conn().await;
    other.query_drop("START TRANSACTION").await.unwrap();
    other.query_drop("SELECT * FROM leases FOR UPDATE").await.unwrap();
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, GuardError::Failed(_)), "{error:?}");
    assert_eq!(error.kind(), Some(ErrorKind::Busy));
    assert_eq!(world.ids().await, [0; 0]);
}

async fn a_transaction_that_was_swapped_is_refused(product: Product) {
    let world = World::new(product).await;
    let mut other = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut other, 1).await.unwrap();
    let answer = world
        .guard()
        .run(world.conn().await, async |tx| {
            insert(tx, 2).await?;
            std::mem::swap(tx, &mut other);
            Ok::<_, Error>(())
        })
        .await;
    assert!(matches!(&answer, Err(GuardedError::Guard(error)) if error.kind() == Some(ErrorKind::Invalid)));
    let error = other.commit().await.unwrap_err();
    assert!(!error.retry_helps(), "{error:?}");
    assert_eq!(world.ids().await, [0; 0]);
}
