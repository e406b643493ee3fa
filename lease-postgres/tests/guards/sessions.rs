//! What is set in the program's session, and what it may bring along.

use std::time::Duration;

use lease_core::store::ClaimAnswer;
use lease_core::{ErrorKind, TimingParts, Timings};
use lease_postgres::Bounds;

use crate::common::{Sql, hostile_role, role};
use crate::support::{LONG, Scene, TTL, eventually, hold, is_failed, setting};

const SETTINGS: [&str; 7] = [
    "idle_in_transaction_session_timeout",
    "statement_timeout",
    "tcp_user_timeout",
    "client_connection_check_interval",
    "lock_timeout",
    "search_path",
    "transaction_isolation",
];

async fn settings(tx: &lease_postgres::Guarded<tokio_postgres::Client>) -> Vec<String> {
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
    let own = ["0", "\"$user\", public", "read committed"];
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
               SET lock_timeout = '7s'; SET search_path = pg_temp; \
               SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE; \
               SET IntervalStyle = sql_standard";
    client.batch_execute(set).await.unwrap();
    let tx = scene.store.guard(&held.tenure).begin(client).await.unwrap();
    let expected = ["1h", "59min", "120000", "450s", "7s", "pg_temp", "read committed"];
    assert_eq!(settings(&tx).await, expected);
    let client = tx.rollback().await.unwrap();
    for (name, expected) in
        SETTINGS.iter().zip(["2d", "59min", "120000", "450001ms", "7s", "pg_temp", "serializable"])
    {
        let row = client.query_one("SELECT current_setting($1)", &[name]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), expected, "{name}");
    }
}

#[tokio::test]
async fn a_bound_that_is_not_wanted_is_not_set() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let none = Bounds { idle: None, statement: None, unread: None, check: None };
    let tx = scene.store.guard(&held.tenure).bounds(none).begin(scene.client().await).await.unwrap();
    assert_eq!(settings(&tx).await[..4], ["0", "0", "0", "0"]);
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn hostile_defaults_change_nothing_of_the_promise() {
    let scene = Scene::new().await;
    let held = scene.hold("a").await;
    let role = hostile_role(&scene.url).await;
    let give_up = std::time::Instant::now() + LONG;
    let tx = loop {
        match scene.store.guard(&held.tenure).begin(scene.client_at(&role.url).await).await {
            Ok(tx) => break tx,
            // Of the role's own statement timeout.
            Err(error) if error.kind() == Some(ErrorKind::Busy) => {
                assert!(std::time::Instant::now() < give_up, "{error}");
            }
            Err(error) => panic!("{error:?}"),
        }
    };
    let insert = format!("INSERT INTO public.{} VALUES (1)", scene.rows);
    // So that the role's own timeouts do not end it while we look.
    let own = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
    tx.batch_execute(&format!("{own}; {insert}")).await.unwrap();
    let lock_timeout = setting(&tx, "lock_timeout").await;
    scene.expire("a").await;
    assert_eq!(scene.claim("a").await, ClaimAnswer::Held);
    tx.commit().await.unwrap();
    assert_eq!((lock_timeout.as_str(), scene.rows().await.as_slice()), ("1ms", &[1][..]));
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
        is_failed(scene.store.guard(&held.tenure).begin(client).await, ErrorKind::Unavailable);
        scene.no_session_is_left().await;
    }
    let client = scene.client().await;
    client.batch_execute("BEGIN").await.unwrap();
    client.batch_execute("SELECT 1 / 0").await.unwrap_err();
    is_failed(scene.store.guard(&held.tenure).begin(client).await, ErrorKind::Unavailable);
    scene.no_session_is_left().await;
    assert_eq!(scene.rows().await, [0; 0]);
}

#[tokio::test]
async fn a_row_that_somebody_keeps_locked_is_contention_and_no_loss() {
    let scene = Scene::new().await;
    // An attempt that ends soon, under a lease that lasts.
    let parts = TimingParts {
        ttl: TTL,
        renew: Duration::from_secs(1),
        attempt: Duration::from_secs(2),
        deadline: TTL / 2,
        grace: TTL / 4,
        margin: TTL / 8,
    };
    let held = hold(&scene.store, "a", Timings::new(parts).unwrap()).await;
    let other = Sql::connect(&scene.url).await;
    other.run(&format!("BEGIN; SELECT 1 FROM {} FOR UPDATE", scene.table)).await;
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
    let parts = TimingParts {
        ttl: TTL,
        renew: Duration::from_secs(1),
        attempt: Duration::from_secs(2),
        deadline: TTL / 2,
        grace: TTL / 4,
        margin: TTL / 8,
    };
    let held = hold(&scene.store, "a", Timings::new(parts).unwrap()).await;
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
