//! The bank in MySQL or MariaDB.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease_core::{LeaseStore, Tenure};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{self, Conn, Opts};

use crate::bank::{AMOUNT, Bank, Ending, Outcome, Pause, START, Tables};

pub(crate) struct Mysql {
    url: String,
    store: MysqlStore,
    accounts: String,
    leases: String,
}

impl Mysql {
    pub(crate) fn open(url: &str, tables: &Tables) -> Outcome<Self> {
        let store = MysqlStore::options().table(tables.leases.as_str())?.open(url)?;
        let [accounts, leases] = [&tables.accounts, &tables.leases].map(ToString::to_string);
        Ok(Self { url: url.to_owned(), store, accounts, leases })
    }

    async fn connect(&self) -> Result<Conn, mysql_async::Error> {
        Conn::new(Opts::from_url(&self.url)?).await
    }

    /// In the transaction that is open.
    async fn move_amount(&self, session: &mut impl Queryable) -> Result<(), mysql_async::Error> {
        let change = format!("UPDATE {} SET balance = balance + ? WHERE name = ?", self.accounts);
        session.exec_drop(&change, (-AMOUNT, "ann")).await?;
        session.exec_drop(&change, (AMOUNT, "bob")).await
    }
}

#[async_trait]
impl Bank for Mysql {
    fn store(&self) -> Arc<dyn LeaseStore> {
        Arc::new(self.store.clone())
    }

    fn ttl(&self) -> Duration {
        self.store.min_ttl()
    }

    fn is_locked_by_the_stopped(&self) -> bool {
        // The lock is taken right before the commit.
        false
    }

    async fn open_accounts(&self) -> Outcome<()> {
        let (mut conn, accounts) = (self.connect().await?, &self.accounts);
        conn.query_drop(format!("DROP TABLE IF EXISTS {accounts}")).await?;
        let columns = "(name VARCHAR(20) PRIMARY KEY, balance BIGINT NOT NULL) ENGINE = InnoDB";
        conn.query_drop(format!("CREATE TABLE {accounts} {columns}")).await?;
        let rows = format!("('ann', {START}), ('bob', {START})");
        conn.query_drop(format!("INSERT INTO {accounts} VALUES {rows}")).await?;
        Ok(conn.disconnect().await?)
    }

    async fn balances(&self) -> Outcome<[i64; 2]> {
        let mut conn = self.connect().await?;
        let balances: Vec<i64> =
            conn.query(format!("SELECT balance FROM {} ORDER BY name", self.accounts)).await?;
        conn.disconnect().await?;
        balances.try_into().map_err(|_| "there are two accounts".into())
    }

    async fn transfer(&self) -> Outcome<()> {
        let mut conn = self.connect().await?;
        conn.query_drop("START TRANSACTION").await?;
        self.move_amount(&mut conn).await?;
        conn.query_drop("COMMIT").await?;
        Ok(conn.disconnect().await?)
    }

    async fn guarded_transfer(&self, tenure: &Tenure, pause: Pause) -> Outcome<Ending> {
        let conn = self.connect().await?;
        let guard = self.store.guard(tenure);
        let moved = guard.run(conn, async |tx| {
            pause();
            self.move_amount(tx).await
        });
        Ending::of(moved.await)
    }

    async fn close(&self) -> Outcome<()> {
        let mut conn = self.connect().await?;
        conn.query_drop(format!("DROP TABLE IF EXISTS {}, {}", self.accounts, self.leases)).await?;
        Ok(conn.disconnect().await?)
    }
}
