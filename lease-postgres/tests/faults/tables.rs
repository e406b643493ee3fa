//! Tables of older and later versions and of other people, and many processes starting at once.

use std::time::Duration;

use futures_util::future::join_all;
use lease_core::store::{ClaimAnswer, RenewAnswer};
use lease_core::{ErrorKind, LeaseStore};
use lease_postgres::PostgresStore;

use crate::checks::says;
use crate::support::{
    LONG, Sandbox, TTL, eventually, granted, holding, is_harmless, name, new_claim, renews, take,
};

/// The table as a version without these columns and the second key would have made it.
fn older(columns: &[&str]) -> String {
    let schema = PostgresStore::schema("leases")
        .unwrap()
        .replace("\"public\".", "")
        .replace(") WITH (fillfactor = 50)", ")");
    let kept = schema.lines().filter(|line| !columns.iter().any(|column| line.trim().starts_with(column)));
    kept.collect::<Vec<_>>().join("\n").replace(",\n)", "\n)")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_table_is_upgraded_by_eight_at_once_and_keeps_its_rows() {
    let sandbox = Sandbox::without_table(&crate::common::shared());
    sandbox.run(&older(&["address", "resign_term", "unfinished_slot_ms", "rerun_slot_ms", "UNIQUE"])).await;
    let insert = "INSERT INTO leases (name, holder, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms) \
                  VALUES ('a', '00000000000000000000000000000000', 41, 1, 2, 3, 4)";
    sandbox.run(insert).await;
    let before = sandbox.store();
    let error = is_harmless(before.check().await, ErrorKind::Schema);
    assert!(error.to_string().contains("has no column \"address\""), "{error}");
    is_harmless(before.claim(&new_claim("a"), LONG).await, ErrorKind::Schema);

    let stores: Vec<_> = (0..8).map(|_| sandbox.store()).collect();
    for upgraded in join_all(stores.iter().map(LeaseStore::migrate)).await {
        upgraded.unwrap();
    }
    before.check().await.unwrap();
    let row = before.inspect(&name("a"), LONG).await.unwrap().row.unwrap();
    assert_eq!((row.term.get(), row.resign_term, row.rerun_slot), (41, 0, None));
    assert_eq!(granted(before.claim(&new_claim("a"), LONG).await).get(), 42);
    let keys = format!("SELECT count(*) FROM pg_index WHERE indrelid = '{}'::regclass", sandbox.table);
    let keys: i64 = sandbox.sql().await.client.query_one(&keys, &[]).await.unwrap().get(0);
    assert_eq!(keys, 2);
}

#[tokio::test]
async fn stores_that_are_at_work_go_on_after_an_upgrade_and_on_a_new_table() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    renews(&store, &held).await;
    sandbox.run("ALTER TABLE leases ADD COLUMN later text NOT NULL DEFAULT 'kept'").await;
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    renews(&store, &held).await;
    assert!(store.inspect(&held.name, LONG).await.unwrap().row.is_some());
    sandbox.run("DROP TABLE leases").await;
    is_harmless(store.renew(&held.name, &held.holder, TTL, LONG).await, ErrorKind::Schema);
    store.migrate().await.unwrap();
    take(&store, "a").await;
}

