//! A pooler in transaction mode, which nobody has told the store of.

use lease_core::LeaseStore;
use lease_core::store::{DbTime, VerifyAnswer};
use test_servers::{PgBouncer, Product, Server, Setup};

use crate::common::Sql;
use crate::support::{LONG, Sandbox, renews, take};

const RELEASE: &str =
    "UPDATE public.leases SET expires_at_ms = 0 WHERE name = $1 AND holder = $2 RETURNING term";

/// The names of the driver, all of them that of another's `release`.
const OTHERS_NAMES: &str = "\
    DO $$ BEGIN FOR n IN 0..4999 LOOP EXECUTE format('PREPARE s%s (text, text) AS {release}', n); END LOOP; END $$";

/// The driver gives the same names to statements in every process. Behind a pooler that hands sessions on, the name of
/// one store's `verify` may be that of another's `release`.
#[tokio::test]
async fn no_statement_of_anothers_is_run_by_its_name() {
    let server = Server::start(Product::Postgres, Setup::default());
    let pooler = PgBouncer::start(&server);
    let sandbox = Sandbox::on(&server.url()).await;
    let store = sandbox.options().open(&pooler.url()).unwrap();
    let held = take(&store, "a").await;
    for _ in 0..2 {
        let verified = store.verify(&held.name, &held.holder, LONG).await.unwrap();
        assert!(matches!(verified, VerifyAnswer::Held(_)), "{verified:?}");
    }
    // The session that the store has used until now is taken, and the next is full of others' names.
    let (first, next) = (Sql::connect(&pooler.url()).await, Sql::connect(&pooler.url()).await);
    first.run("BEGIN").await;
    next.run(&sandbox.text(&OTHERS_NAMES.replace("{release}", RELEASE))).await;
    let verified = store.verify(&held.name, &held.holder, LONG).await.unwrap();
    assert!(matches!(verified, VerifyAnswer::Held(_)), "{verified:?}");
    let row = store.inspect(&held.name, LONG).await.unwrap().row.unwrap();
    assert_ne!(row.expires_at, DbTime::RELEASED, "another's statement has released it");
    renews(&store, &held).await;
    first.run("COMMIT").await;
    for text in ["b", "c", "d"] {
        let claim = take(&store, text).await;
        renews(&store, &claim).await;
    }
}

/// What a program sets in a session that a pooler lends it is there for the next.
#[tokio::test]
async fn whatever_another_has_set_in_the_session_meanwhile_a_statement_runs_with_what_it_relies_on() {
    let server = Server::start(Product::Postgres, Setup::default());
    let pooler = PgBouncer::start(&server);
    let sandbox = Sandbox::on(&server.url()).await;
    sandbox.watch_settings().await;
    for (n, setting) in [
        "synchronous_commit = off",
        "statement_timeout = '50s'",
        "default_transaction_isolation = serializable",
        "default_transaction_read_only = on",
        "search_path = public, pg_catalog",
    ]
    .into_iter()
    .enumerate()
    {
        let store = sandbox.options().open(&pooler.url()).unwrap();
        let held = take(&store, &format!("n{n}")).await;
        renews(&store, &held).await;
        // The one session that lies idle in the pooler is given to each in turn.
        let other = Sql::connect(&pooler.url()).await;
        other.run(&format!("SET {setting}")).await;
        renews(&store, &held).await;
        assert!(matches!(store.verify(&held.name, &held.holder, LONG).await.unwrap(), VerifyAnswer::Held(_)));
        other.run("RESET ALL").await;
    }
}
