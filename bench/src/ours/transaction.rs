//! Guarded transactions, each on the engine's own driver as a user has it.

use lease_core::{Claimed, Lease, LeaseStore, Leases, Tenure};
use lease_mysql::MysqlStore;
use lease_postgres::PostgresStore;
use lease_sqlite::SqliteStore;
use mysql_async::prelude::Queryable;
use tokio_postgres::{NoTls, Statement};

use crate::Outcome;
use crate::engine::{Engine, Place, fresh_name};

/// A lease that is held and renewed, and a connection to write by.
pub(super) struct Transactions {
    _lease: Lease,
    tenure: Tenure,
    name: String,
    user: User,
}

enum User {
    Sqlite(SqliteStore, Box<rusqlite::Connection>),
    Postgres(PostgresStore, Option<tokio_postgres::Client>, Statement),
    Mysql(MysqlStore, Option<mysql_async::Conn>, mysql_async::Statement),
}

impl Transactions {
    pub(super) async fn begin(place: &Place) -> Outcome<Self> {
        let name = fresh_name("transaction");
        match place.engine {
            Engine::Sqlite => {
                let store = place.sqlite().await?;
                let connection = rusqlite::Connection::open(&place.at)?;
                connection.execute_batch("PRAGMA synchronous = EXTRA")?;
                connection.execute("INSERT INTO lease_bench_ledger VALUES (?, 0)", [&name])?;
                Self::hold(name, store.clone(), User::Sqlite(store, Box::new(connection))).await
            }
            Engine::Postgres => {
                let store = place.postgres()?;
                let (client, connection) = tokio_postgres::connect(&place.at, NoTls).await?;
                tokio::spawn(connection);
                client.execute("INSERT INTO lease_bench_ledger VALUES ($1, 0)", &[&name]).await?;
                let write = client.prepare("UPDATE lease_bench_ledger SET n = n + 1 WHERE name = $1").await?;
                Self::hold(name, store.clone(), User::Postgres(store, Some(client), write)).await
            }
            Engine::Mariadb | Engine::Mysql => {
                let store = place.mysql()?;
                let mut connection = mysql_async::Conn::from_url(&place.at).await?;
                connection.exec_drop("INSERT INTO lease_bench_ledger VALUES (?, 0)", (&name,)).await?;
                let write = connection.prep("UPDATE lease_bench_ledger SET n = n + 1 WHERE name = ?").await?;
                Self::hold(name, store.clone(), User::Mysql(store, Some(connection), write)).await
            }
        }
    }

    async fn hold(name: String, store: impl LeaseStore, user: User) -> Outcome<Self> {
        let Claimed::Granted(lease) = Leases::new(store)?.claim(name.as_str()).await? else {
            return Err("a name of its own is held".into());
        };
        Ok(Self { tenure: lease.tenure(), _lease: lease, name, user })
    }

    pub(super) async fn perform(&mut self) -> Outcome<()> {
        const GONE: &str = "the connection has gone with a transaction that failed";
        match &mut self.user {
            User::Sqlite(store, connection) => {
                let guarded = store.guard(&self.tenure).begin(connection)?;
                guarded
                    .prepare_cached("UPDATE lease_bench_ledger SET n = n + 1 WHERE name = ?")?
                    .execute([&self.name])?;
                guarded.commit()?;
            }
            User::Postgres(store, client, write) => {
                let guarded = store.guard(&self.tenure).begin(client.take().ok_or(GONE)?).await?;
                guarded.execute(&*write, &[&self.name]).await?;
                *client = Some(guarded.commit().await?);
            }
            User::Mysql(store, connection, write) => {
                let mut guarded = store.guard(&self.tenure).begin(connection.take().ok_or(GONE)?).await?;
                guarded.exec_drop(&*write, (&self.name,)).await?;
                *connection = Some(guarded.commit().await?);
            }
        }
        Ok(())
    }
}
