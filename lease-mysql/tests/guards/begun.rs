//! Beginning, and what the session is meanwhile and afterwards.

use std::time::Duration;

use lease_core::guard::GuardError;
use lease_core::{ErrorKind, LossReason};
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::{Bounds, Guarded, Isolation};
use test_servers::Product;

use crate::support::on_both;
use crate::world::{World, insert, locks, proxy, through};

on_both! {
    a_transaction_commits_and_gives_the_connection_back
    a_transaction_is_rolled_back_and_gives_the_connection_back
    nothing_is_run_under_a_lost_lease
    the_level_is_the_guards_whatever_the_sessions_is
    the_session_is_the_users_during_and_after
    the_bounds_are_never_looser_than_the_sessions_own
    a_connection_with_an_open_transaction_is_refused_and_closed
    it_costs_as_many_round_trips_as_a_plain_transaction
    hostile_settings_break_nothing
}

async fn a_transaction_commits_and_gives_the_connection_back(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    assert_eq!(tx.affected_rows(), 1);
    tx.query_drop("INSERT INTO work (id) VALUES (2)").await.unwrap();
    let rows: Vec<u64> = tx.query("SELECT id FROM work ORDER BY id").await.unwrap();
    assert_eq!(rows, [1, 2]);
    assert_eq!(world.ids().await, [0; 0]);
    let mut conn = tx.commit().await.unwrap();
    assert_eq!(world.ids().await, [1, 2]);
    // In autocommit again.
    insert(&mut conn, 3).await.unwrap();
    assert_eq!(world.ids().await, [1, 2, 3]);
}

async fn a_transaction_is_rolled_back_and_gives_the_connection_back(product: Product) {
    let world = World::new(product).await;
    let mut tx = world.guard().begin(world.conn().await).await.unwrap();
    insert(&mut tx, 1).await.unwrap();
    let mut conn = tx.rollback().await.unwrap();
    insert(&mut conn, 2).await.unwrap();
    assert_eq!(world.ids().await, [2]);
}

async fn nothing_is_run_under_a_lost_lease(product: Product) {
    let world = World::new(product).await;
    world.expire().await;
    let pool = world.pool(vec!["SET @mine = 1"]);
    let conn = pool.get_conn().await.unwrap();
    let id = conn.id();
    let answer = world.guard().begin(conn).await;
    assert!(matches!(answer, Err(GuardError::Lost(LossReason::Refused))), "{answer:?}");
    // Its session is as it was.
    let mut conn = pool.get_conn().await.unwrap();
    assert_eq!(conn.id(), id);
    assert_eq!(locks(&mut conn).await, 0);
    insert(&mut conn, 1).await.unwrap();
    assert_eq!(world.ids().await, [1]);
    drop(conn);
    // And when the holder knows, nothing is even sent.
    assert!(!world.lease.renew().await.unwrap());
    let answer = world.guard().begin(pool.get_conn().await.unwrap()).await;
    assert!(matches!(answer, Err(GuardError::Lost(LossReason::Refused))), "{answer:?}");
    pool.disconnect().await.unwrap();
}

async fn the_level_is_the_guards_whatever_the_sessions_is(product: Product) {
    let world = World::new(product).await;
    let mut other = world.conn().await;
    other.query_drop("SET autocommit = 0").await.unwrap();
    for session in [
        "ISOLATION LEVEL SERIALIZABLE, READ ONLY",
        "ISOLATION LEVEL READ UNCOMMITTED",
        "ISOLATION LEVEL REPEATABLE READ",
    ] {
        for (isolation, sees) in [(Isolation::ReadCommitted, 1), (Isolation::RepeatableRead, 0)] {
            let mut conn = world.conn().await;
            conn.query_drop(format!("SET SESSION TRANSACTION {session}")).await.unwrap();
            let mut tx = world.guard().isolation(isolation).begin(conn).await.unwrap();
            insert(&mut tx, 1).await.unwrap();
            insert(&mut other, 2).await.unwrap();
            let seen = async |tx: &mut Guarded| -> u64 {
                tx.query_first("SELECT COUNT(*) FROM work WHERE id = 2").await.unwrap().unwrap()
            };
            assert_eq!(seen(&mut tx).await, 0, "not committed, {session}");
            other.query_drop("COMMIT").await.unwrap();
            assert_eq!(seen(&mut tx).await, sees, "committed, {isolation:?}, {session}");
            // Serializable would have locked the lease's row.
            assert!(world.lease.renew().await.unwrap());
            let mut conn = tx.rollback().await.unwrap();
            // And it was for this transaction only.
            let variable = if product == Product::MariaDb { "tx_isolation" } else { "transaction_isolation" };
            let level: Option<String> =
                conn.query_first(format!("SELECT @@SESSION.{variable}")).await.unwrap();
            assert!(session.contains(&level.unwrap().replace('-', " ")), "{session}");
            world.sandbox.run("DELETE FROM work").await;
        }
    }
}

