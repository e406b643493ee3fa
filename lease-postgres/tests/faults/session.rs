//! What a session or a transaction of the store's is set to, whatever the role's defaults are.

use std::time::Duration;

use lease_core::LeaseStore;
use lease_postgres::deadpool_postgres::{Manager, Pool};
use tokio_postgres::NoTls;

use crate::common::hostile_role;
use crate::support::{LONG, Sandbox, TTL, granted, holding, name, new_claim, renews, take};

#[tokio::test]
async fn every_statement_runs_with_what_it_relies_on() {
    let sandbox = Sandbox::new().await;
    let watch = sandbox.text("watch_leases");
    sandbox
        .run(&format!(
            "CREATE FUNCTION {watch}() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE found text; BEGIN
                 SELECT string_agg(name || ' = ' || setting, ', ') INTO found FROM pg_settings
                 WHERE (name, setting) IN (('transaction_read_only', 'on'), ('synchronous_commit', 'off'), ('lock_timeout', '0'))
                    OR (name = 'transaction_isolation' AND setting <> 'read committed')
                    OR (name = 'statement_timeout' AND setting <> '0')
                    OR (name = 'idle_in_transaction_session_timeout' AND setting <> '10000')
                    OR (name = 'search_path' AND replace(setting, chr(34), '') <> 'pg_catalog, pg_temp');
                 IF EXISTS (SELECT FROM pg_prepared_statements) THEN found := 'a name for a statement'; END IF;
                 IF found IS NOT NULL THEN RAISE EXCEPTION '%', found; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER watch BEFORE INSERT OR UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION {watch}()"
        ))
        .await;
    let role = hostile_role(&sandbox.url).await;
    let pool = Pool::builder(Manager::new(role.url.parse().unwrap(), NoTls)).max_size(2).build().unwrap();
    for (n, store) in
        [sandbox.options().open(&role.url).unwrap(), sandbox.options().open_pool(pool.clone()).unwrap()]
            .into_iter()
            .enumerate()
    {
        let held = take(&store, &format!("n{n}")).await;
        renews(&store, &held).await;
        assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
        store.release(&held.name, &held.holder, LONG).await.unwrap();
        store.check().await.unwrap();
    }
    // Nor is anything left behind in a session.
    let client = pool.get().await.unwrap();
    let left = client.query("SELECT name FROM pg_settings WHERE source = 'session'", &[]).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// Where a role's transactions are serializable, read-only and deferrable, the first thing they do is to wait for
/// others' to end.
#[tokio::test]
async fn a_connection_waits_for_nobodys_serializable_transaction() {
    let sandbox = Sandbox::new().await;
    let role = hostile_role(&sandbox.url).await;
    let other = sandbox.sql().await;
    other
        .run(
            &sandbox
                .text("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT FROM leases; UPDATE leases SET term = 1"),
        )
        .await;
    let store = sandbox.options().open(&role.url).unwrap();
    let claim = new_claim("a");
    granted(store.claim(&claim, Duration::from_secs(20)).await);
    other.run("COMMIT").await;
}

/// What a program has forgotten to end is not ended by a statement of the store's.
#[tokio::test]
async fn a_transaction_left_open_in_the_programs_pool_is_not_committed() {
    let sandbox = Sandbox::new().await;
    let pool = Pool::builder(Manager::new(sandbox.url.parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let store = sandbox.options().open_pool(pool.clone()).unwrap();
    for begin in ["BEGIN", "BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN READ ONLY", "BEGIN; SELECT 1 / 0"] {
        let left = pool.get().await.unwrap();
        let _ = left.batch_execute(begin).await;
        let _ = left
            .batch_execute(&sandbox.text(
                "INSERT INTO leases (name, holder, term, claimed_at_ms, renewed_at_ms, expires_at_ms, ttl_ms)
                 VALUES ('left', '00000000000000000000000000000000', 41, 1, 2, 3, 4); SELECT FROM leases",
            ))
            .await;
        drop(left);
        take(&store, &format!("after {begin}")).await;
        assert_eq!(store.inspect(&name("left"), LONG).await.unwrap().row, None, "{begin}");
    }
}
