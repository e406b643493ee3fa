//! The SQL of the pages runs, on the servers that it is for.

use lease_core::{Holder, LeaseStore};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable};
use lease_postgres::PostgresStore;
use lease_postgres::tokio_postgres::{Client, NoTls, connect};
use lease_sqlite::SqliteStore;
use rusqlite::Connection;
use test_servers::Product;

const PAGES: &[&str] =
    &[include_str!("../../../docs/migrating.md"), include_str!("../../../docs/operations.md")];

/// The logins of the pages, and the database of one. Here they get names that no other run has.
const NAMES: &[&str] = &["owner", "app", "viewer"];

/// What an old lock table looks like.
const LOCKS: &str =
    "CREATE TABLE locks (name VARCHAR(99) PRIMARY KEY, locked_by VARCHAR(99), locked_until TIMESTAMP)";

/// Every statement of the pages, in their order, with the names that this run has.
fn statements(run: &str) -> Vec<String> {
    let blocks = PAGES.iter().flat_map(|page| page.split("```sql\n").skip(1));
    let sql: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    let without_comments = |line: &str| line.split("--").next().unwrap_or_default().to_owned();
    let sql: Vec<String> = sql.join("\n").lines().map(without_comments).collect();
    let parts: Vec<String> = sql.join("\n").split(';').map(|part| part.trim().to_owned()).collect();
    let statements: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    assert!(statements.len() >= 13, "the pages have fewer statements than they had: {statements:?}");
    statements.iter().map(|statement| renamed(statement, run)).collect()
}

fn renamed(statement: &str, run: &str) -> String {
    let mut words: Vec<String> = statement
        .split_inclusive(|c: char| !c.is_alphanumeric() && c != '_')
        .map(ToOwned::to_owned)
        .collect();
    for word in &mut words {
        if let Some(name) = NAMES.iter().find(|name| word.trim_end_matches([',', '\'', '.', ' ']) == **name) {
            *word = word.replace(name, &format!("{name}_{run}"));
        }
    }
    words.concat()
}

fn is_of_postgres(statement: &str) -> bool {
    ["pg_", "public"].iter().any(|word| statement.contains(word))
}

fn is_of_mysql(statement: &str) -> bool {
    ["INNODB_TRX", ".leases TO '"].iter().any(|word| statement.contains(word)) && !is_of_postgres(statement)
}

fn run_name() -> String {
    Holder::mint().unwrap().to_string()[..8].to_owned()
}

async fn postgres(url: &str) -> Client {
    let (client, connection) = connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn all(client: &Client, statements: &[String]) {
    for statement in statements {
        let done = client.batch_execute(statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

#[tokio::test]
async fn on_postgresql() {
    let (server, run) = (test_servers::shared(Product::Postgres), run_name());
    let admin = postgres(&server).await;
    let made = NAMES.iter().map(|name| format!("CREATE ROLE {name}_{run}"));
    all(&admin, &made.chain([format!("CREATE DATABASE pages_{run}")]).collect::<Vec<_>>()).await;
    let url = format!("{}/pages_{run}", server.rsplit_once('/').unwrap().0);
    PostgresStore::open(&url).unwrap().migrate().await.unwrap();
    let client = postgres(&url).await;
    client.batch_execute(LOCKS).await.unwrap();
    let mut statements = statements(&run);
    statements.retain(|statement| !is_of_mysql(statement));
    assert!(statements.len() >= 10, "{statements:?}");
    all(&client, &statements).await;
    drop(client);
    let roles = NAMES.iter().map(|name| format!("DROP ROLE {name}_{run}"));
    all(&admin, &[format!("DROP DATABASE pages_{run} WITH (FORCE)")]).await;
    all(&admin, &roles.collect::<Vec<_>>()).await;
}

async fn on_a_server_of(product: Product) {
    let (server, run) = (test_servers::shared(product), run_name());
    let opts = Opts::from_url(&server).unwrap();
    let mut conn = Conn::new(opts.clone()).await.unwrap();
    for name in NAMES {
        conn.query_drop(format!("CREATE USER {name}_{run}")).await.unwrap();
    }
    conn.query_drop(format!("CREATE DATABASE app_{run}")).await.unwrap();
    let here = OptsBuilder::from_opts(opts).db_name(Some(format!("app_{run}")));
    MysqlStore::options().open_config(here).unwrap().migrate().await.unwrap();
    conn.query_drop(format!("USE app_{run}")).await.unwrap();
    conn.query_drop(LOCKS).await.unwrap();
    let mut statements = statements(&run);
    statements.retain(|statement| !is_of_postgres(statement));
    assert!(statements.len() >= 8, "{statements:?}");
    for statement in statements {
        let done = conn.query_drop(&statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    conn.query_drop(format!("DROP DATABASE app_{run}")).await.unwrap();
    for name in NAMES {
        conn.query_drop(format!("DROP USER {name}_{run}")).await.unwrap();
    }
}

#[tokio::test]
async fn on_mysql() {
    on_a_server_of(Product::MySql).await;
}

#[tokio::test]
async fn on_mariadb() {
    on_a_server_of(Product::MariaDb).await;
}

#[test]
fn on_sqlite() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(&SqliteStore::schema("leases").unwrap()).unwrap();
    let mut statements = statements("here");
    statements.retain(|statement| !is_of_postgres(statement) && !is_of_mysql(statement));
    // SQLite has no clock of that name; an old lock table is on a server.
    statements.retain(|statement| !statement.contains("now()"));
    assert!(statements.len() >= 3, "{statements:?}");
    for statement in statements {
        connection.execute_batch(&statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}
