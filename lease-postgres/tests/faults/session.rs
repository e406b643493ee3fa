//! What a session or a transaction of the store's is set to, whatever the role's defaults are.

use lease_core::LeaseStore;
use lease_postgres::deadpool_postgres::{Manager, Pool};
use tokio_postgres::NoTls;

use crate::common::hostile_role;
use crate::support::{LONG, Sandbox, TTL, holding, renews, take};

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
                    OR (name IN ('statement_timeout', 'idle_in_transaction_session_timeout') AND setting <> '0');
                 IF found IS NOT NULL THEN RAISE EXCEPTION '%', found; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER watch BEFORE INSERT OR UPDATE ON leases FOR EACH ROW EXECUTE FUNCTION {watch}()"
        ))
        .await;
    let role = hostile_role(&sandbox.url).await;
    let pool = Pool::builder(Manager::new(role.url.parse().unwrap(), NoTls)).max_size(2).build().unwrap();
    for (n, store) in [
        sandbox.options().open(&role.url).unwrap(),
        sandbox.options().pooler(true).open(&role.url).unwrap(),
        sandbox.options().open_pool(pool).unwrap(),
    ]
    .into_iter()
    .enumerate()
    {
        let held = take(&store, &format!("n{n}")).await;
        renews(&store, &held).await;
        assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
        store.release(&held.name, &held.holder, LONG).await.unwrap();
        store.check().await.unwrap();
    }
}
