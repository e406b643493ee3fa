//! What is set in the program's session, and what it may bring along.

use std::time::Instant;

use lease_core::store::ClaimAnswer;
use lease_core::{ErrorKind, GuardError, Tenure};
use lease_postgres::{Bounds, Guarded};
use tokio_postgres::Client;

use crate::common::{Sql, hostile_role, role};
use crate::support::{LONG, Scene, TTL, eventually, hold, impatient, is_failed, is_lost, setting};

const SETTINGS: [&str; 8] = [
    "idle_in_transaction_session_timeout",
    "statement_timeout",
    "tcp_user_timeout",
    "client_connection_check_interval",
    "lock_timeout",
    "synchronous_commit",
    "search_path",
    "transaction_isolation",
];

async fn settings(tx: &Guarded<Client>) -> Vec<String> {
    let mut found = Vec::new();
    for name in SETTINGS {
        found.push(setting(tx, name).await);
    }
    found
}

#[tokio::test]
async fn the_bounds_are_set_for_the_transaction_and_no_longer() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let tx = scene.store.guard(&held.tenure).begin(scene.client().await).await.unwrap();
    let own = ["0", "on", "\"$user\", public", "read committed"];
    let bounded = ["1h", "4h", "3600000", "450s"];
    assert_eq!(settings(&tx).await, [&bounded[..], &own].concat());
    let client = tx.commit().await.unwrap();
    for (name, expected) in SETTINGS.iter().zip(["0", "0", "0", "0", "0"]) {
        let row = client.query_one("SELECT current_setting($1)", &[name]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), expected, "{name}");
    }
}

#[tokio::test]
async fn what_the_session_has_set_for_itself_is_in_force_unless_a_bound_is_tighter() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let client = scene.client().await;
    let set = "SET idle_in_transaction_session_timeout = '2d'; SET statement_timeout = '59min'; \
               SET tcp_user_timeout = '2min'; SET client_connection_check_interval = '450001ms'; \
               SET lock_timeout = '7s'; SET synchronous_commit = remote_apply; SET search_path = pg_temp; \
               SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE; \
               SET IntervalStyle = sql_standard";
    client.batch_execute(set).await.unwrap();
    let tx = scene.store.guard(&held.tenure).begin(client).await.unwrap();
    let expected = ["1h", "59min", "120000", "450s", "7s", "remote_apply", "pg_temp", "read committed"];
    assert_eq!(settings(&tx).await, expected);
    let client = tx.rollback().await.unwrap();
    for (name, expected) in SETTINGS.iter().zip([
        "2d",
        "59min",
        "120000",
        "450001ms",
        "7s",
        "remote_apply",
        "pg_temp",
        "serializable",
    ]) {
        let row = client.query_one("SELECT current_setting($1)", &[name]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), expected, "{name}");
    }
}

#[tokio::test]
async fn what_is_committed_is_durable_whatever_the_session_has_set() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    for own in ["off", "local", "remote_write"] {
        let client = scene.client().await;
        client.batch_execute(&format!("SET synchronous_commit = {own}")).await.unwrap();
        let tx = scene.store.guard(&held.tenure).begin(client).await.unwrap();
        assert_eq!(setting(&tx, "synchronous_commit").await, "on");
        let client = tx.commit().await.unwrap();
        let row = client.query_one("SELECT current_setting('synchronous_commit')", &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), own);
    }
}

#[tokio::test]
async fn a_bound_that_is_not_wanted_is_not_set() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let none = Bounds::of_ttl(TTL).idle(None).statement(None).unread(None).check(None);
    let tx = scene.store.guard(&held.tenure).bounds(none).begin(scene.client().await).await.unwrap();
    assert_eq!(settings(&tx).await[..4], ["0", "0", "0", "0"]);
    tx.commit().await.unwrap();
}

/// Begins with a role whose own statement timeout can be in the way.
async fn begin_at(scene: &Scene, tenure: &Tenure, url: &str) -> Result<Guarded<Client>, GuardError> {
    let give_up = Instant::now() + LONG;
    loop {
        match scene.store.guard(tenure).begin(scene.client_at(url).await).await {
            Err(error) if error.kind() == Some(ErrorKind::Busy) => {
                assert!(Instant::now() < give_up, "{error}");
            }
            begun => return begun,
        }
    }
}

#[tokio::test]
async fn hostile_defaults_change_nothing_of_the_promise() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let role = hostile_role(&scene.url).await;
    let tx = begin_at(&scene, &held.tenure, &role.url).await.unwrap();
    let insert = format!("INSERT INTO public.{} VALUES (1)", scene.rows);
    // So that the role's own timeouts do not end it while we look.
    let own = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
    tx.batch_execute(&format!("{own}; {insert}")).await.unwrap();
    let lock_timeout = setting(&tx, "lock_timeout").await;
    scene.expire("a").await;
    assert_eq!(scene.claim("a").await, ClaimAnswer::Held);
    tx.commit().await.unwrap();
    assert_eq!((lock_timeout.as_str(), scene.rows().await.as_slice()), ("1ms", &[1][..]));
    // On the role's `search_path` is a clock that stands still at 1 s.
    scene.run(&format!("UPDATE {} SET expires_at_ms = 2000", scene.table)).await;
    is_lost(begin_at(&scene, &held.tenure, &role.url).await);
    assert!(matches!(scene.claim("a").await, ClaimAnswer::Granted(_)));
}