#[tokio::test]
async fn an_upgrade_behind_a_long_transaction_keeps_no_renewal_waiting() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let held = take(&store, "a").await;
    sandbox.run("ALTER TABLE leases DROP COLUMN rerun_slot_ms").await;
    let other = sandbox.sql().await;
    other.run(&sandbox.text("BEGIN; SELECT FROM leases")).await;
    let migrating = store.clone();
    let migrating = tokio::spawn(async move { migrating.migrate().await });
    let watch = sandbox.sql().await;
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'ALTER TABLE%{}%'",
        sandbox.table
    );
    eventually("the upgrade waits", async || {
        watch.client.query_one(&waits, &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
    // Below the time that the upgrade would wait if it were as patient as other statements.
    let within = Duration::from_secs(8);
    let renewed = store.renew(&held.name, &held.holder, TTL, within).await;
    assert!(matches!(renewed, Ok(RenewAnswer::Renewed(_))), "{renewed:?}");
    assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
    other.run("COMMIT").await;
    // It has tried for some time, and may give up before the other's end; then it is asked again.
    if migrating.await.unwrap().is_err() {
        store.migrate().await.unwrap();
    }
    store.check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_that_start_at_once_without_a_table_share_one() {
    let sandbox = Sandbox::without_table(&crate::common::shared());
    let starts = (0..8).map(|_| {
        let store = sandbox.store();
        async move {
            store.migrate().await.unwrap();
            store.claim(&new_claim("a"), LONG).await.unwrap()
        }
    });
    let answers = join_all(starts).await;
    assert_eq!(answers.iter().filter(|answer| **answer != ClaimAnswer::Held).count(), 1);
}

#[tokio::test]
async fn the_published_schema_is_the_one_that_migrate_makes() {
    let (made, given) = (Sandbox::new().await, Sandbox::without_table(&crate::common::shared()));
    given.sql().await.run(&PostgresStore::schema(&given.table).unwrap()).await;
    given.store().check().await.unwrap();
    let columns = async |sandbox: &Sandbox| {
        let columns = format!(
            "SELECT a.attname::text || ' ' || format_type(a.atttypid, a.atttypmod) || a.attnotnull || a.attcollation
                 || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
             FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
             WHERE a.attrelid = '{}'::regclass AND a.attnum > 0 ORDER BY a.attnum",
            sandbox.table
        );
        let rows = sandbox.sql().await.client.query(&columns, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    assert_eq!(columns(&made).await, columns(&given).await);
}

#[tokio::test]
async fn a_missing_table_column_or_key_is_named() {
    let sandbox = Sandbox::without_table(&crate::common::shared());
    let store = sandbox.store();
    let missing = format!("table {} is missing; run migrate()", sandbox.table);
    says(&store, ErrorKind::Schema, &missing).await;
    let error = is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Schema);
    assert!(error.to_string().starts_with("the lease table is missing (SQLSTATE 42P01: "), "{error}");
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    sandbox.run("ALTER TABLE leases DROP CONSTRAINT leases_name_term_key").await;
    says(&store, ErrorKind::Schema, "no UNIQUE (name, term)").await;
    sandbox.run("ALTER TABLE leases DROP COLUMN rerun_slot_ms").await;
    says(&store, ErrorKind::Schema, "no column \"rerun_slot_ms\"").await;
    let error = is_harmless(store.inspect(&name("a"), LONG).await, ErrorKind::Schema);
    assert!(error.to_string().contains("rerun_slot_ms"), "{error}");
    store.migrate().await.unwrap();
    store.check().await.unwrap();
}

#[tokio::test]
async fn a_table_of_somebody_elses_is_named_and_not_altered() {
    let ddl = PostgresStore::schema("leases").unwrap();
    for (ddl, words) in [
        ("CREATE TABLE leases (tenant text)".to_owned(), "it has no column \"name\""),
        (ddl.replace("term bigint", "term integer"), "column term is integer"),
        (
            ddl.replace("holder text COLLATE \"C\" NOT NULL", "holder text COLLATE \"C\""),
            "holder can be NULL",
        ),
        (ddl.replace("name text COLLATE \"C\"", "name text"), "collated by default"),
        (ddl.replace("NOT NULL PRIMARY KEY", "NOT NULL UNIQUE"), "primary key is not name"),
        ("CREATE VIEW leases AS SELECT 1 AS name".to_owned(), "it is a view"),
        ("CREATE SEQUENCE leases".to_owned(), "it is no table"),
    ] {
        let sandbox = Sandbox::without_table(&crate::common::shared());
        sandbox.run(&ddl.replace("\"public\".", "")).await;
        let columns = async || {
            let count =
                format!("SELECT count(*) FROM pg_attribute WHERE attrelid = '{}'::regclass", sandbox.table);
            sandbox.sql().await.client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0)
        };
        let before = columns().await;
        says(&sandbox.store(), ErrorKind::Schema, words).await;
        is_harmless(sandbox.store().migrate().await, ErrorKind::Schema);
        assert_eq!(columns().await, before);
    }
}

#[tokio::test]
async fn a_table_that_another_inherits_from_is_refused() {
    let sandbox = Sandbox::new().await;
    sandbox.run("CREATE TABLE child_leases () INHERITS (leases)").await;
    says(&sandbox.store(), ErrorKind::Schema, "another table inherits from it").await;
    sandbox.run("DROP TABLE child_leases").await;
    sandbox.store().check().await.unwrap();
}

/// Columns that only ride along in an index are none of its key's.
#[tokio::test]
async fn keys_are_known_by_what_they_keep_apart() {
    let sandbox = Sandbox::new().await;
    sandbox
        .run("ALTER TABLE leases DROP CONSTRAINT leases_pkey; ALTER TABLE leases ADD PRIMARY KEY (name) INCLUDE (holder)")
        .await;
    sandbox.store().check().await.unwrap();
    sandbox
        .run("ALTER TABLE leases DROP CONSTRAINT leases_name_term_key; CREATE UNIQUE INDEX ON leases (name) INCLUDE (term)")
        .await;
    says(&sandbox.store(), ErrorKind::Schema, "no UNIQUE (name, term)").await;
}
