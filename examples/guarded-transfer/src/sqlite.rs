//! The bank in a SQLite file.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::{LeaseStore, Tenure};
use lease_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::bank::{AMOUNT, Bank, Ending, Outcome, Pause, START, Tables};
use crate::worker::PATIENCE;

pub(crate) struct Sqlite {
    path: String,
    store: SqliteStore,
    accounts: String,
    leases: String,
}

impl Sqlite {
    pub(crate) async fn open(path: &str, tables: &Tables) -> Outcome<Self> {
        let store = SqliteStore::options().table(tables.leases.as_str())?.open(path).await?;
        let [accounts, leases] = [&tables.accounts, &tables.leases].map(ToString::to_string);
        Ok(Self { path: path.to_owned(), store, accounts, leases })
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(connection)
    }
}

/// In the transaction that is open.
fn move_amount(connection: &Connection, accounts: &str) -> rusqlite::Result<()> {
    let change = format!("UPDATE {accounts} SET balance = balance + ? WHERE name = ?");
    connection.execute(&change, (-AMOUNT, "ann"))?;
    connection.execute(&change, (AMOUNT, "bob"))?;
    Ok(())
}

#[async_trait]
impl Bank for Sqlite {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.store.clone())
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn is_locked_by_the_stopped(&self) -> bool {
        // The file has one writer, and the system keeps a stopped process's lock.
        true
    }

    async fn open_accounts(&self) -> Outcome<()> {
        let accounts = &self.accounts;
        Ok(self.connect()?.execute_batch(&format!(
            "DROP TABLE IF EXISTS {accounts};
             CREATE TABLE {accounts} (name TEXT PRIMARY KEY, balance INTEGER NOT NULL);
             INSERT INTO {accounts} VALUES ('ann', {START}), ('bob', {START})"
        ))?)
    }

    async fn balances(&self) -> Outcome<[i64; 2]> {
        let connection = self.connect()?;
        let mut all = connection.prepare(&format!("SELECT balance FROM {} ORDER BY name", self.accounts))?;
        let balances = all.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
        balances.try_into().map_err(|_| "there are two accounts".into())
    }

    async fn transfer(&self) -> Outcome<()> {
        let mut connection = self.connect()?;
        let tx = connection.transaction()?;
        move_amount(&tx, &self.accounts)?;
        Ok(tx.commit()?)
    }

    async fn guarded_transfer(&self, tenure: &Tenure, pause: Pause) -> Outcome<Ending> {
        let (connection, accounts) = (Box::new(self.connect()?), self.accounts.clone());
        let guard = self.store.guard(tenure);
        let run = guard.run(connection, move |tx| {
            pause();
            move_amount(tx, &accounts)
        });
        let (_connection, moved) = run.await;
        Ending::of(moved)
    }

    async fn close(&self) -> Outcome<()> {
        let (accounts, leases) = (&self.accounts, &self.leases);
        Ok(self
            .connect()?
            .execute_batch(&format!("DROP TABLE IF EXISTS {accounts}; DROP TABLE IF EXISTS {leases}"))?)
    }
}