async fn the_session_is_the_users_during_and_after(product: Product) {
    let world = World::new(product).await;
    let mut settings = vec![
        ("sql_mode", "ANSI"),
        ("character_set_client", "latin1"),
        ("innodb_lock_wait_timeout", "7"),
        ("lock_wait_timeout", "1003"),
        ("net_write_timeout", "100"),
        ("net_read_timeout", "101"),
        ("wait_timeout", "10002"),
        ("autocommit", "0"),
        ("sql_select_limit", "5"),
    ];
    settings.push(match product {
        Product::MariaDb => ("max_statement_time", "11.5"),
        _ => ("max_execution_time", "11500"),
    });
    let kept = |settings: &[(&str, &str)]| {
        let all: Vec<_> = settings.iter().map(|(name, _)| format!("@@SESSION.{name}")).collect();
        format!("SELECT CONCAT_WS(' ', {})", all.join(", "))
    };
    for commits in [true, false] {
        let mut conn = world.conn().await;
        for (name, value) in &settings {
            let value = if name.starts_with("sql_mode") { format!("'{value}'") } else { (*value).to_owned() };
            conn.query_drop(format!("SET SESSION {name} = {value}")).await.unwrap();
        }
        let before: Option<String> = conn.query_first(kept(&settings)).await.unwrap();
        conn.query_drop("COMMIT").await.unwrap();
        let guard = world.guard().bounds(Bounds::of_ttl(Duration::from_secs(4)));
        let mut tx = guard.begin(conn).await.unwrap();
        // Double quotes are names to this user, and what the guard does not set is as it was.
        tx.query_drop("INSERT INTO \"work\" (\"id\") VALUES (1)").await.unwrap();
        let during: Option<String> = tx.query_first(kept(&settings[..4])).await.unwrap();
        assert!(during.unwrap().ends_with("latin1 7 1003"));
        // What the program sets meanwhile stays.
        tx.query_drop("SET SESSION innodb_lock_wait_timeout = 8").await.unwrap();
        let mut conn = if commits { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() };
        let after: Option<String> = conn.query_first(kept(&settings)).await.unwrap();
        assert_eq!(after.unwrap(), before.unwrap().replace(" 7 ", " 8 "), "{commits}");
        let left: Option<Option<String>> = conn
            .query_first(
                "SELECT CONCAT_WS(' ', @lease_autocommit, @lease_idle, @lease_sending, @lease_unread, @lease_lock_wait,
                                  @lease_ddl_wait, @lease_snapshot, @lease_statement, @lease_rows, @lease_scans)",
            )
            .await
            .unwrap();
        assert_eq!(left.unwrap().unwrap(), "");
        assert_eq!(locks(&mut conn).await, 0);
        assert_eq!(world.ids().await.len(), usize::from(commits));
        world.sandbox.run("DELETE FROM work").await;
    }
}

async fn the_bounds_are_never_looser_than_the_sessions_own(product: Product) {
    let world = World::new(product).await;
    let (statement, unit) = match product {
        Product::MariaDb => ("max_statement_time", 1),
        _ => ("max_execution_time", 1000),
    };
    let none = Bounds::of_ttl(Duration::ZERO).idle(None).statement(None).unread(None);
    let seconds = Duration::from_secs;
    let bounds = none.idle(seconds(40)).statement(seconds(30)).unread(seconds(20));
    let look = format!(
        "SELECT CAST(@@wait_timeout AS SIGNED), CAST(@@net_read_timeout AS SIGNED), CAST(@@net_write_timeout AS SIGNED), CAST(@@{statement} AS SIGNED)"
    );
    for (set, bounds, then) in [
        ((28800, 60, 60, 0), bounds, (40, 40, 20, 30 * unit)),
        ((39, 30, 19, 29 * unit), bounds, (39, 30, 19, 29 * unit)),
        ((39, 30, 19, 29 * unit), none, (39, 30, 19, 29 * unit)),
        ((28800, 60, 60, 0), none, (28800, 60, 60, 0)),
    ] {
        let mut conn = world.conn().await;
        conn.query_drop(format!(
            "SET SESSION wait_timeout = {}, net_read_timeout = {}, net_write_timeout = {}, {statement} = {}",
            set.0, set.1, set.2, set.3
        ))
        .await
        .unwrap();
        let mut tx = world.guard().bounds(bounds).begin(conn).await.unwrap();
        let during: Option<(i64, i64, i64, i64)> = tx.query_first(look.as_str()).await.unwrap();
        assert_eq!(during.unwrap(), then);
        let mut conn = tx.commit().await.unwrap();
        let after: Option<(i64, i64, i64, i64)> = conn.query_first(look.as_str()).await.unwrap();
        assert_eq!(after.unwrap(), set);
    }
}

