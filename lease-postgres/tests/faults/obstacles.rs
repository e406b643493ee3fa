//! What keeps a database from carrying leases, each with its own words. None of them holds a password.

use lease_core::store::StoreError;
use lease_core::{ErrorKind, LeaseStore};
use lease_postgres::PostgresStore;
use lease_postgres::deadpool_postgres::{Manager, Pool};
use test_servers::{Product, Server, Setup};
use tokio_postgres::NoTls;

use crate::common::role;
use crate::support::{LONG, Sandbox, database, is_harmless, name, new_claim, take, with_database};

/// What `check` says, which must be this kind and hold these words, and no password.
async fn says(store: &PostgresStore, kind: ErrorKind, words: &str) -> StoreError {
    let error = is_harmless(store.check().await, kind);
    assert!(error.to_string().contains(words), "{error:?} should say {words:?}");
    let all = format!("{error} {error:?} {} {store:?}", store.describe());
    assert!(!all.contains("secret"), "the password is in {all}");
    error
}

/// A server that wants passwords, of all but its superuser.
fn server_with_passwords() -> Server {
    let rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    let files = vec![("pg_hba.conf".to_owned(), rules.to_owned())];
    Server::start(Product::Postgres, Setup { files, ..Setup::default() })
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_unavailable() {
    let open = |url: &str| PostgresStore::open(url).unwrap();
    says(&open("postgres://me:secret@127.0.0.1:1/db"), ErrorKind::Unavailable, "refused").await;
    says(&open("postgres://me:secret@no-such-host.invalid/db"), ErrorKind::Unavailable, "").await;
    says(&open("postgres://me:secret@%2Fno%2Fsuch%2Ffolder/db"), ErrorKind::Unavailable, "").await;
}

#[tokio::test]
async fn a_login_that_is_refused_is_denied_and_a_missing_database_is_named() {
    let server = server_with_passwords();
    let owner = server.url();
    let role = role(&owner, "").await;
    PostgresStore::open(&role.url).unwrap().check().await.unwrap_err();
    let with_password = |password: &str| PostgresStore::open(&role.url.replace(":secret", password)).unwrap();
    says(&with_password(":wrong-secret"), ErrorKind::Denied, "28P01").await;
    says(&with_password(""), ErrorKind::Denied, "password missing").await;
    let stranger = owner.replace("postgres@", "stranger:secret@");
    says(&PostgresStore::open(&stranger).unwrap(), ErrorKind::Denied, "28P01").await;
    let missing = PostgresStore::open(&with_database(&role.url, "no_such_database")).unwrap();
    says(&missing, ErrorKind::Invalid, "no_such_database").await;
    // The right password and database: what is missing now is the table.
    says(&PostgresStore::open(&role.url).unwrap(), ErrorKind::Schema, "table leases is missing").await;
}

#[tokio::test]
async fn a_database_in_another_encoding_is_refused() {
    let url = database(&crate::common::shared(), "ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0").await;
    let sandbox = Sandbox::on(&url).await;
    says(&sandbox.store(), ErrorKind::Unsupported, "SQL_ASCII").await;
}

#[tokio::test]
async fn a_missing_table_column_or_key_is_named() {
    let sandbox = Sandbox::without_table(&crate::common::shared());
    let store = sandbox.store();
    let missing = format!("table {} is missing; run migrate()", sandbox.table);
    says(&store, ErrorKind::Schema, &missing).await;
    let error = is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Schema);
    assert!(error.to_string().starts_with("the lease table is missing; run migrate()"), "{error}");
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    sandbox.run("ALTER TABLE leases DROP CONSTRAINT leases_name_term_key").await;
    says(&store, ErrorKind::Schema, "no UNIQUE (name, term)").await;
    sandbox.run("ALTER TABLE leases DROP COLUMN rerun_slot_ms").await;
    says(&store, ErrorKind::Schema, "no column rerun_slot_ms").await;
    let error = is_harmless(store.inspect(&name("a"), LONG).await, ErrorKind::Schema);
    assert!(error.to_string().contains("rerun_slot_ms"), "{error}");
    store.migrate().await.unwrap();
    store.check().await.unwrap();
}

