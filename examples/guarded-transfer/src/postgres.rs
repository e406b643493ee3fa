//! The bank in PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::{LeaseStore, Tenure};
use lease_postgres::PostgresStore;
use lease_postgres::tokio_postgres::{self, Client, NoTls};

use crate::bank::{AMOUNT, Bank, Ending, Outcome, Pause, START, Tables};

pub(crate) struct Postgres {
    url: String,
    store: PostgresStore,
    accounts: String,
    leases: String,
}

impl Postgres {
    pub(crate) fn open(url: &str, tables: &Tables) -> Outcome<Self> {
        let store = PostgresStore::options().table(tables.leases.as_str())?.open(url)?;
        let [accounts, leases] = [&tables.accounts, &tables.leases].map(ToString::to_string);
        Ok(Self { url: url.to_owned(), store, accounts, leases })
    }

    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// In the transaction that is open.
    async fn move_amount(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let change = format!("UPDATE {} SET balance = balance + $1 WHERE name = $2", self.accounts);
        client.execute(&change, &[&-AMOUNT, &"ann"]).await?;
        client.execute(&change, &[&AMOUNT, &"bob"]).await?;
        Ok(())
    }
}

#[async_trait]
impl Bank for Postgres {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.store.clone())
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn is_locked_by_the_stopped(&self) -> bool {
        // The server ends the session, by default after a ttl.
        false
    }

    async fn open_accounts(&self) -> Outcome<()> {
        let accounts = &self.accounts;
        let sql = format!(
            "DROP TABLE IF EXISTS {accounts};
             CREATE TABLE {accounts} (name text PRIMARY KEY, balance bigint NOT NULL);
             INSERT INTO {accounts} VALUES ('ann', {START}), ('bob', {START})"
        );
        Ok(self.connect().await?.batch_execute(&sql).await?)
    }

    async fn balances(&self) -> Outcome<[i64; 2]> {
        let sql = format!("SELECT balance FROM {} ORDER BY name", self.accounts);
        let rows = self.connect().await?.query(&sql, &[]).await?;
        let balances: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        balances.try_into().map_err(|_| "there are two accounts".into())
    }

    async fn transfer(&self) -> Outcome<()> {
        let client = self.connect().await?;
        client.batch_execute("BEGIN").await?;
        self.move_amount(&client).await?;
        client.batch_execute("COMMIT").await?;
        Ok(())
    }

    async fn guarded_transfer(&self, tenure: &Tenure, pause: Pause) -> Outcome<Ending> {
        let client = self.connect().await?;
        let guard = self.store.guard(tenure);
        let moved = guard.run(client, async |tx| {
            pause();
            self.move_amount(tx).await
        });
        Ending::of(moved.await)
    }

    async fn close(&self) -> Outcome<()> {
        let sql = format!("DROP TABLE IF EXISTS {}, {}", self.accounts, self.leases);
        Ok(self.connect().await?.batch_execute(&sql).await?)
    }
}
