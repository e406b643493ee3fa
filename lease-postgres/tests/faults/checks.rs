//! What keeps a database from carrying leases, each with its own words. None of them holds a password.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use lease_core::store::{ConditionalAnswer, SlotAnswer, StoreError, Superseded, UnfinishedSlot};
use lease_core::{ErrorKind, LeaseStore, Slot, Term};
use lease_postgres::PostgresStore;
use lease_postgres::deadpool_postgres::{Manager, Pool};
use lease_testkit::damage::every_column_with_every_value;
use test_servers::{Product, Server, Setup};
use tokio_postgres::NoTls;

use crate::common::role;
use crate::support::{LONG, SHORT, Sandbox, database, is_harmless, name, new_claim, take, with_database};

/// What `check` says, which must be this kind and hold these words, and no password.
pub(crate) async fn says(store: &PostgresStore, kind: ErrorKind, words: &str) -> StoreError {
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

#[tokio::test]
async fn whatever_stands_in_a_column_is_read_as_it_stands_or_said_to_be_damaged() {
    let sandbox = Sandbox::new().await;
    let store: Arc<dyn LeaseStore> = Arc::new(sandbox.store());
    let sql = sandbox.sql().await;
    // What keeps most of it out.
    sql.run(&sandbox.text(
        "DO $$ DECLARE it text; BEGIN
            FOR it IN SELECT conname FROM pg_constraint WHERE conrelid = 'leases'::regclass AND contype = 'c' LOOP
                EXECUTE format('ALTER TABLE leases DROP CONSTRAINT %I', it);
            END LOOP;
            FOR it IN SELECT attname FROM pg_attribute
                WHERE attrelid = 'leases'::regclass AND attnum > 0 AND attname <> 'name' LOOP
                EXECUTE format('ALTER TABLE leases ALTER COLUMN %I DROP NOT NULL', it);
            END LOOP;
        END $$",
    ))
    .await;
    let taken = every_column_with_every_value(&store, async |name, assignment| {
        let edit = sandbox.text(&format!("UPDATE leases SET {assignment} WHERE name = '{name}'"));
        sql.client.execute(&edit, &[]).await.is_ok()
    })
    .await;
    // Five columns of text take everything, nine of numbers the numbers, the text that is one, and NULL.
    assert_eq!(taken, 5 * 12 + 9 * 8);
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
async fn a_pool_has_to_be_given_inside_a_runtime() {
    let manager = Manager::new("postgres://127.0.0.1:1/db".parse().unwrap(), NoTls);
    let pool = Pool::builder(manager).max_size(1).build().unwrap();
    let outside = thread::spawn(move || PostgresStore::options().open_pool(pool).map(|_| ()));
    is_harmless(outside.join().unwrap(), ErrorKind::Runtime);
}

#[tokio::test]
async fn a_pool_that_has_no_connection_left_is_waited_for_and_then_given_up() {
    let sandbox = Sandbox::new().await;
    let pool = Pool::builder(Manager::new(sandbox.url.parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let store = sandbox.options().open_pool(pool.clone()).unwrap();
    let held = take(&store, "a").await;
    let taken = pool.get().await.unwrap();
    let renewed = store.renew(&held.name, &held.holder, held.ttl, SHORT).await;
    is_harmless(renewed, ErrorKind::Timeout);
    drop(taken);
    crate::support::renews(&store, &held).await;
    pool.close();
    is_harmless(store.claim(&new_claim("b"), SHORT).await, ErrorKind::Unavailable);
}

#[tokio::test]
async fn each_right_that_is_lacking_is_named_by_check() {
    let sandbox = Sandbox::new().await;
    let role = role(&sandbox.url, "").await;
    let store = sandbox.options().open(&role.url).unwrap();
    for right in ["SELECT", "INSERT", "UPDATE"] {
        sandbox.run(&format!("GRANT SELECT, INSERT, UPDATE ON leases TO {}", role.name)).await;
        store.check().await.unwrap();
        sandbox.run(&format!("REVOKE {right} ON leases FROM {}", role.name)).await;
        let error = is_harmless(store.check().await, ErrorKind::Denied);
        let says = format!(
            "the role lacks rights; have the owner GRANT {right} ON public.{} to the role",
            sandbox.table
        );
        assert_eq!(error.to_string(), says);
        let error = is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Denied);
        assert!(error.to_string().contains("42501") && !format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[tokio::test]
async fn a_schema_of_ones_own_carries_leases_and_has_to_be_there() {
    let sandbox = Sandbox::without_table(&crate::common::shared());
    let schema = crate::common::unique("lease_schema");
    let options = sandbox.options().schema(&schema).unwrap();
    let store = options.clone().open(&sandbox.url).unwrap();
    assert!(
        store.describe().ends_with(&format!("(table {schema}.{})", sandbox.table)),
        "{}",
        store.describe()
    );
    let error = is_harmless(store.migrate().await, ErrorKind::Schema);
    assert!(error.to_string().contains("; create it, or name another"), "{error}");
    sandbox.run(&format!("CREATE SCHEMA {schema}")).await;
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    take(&store, "a").await;
    let role = role(&sandbox.url, "").await;
    sandbox.run(&format!("GRANT SELECT, INSERT, UPDATE ON {schema}.leases TO {}", role.name)).await;
    let least = options.open(&role.url).unwrap();
    let error = is_harmless(least.check().await, ErrorKind::Denied);
    assert!(error.to_string().ends_with(&format!("GRANT USAGE ON SCHEMA {schema} to the role")), "{error}");
    sandbox.run(&format!("GRANT USAGE ON SCHEMA {schema} TO {}", role.name)).await;
    least.check().await.unwrap();
    // A table that is whole is left alone, whoever asks.
    least.migrate().await.unwrap();
    // The default schema has no table of that name.
    is_harmless(sandbox.store().check().await, ErrorKind::Schema);
}

/// Servers that speak the protocol and are no PostgreSQL: this one lets anybody in, answers `version()`, and refuses
/// everything else.
fn start(server_version: &'static str, version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://me:secret@{}/db?sslmode=disable", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming() {
            // A client that leaves ends its session.
            thread::spawn(move || client.and_then(|client| serve(client, server_version, version)));
        }
    });
    url
}

fn serve(mut client: TcpStream, server_version: &str, version: &str) -> io::Result<()> {
    read_body(&mut client)?;
    let ready = message(b'Z', b"I");
    let parameter = message(b'S', format!("server_version\0{server_version}\0").as_bytes());
    client.write_all(&[message(b'R', &[0; 4]), parameter, ready.clone()].concat())?;
    loop {
        let mut kind = [0];
        client.read_exact(&mut kind)?;
        let text = read_body(&mut client)?;
        let asks_version = text.windows(9).any(|part| part == b"version()");
        let answer = if asks_version {
            let column =
                [&b"\0\x01version\0"[..], &[0; 6], &25_i32.to_be_bytes(), &[0xff; 6], &[0; 2]].concat();
            let length = i32::try_from(version.len()).unwrap().to_be_bytes();
            let row = [&b"\0\x01"[..], &length, version.as_bytes()].concat();
            [message(b'T', &column), message(b'D', &row), message(b'C', b"SELECT 1\0")].concat()
        } else {
            message(b'E', b"SERROR\0VERROR\0C42883\0Mno such function\0\0")
        };
        client.write_all(&[answer, ready.clone()].concat())?;
    }
}

fn read_body(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    client.read_exact(&mut body)?;
    Ok(body)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

#[tokio::test]
async fn each_is_refused_by_its_name() {
    for (server_version, version, says) in [
        ("24.8.2.3", "24.8.2.3", "ClickHouse 24.8.2.3"),
        ("13.0.0", "CockroachDB CCL v24.1.0", "CockroachDB CCL v24.1.0"),
        ("8.0.2", "PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.66954", "Redshift 1.0.66954"),
        ("13.23", "PostgreSQL 13.23 on x86_64-pc-linux-gnu", "PostgreSQL 13.23"),
    ] {
        let store = PostgresStore::open(&start(server_version, version)).unwrap();
        let error = is_harmless(store.check().await, ErrorKind::Unsupported);
        assert!(error.to_string().contains(says) && !error.to_string().contains("secret"), "{error}");
        is_harmless(store.claim(&new_claim("a"), SHORT).await, ErrorKind::Unsupported);
    }
}

#[tokio::test]
async fn instants_changed_by_hand_are_named_or_never_run_again() {
    let sandbox = Sandbox::new().await;
    let store = sandbox.store();
    let (slot, later) = (Slot::from_millis(500).unwrap(), Slot::from_millis(600).unwrap());
    let set = async |text: &str, [last, unfinished, rerun]: [i64; 3]| {
        take(&store, text).await;
        let slots = format!("slot_ms = {last}, unfinished_slot_ms = {unfinished}, rerun_slot_ms = {rerun}");
        sandbox.run(&format!("UPDATE leases SET expires_at_ms = 1, {slots} WHERE name = '{text}'")).await;
        name(text)
    };
    for (n, (column, slots)) in [
        ("slot_ms", [-5, 0, 0]),
        ("unfinished_slot_ms", [500, i64::MIN, 0]),
        ("rerun_slot_ms", [500, 500, -7]),
    ]
    .into_iter()
    .enumerate()
    {
        let name = set(&n.to_string(), slots).await;
        let error =
            is_harmless(store.claim_slot(&new_claim(name.as_str()), later, LONG).await, ErrorKind::Damaged);
        let text = error.to_string();
        assert!(text.contains(&format!("column {column}")) && !text.contains('\n'), "{text}");
    }
    let name = set("none of them", [-5, -5, -9]).await;
    is_harmless(store.unfinished_slots(std::slice::from_ref(&name), LONG).await, ErrorKind::Damaged);
    is_harmless(store.last_slot(&name, LONG).await, ErrorKind::Damaged);
    // Later ones than the last: nothing of them is run again, and none is given up for a later claim.
    for (n, (slots, given_up)) in [
        ([500, 700, 0], None),
        ([500, 500, 700], Some(Superseded { slot, rerun: false })),
        ([500, 700, 700], None),
    ]
    .into_iter()
    .enumerate()
    {
        let name = set(&format!("ahead {n}"), slots).await;
        assert_eq!(store.unfinished_slots(std::slice::from_ref(&name), LONG).await.unwrap(), []);
        for (slot, term) in [(500, Term::FIRST), (700, Term::FIRST)] {
            let seen = UnfinishedSlot { name: name.clone(), slot: Slot::from_millis(slot).unwrap(), term };
            let answer = store.claim_rerun(&new_claim(name.as_str()), &seen, LONG).await.unwrap();
            assert_eq!(answer, ConditionalAnswer::Moved, "{slots:?}");
        }
        let granted = SlotAnswer::Granted { term: Term::new(2).unwrap(), superseded: given_up };
        assert_eq!(
            store.claim_slot(&new_claim(name.as_str()), later, LONG).await.unwrap(),
            granted,
            "{slots:?}"
        );
    }
}