#[tokio::test]
async fn a_table_of_somebody_elses_is_named_and_not_altered() {
    let ddl = PostgresStore::schema("leases").unwrap();
    for (ddl, words) in [
        ("CREATE TABLE leases (tenant text)".to_owned(), "it has no column name"),
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
async fn row_security_that_applies_to_the_role_is_refused() {
    let sandbox = Sandbox::new().await;
    let role = role(&sandbox.url, "").await;
    sandbox.run(&format!("GRANT SELECT, INSERT, UPDATE ON leases TO {}", role.name)).await;
    sandbox.run("ALTER TABLE leases ENABLE ROW LEVEL SECURITY").await;
    says(&sandbox.options().open(&role.url).unwrap(), ErrorKind::Denied, "grant the role BYPASSRLS").await;
    sandbox.store().check().await.unwrap();
}

#[tokio::test]
async fn what_only_a_claim_would_show_check_finds_by_one_that_is_taken_back() {
    let sandbox = Sandbox::new().await;
    sandbox.run("ALTER TABLE leases ADD COLUMN tenant text NOT NULL").await;
    says(&sandbox.store(), ErrorKind::Schema, "column without a default").await;
    sandbox.run("ALTER TABLE leases ALTER COLUMN tenant SET DEFAULT 'x'").await;
    sandbox.store().check().await.unwrap();
    let rows = sandbox.sql().await.client.query(&sandbox.text("SELECT name FROM leases"), &[]).await.unwrap();
    assert!(rows.is_empty());
}

#[tokio::test]
async fn a_row_changed_by_hand_is_damaged_and_says_where() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    take(&store, "a").await;
    sandbox.run("UPDATE leases SET holder = 'nobody'").await;
    let error = is_harmless(store.inspect(&name("a"), LONG).await, ErrorKind::Damaged);
    assert!(error.to_string().contains("\"nobody\" in column holder"), "{error}");
}

/// Without an error, so that each would look as if the lease were held or lost.
#[tokio::test]
async fn a_trigger_that_swallows_writes_is_pointed_out() {
    let sandbox = Sandbox::new().await;
    let swallow = sandbox.text("swallow_leases");
    sandbox
        .run(&format!(
            "CREATE FUNCTION {swallow}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
        ))
        .await;
    for (when, what) in [
        ("INSERT ON leases", "claim"),
        ("UPDATE OF renewed_at_ms ON leases", "renewal"),
        ("UPDATE OF expires_at_ms ON leases FOR EACH ROW WHEN (NEW.expires_at_ms = 0)", "release"),
    ] {
        let each = if when.contains("EACH") { "" } else { "FOR EACH ROW" };
        sandbox
            .run(&format!("CREATE TRIGGER swallow BEFORE {when} {each} EXECUTE FUNCTION {swallow}()"))
            .await;
        says(&sandbox.store(), ErrorKind::Schema, &format!("swallows writes: a {what} on trial")).await;
        sandbox.run("DROP TRIGGER swallow ON leases").await;
    }
    sandbox.store().check().await.unwrap();
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

#[tokio::test]
async fn a_pool_has_to_be_given_inside_a_runtime() {
    let manager = Manager::new("postgres://127.0.0.1:1/db".parse().unwrap(), NoTls);
    let pool = Pool::builder(manager).max_size(1).build().unwrap();
    let outside = std::thread::spawn(move || PostgresStore::options().open_pool(pool).map(|_| ()));
    is_harmless(outside.join().unwrap(), ErrorKind::Runtime);
}

#[tokio::test]
async fn a_pool_that_has_no_connection_left_is_waited_for_and_then_given_up() {
    let sandbox = Sandbox::new().await;
    let pool = Pool::builder(Manager::new(sandbox.url.parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let store = sandbox.options().open_pool(pool.clone()).unwrap();
    let held = take(&store, "a").await;
    let taken = pool.get().await.unwrap();
    let renewed = store.renew(&held.name, &held.holder, held.ttl, crate::support::SHORT).await;
    is_harmless(renewed, ErrorKind::Timeout);
    drop(taken);
    crate::support::renews(&store, &held).await;
    pool.close();
    is_harmless(store.claim(&new_claim("b"), crate::support::SHORT).await, ErrorKind::Unavailable);
}