async fn a_connection_with_an_open_transaction_is_refused_and_closed(product: Product) {
    let world = World::new(product).await;
    for begun in ["START TRANSACTION", "SET autocommit = 0"] {
        let pool = world.pool(Vec::new());
        let mut conn = pool.get_conn().await.unwrap();
        conn.query_drop(begun).await.unwrap();
        insert(&mut conn, 1).await.unwrap();
        let id = conn.id();
        let error = world.guard().begin(conn).await.unwrap_err();
        assert!(matches!(error, GuardError::Failed(_)), "{error:?}");
        assert_eq!(error.kind(), Some(ErrorKind::Invalid));
        assert!(!error.retry_helps());
        world.gone(id).await;
        assert_ne!(pool.get_conn().await.unwrap().id(), id);
        assert_eq!(world.ids().await, [0; 0]);
        pool.disconnect().await.unwrap();
    }
}

async fn it_costs_as_many_round_trips_as_a_plain_transaction(product: Product) {
    let world = World::new(product).await;
    let proxy = proxy(&world.sandbox);
    let conn = through(&proxy, &world.sandbox).await;
    proxy.reset();
    let mut tx = world.guard().begin(conn).await.unwrap();
    assert_eq!(proxy.trips(), 1, "begin: {:?}", proxy.log());
    tx.query_drop("INSERT INTO work (id) VALUES (1)").await.unwrap();
    assert_eq!(proxy.trips(), 2, "a statement: {:?}", proxy.log());
    let conn = tx.commit().await.unwrap();
    assert_eq!(proxy.trips(), 3, "commit: {:?}", proxy.log());
    proxy.reset();
    let tx = world.guard().isolation(Isolation::RepeatableRead).begin(conn).await.unwrap();
    let conn = tx.rollback().await.unwrap();
    assert_eq!(proxy.trips(), 2, "begin and rollback: {:?}", proxy.log());
    proxy.reset();
    // Preparing by hand says nothing of the transaction, and costs no look at it.
    let mut tx = world.guard().begin(conn).await.unwrap();
    let statement = tx.prep("INSERT INTO work (id) VALUES (?)").await.unwrap();
    tx.exec_drop(&statement, (2,)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(proxy.trips(), 4, "prepared: {:?}", proxy.log());
    assert_eq!(world.ids().await, [1, 2]);
}

async fn hostile_settings_break_nothing(product: Product) {
    let world = World::new(product).await;
    let mode = match product {
        Product::MariaDb => "ORACLE,EMPTY_STRING_IS_NULL,ANSI_QUOTES,HIGH_NOT_PRECEDENCE",
        _ => "ANSI,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE",
    };
    let hostile = format!(
        "SET SESSION sql_mode = '{mode}', completion_type = 'RELEASE', sql_select_limit = 0, sql_safe_updates = 1,
                     sql_big_selects = 0, max_join_size = 1, time_zone = '+05:30', max_error_count = 0"
    );
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let mut conn = world.conn().await;
        conn.query_drop(&hostile).await.unwrap();
        let mut tx = world.guard().isolation(isolation).begin(conn).await.unwrap();
        tx.query_drop("INSERT INTO work (id) VALUES (1)").await.unwrap();
        tx.query_drop("INSERT INTO work (id) VALUES (1)").await.unwrap_err();
        let conn = tx.commit().await.unwrap();
        assert_eq!(world.ids().await, [1]);
        world.sandbox.run("DELETE FROM work").await;
        // Nor the refusal.
        let mut tx = world.guard().isolation(isolation).begin(conn).await.unwrap();
        tx.query_drop("INSERT INTO work (id) VALUES (2)").await.unwrap();
        let expiry: u64 = world.ask("SELECT expires_at_ms FROM leases").await[0];
        world.expire().await;
        let error = tx.commit().await.unwrap_err();
        assert!(matches!(error, GuardError::Lost(LossReason::Refused)), "{error:?}");
        world.sandbox.run(format!("UPDATE leases SET expires_at_ms = {expiry}")).await;
        assert_eq!(world.ids().await, [0; 0]);
    }
}