#[tokio::test]
async fn a_connection_with_a_transaction_left_open_is_refused_and_closed() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    for left in ["", "INSERT INTO rows VALUES (1)", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT 1"]
    {
        let client = scene.client().await;
        client.batch_execute("BEGIN").await.unwrap();
        client.batch_execute(&left.replace("rows", &scene.rows)).await.unwrap();
        is_failed(scene.store.guard(&held.tenure).begin(client).await, ErrorKind::Invalid);
        scene.no_session_is_left().await;
    }
    let client = scene.client().await;
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute("SELECT 1 / 0").await.unwrap_err();
    is_failed(scene.store.guard(&held.tenure).begin(client).await, ErrorKind::Invalid);
    scene.no_session_is_left().await;
    assert_eq!(scene.rows().await, [0; 0]);
}

#[tokio::test]
async fn a_row_that_somebody_keeps_locked_is_contention_and_no_loss() {
    is_contention("SELECT 1 FROM leases FOR UPDATE").await;
}

/// The server waits for the table before it runs any part of the statement.
#[tokio::test]
async fn a_table_that_somebody_keeps_locked_is_contention_and_no_loss() {
    is_contention("LOCK TABLE leases IN ACCESS EXCLUSIVE MODE").await;
}

async fn is_contention(lock: &str) {
    let scene = Scene::new().await;
    let held = hold(&scene.store, "a", impatient()).await;
    let other = Sql::connect(&scene.url).await;
    other.run(&format!("BEGIN; {}", lock.replace("leases", &scene.table))).await;
    let guard = scene.store.guard(&held.tenure);
    let mut kind = None;
    eventually("it is refused by the lock", async || {
        let error = guard.begin(scene.client().await).await.unwrap_err();
        assert!(error.retry_helps(), "{error:?}");
        kind = error.kind();
        // A slow machine may need the whole attempt.
        kind == Some(ErrorKind::Busy)
    })
    .await;
    other.run("ROLLBACK").await;
    guard.begin(scene.client().await).await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_on_within_the_attempt() {
    let scene = Scene::new().await;
    let held = hold(&scene.store, "a", impatient()).await;
    let (proxy, url) = crate::support::proxied(&scene.url);
    let client = scene.client_at(&url).await;
    proxy.hold(lease_testkit::Direction::ToClient);
    let begun = tokio::time::timeout(LONG, scene.store.guard(&held.tenure).begin(client)).await.unwrap();
    is_failed(begun, ErrorKind::Timeout);
}

#[tokio::test]
async fn a_missing_table_is_told_by_its_kind() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    scene.run(&format!("DROP TABLE {}", scene.table)).await;
    is_failed(scene.store.guard(&held.tenure).begin(scene.client().await).await, ErrorKind::Schema);
}

/// Those that the documentation names.
#[tokio::test]
async fn a_role_that_may_only_read_the_leases_and_update_one_column_can_be_guarded() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let role = role(&scene.url, "").await;
    let (table, rows, name) = (&scene.table, &scene.rows, &role.name);
    scene.run(&format!("GRANT SELECT ON {table} TO {name}; GRANT INSERT ON {rows} TO {name}")).await;
    let guard = scene.store.guard(&held.tenure);
    is_failed(guard.begin(scene.client_at(&role.url).await).await, ErrorKind::Denied);
    scene.run(&format!("GRANT UPDATE (address) ON {table} TO {name}")).await;
    let tx = guard.begin(scene.client_at(&role.url).await).await.unwrap();
    tx.execute(&scene.insert(1), &[]).await.unwrap();
    scene.expire("a").await;
    assert_eq!(scene.claim("a").await, ClaimAnswer::Held);
    tx.commit().await.unwrap();
    assert_eq!(scene.rows().await, [1]);
}

#[tokio::test]
async fn a_name_of_any_signs_is_found_whatever_the_session_makes_of_them() {
    let scene = Scene::new().await;
    for name in ["it's \\' a \"b\" $1 ä %", "\\", "''"] {
        let held = scene.hold(name).await;
        let client = scene.client().await;
        client
            .batch_execute("SET standard_conforming_strings = off; SET bytea_output = escape")
            .await
            .unwrap();
        let tx = scene.store.guard(&held.tenure).begin(client).await.unwrap();
        scene.run(&format!("UPDATE {} SET expires_at_ms = 1", scene.table)).await;
        assert_eq!(scene.claim(name).await, ClaimAnswer::Held, "{name}");
        tx.commit().await.unwrap();
    }
}
