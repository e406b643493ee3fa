//! A database of a test's own, with a lease table and two accounts of 100 each.

use std::time::Duration;

use lease_core::store::{Claim, ConditionalAnswer};
use lease_core::{Claimed, Holder, Instance, Lease, LeaseName, LeaseStore, Leases, Timings};
use lease_mysql::MysqlStore;
use lease_postgres::PostgresStore;
use lease_sqlite::SqliteStore;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection, SqliteConnection, raw_sql};
use tempfile::TempDir;
use test_servers::Product;

/// So long that no renewal and no end of a lease comes into a test.
const TTL: Duration = Duration::from_secs(600);

/// How long a call of the store's may take; and how long a successor waits for a file that is locked.
const PATIENCE: Duration = Duration::from_secs(30);
const AT_A_LOCKED_FILE: Duration = Duration::from_millis(200);

/// Where the accounts and the leases are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum On {
    Postgres,
    MariaDb,
    MySql,
    Sqlite,
}

impl On {
    /// Whether a successor's claim is kept out of an open transaction; else the transaction is, of the commit, by the claim.
    pub fn keeps_successors_out(self) -> bool {
        matches!(self, Self::Postgres | Self::Sqlite)
    }
}

pub enum Store {
    Postgres(PostgresStore),
    Mysql(MysqlStore),
    Sqlite(SqliteStore),
}

impl Store {
    fn leases(&self) -> &dyn LeaseStore {
        match self {
            Self::Postgres(store) => store,
            Self::Mysql(store) => store,
            Self::Sqlite(store) => store,
        }
    }
}

pub struct Bank {
    pub store: Store,
    /// For sqlx, diesel and sea-orm alike; of SQLite the file.
    pub url: String,
    _folder: Option<TempDir>,
}

const ACCOUNTS: &str = "CREATE TABLE accounts (name VARCHAR(20) PRIMARY KEY, balance BIGINT NOT NULL);
                        INSERT INTO accounts VALUES ('ann', 100), ('bob', 100)";

const BALANCES: &str = "SELECT balance FROM accounts ORDER BY name";

impl Bank {
    pub async fn open(on: On) -> Self {
        let bank = match on {
            On::Postgres => return Self::on_postgres(server(Product::Postgres)).await,
            On::MariaDb => Self::on_mysql(Product::MariaDb).await,
            On::MySql => Self::on_mysql(Product::MySql).await,
            On::Sqlite => Self::on_sqlite().await,
        };
        bank.store.leases().migrate().await.unwrap();
        bank
    }

    /// On a server of one's own.
    pub async fn on_postgres(server: String) -> Self {
        let schema = name();
        let mut connection = PgConnection::connect(&server).await.unwrap();
        run_on_postgres(&mut connection, format!("CREATE SCHEMA {schema}")).await;
        let join = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{join}options=-csearch_path%3D{schema}");
        run_on_postgres(&mut PgConnection::connect(&url).await.unwrap(), ACCOUNTS.to_owned()).await;
        let store = PostgresStore::options().schema(&schema).unwrap().open(&server).unwrap();
        store.migrate().await.unwrap();
        Self { store: Store::Postgres(store), url, _folder: None }
    }

    async fn on_mysql(product: Product) -> Self {
        let (server, database) = (server(product), name());
        let make = format!("CREATE DATABASE {database}; USE {database}; {ACCOUNTS}");
        let mut connection = MySqlConnection::connect(&server).await.unwrap();
        raw_sql(AssertSqlSafe(make)).execute(&mut connection).await.unwrap();
        let (before, query) = server.split_once('?').unwrap_or((&server, ""));
        let (authority, _) = before.rsplit_once('/').expect("the URL names a database");
        let url = format!("{authority}/{database}?{query}");
        let store = MysqlStore::open(url.trim_end_matches('?')).unwrap();
        Self { store: Store::Mysql(store), url: url.trim_end_matches('?').to_owned(), _folder: None }
    }

    async fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bank.db").to_str().unwrap().to_owned();
        let store = SqliteStore::open(&file).await.unwrap();
        store.migrate().await.unwrap();
        let mut connection = SqliteConnection::connect(&file).await.unwrap();
        raw_sql(ACCOUNTS).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        Self { store: Store::Sqlite(store), url: file, _folder: Some(folder) }
    }

    pub async fn balances(&self) -> Vec<i64> {
        match &self.store {
            Store::Postgres(_) => {
                let mut connection = PgConnection::connect(&self.url).await.unwrap();
                sqlx::query_scalar(BALANCES).fetch_all(&mut connection).await.unwrap()
            }
            Store::Mysql(_) => {
                let mut connection = MySqlConnection::connect(&self.url).await.unwrap();
                sqlx::query_scalar(BALANCES).fetch_all(&mut connection).await.unwrap()
            }
            Store::Sqlite(_) => {
                let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
                sqlx::query_scalar(BALANCES).fetch_all(&mut connection).await.unwrap()
            }
        }
    }

    pub async fn claim(&self) -> Lease {
        let builder = match &self.store {
            Store::Postgres(store) => Leases::builder(store.clone()),
            Store::Mysql(store) => Leases::builder(store.clone()),
            Store::Sqlite(store) => Leases::builder(store.clone()),
        };
        let leases = builder.timings(Timings::from_ttl(TTL).unwrap()).build().unwrap();
        match leases.claim("bank").await.unwrap() {
            Claimed::Granted(lease) => lease,
            Claimed::Held(refusal) => panic!("{refusal:?}"),
        }
    }

    /// Claims as somebody who is sure that the holder is dead, whatever the clock says. Whether it is granted.
    pub async fn is_succeeded(&self) -> bool {
        self.is_succeeded_within(PATIENCE).await
    }

    /// The same while a transaction is open, for whose end nobody waits at a locked file.
    pub async fn is_succeeded_meanwhile(&self) -> bool {
        let within = if matches!(self.store, Store::Sqlite(_)) { AT_A_LOCKED_FILE } else { PATIENCE };
        self.is_succeeded_within(within).await
    }

    async fn is_succeeded_within(&self, within: Duration) -> bool {
        let file;
        let store = if let Store::Sqlite(_) = &self.store {
            // As another process would.
            file = SqliteStore::open(&self.url).await.unwrap();
            &file
        } else {
            self.store.leases()
        };
        let name = LeaseName::new("bank").unwrap();
        let seen = store.inspect(&name, PATIENCE).await.unwrap().row.unwrap();
        let claim =
            Claim { name, holder: Holder::mint().unwrap(), ttl: TTL, instance: Instance::named("next") };
        if let Ok(answer) = store.claim_observed(&claim, &seen.observed(), within).await {
            return matches!(answer, ConditionalAnswer::Granted(_));
        }
        // The file was locked, or the answer late: what counts is what became of the row.
        let now = store.inspect(&claim.name, PATIENCE).await.unwrap().row.unwrap();
        now.observed() != seen.observed()
    }
}

async fn run_on_postgres(connection: &mut PgConnection, sql: String) {
    raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap();
}

/// That of the variable, which `cargo xtask db up` prints; nothing is started for a program apart from the workspace.
fn server(product: Product) -> String {
    let url = product.named_url();
    url.unwrap_or_else(|| panic!("{} is not set; `cargo xtask db up` prints it", product.variable()))
}

fn name() -> String {
    format!("bank_{}", Holder::mint().unwrap())
}
