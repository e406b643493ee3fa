//! The ledger on PostgreSQL.

use std::time::Duration;

use lease_core::{LeaseStore, Tenure};
use lease_postgres::PostgresStore;
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls};

use super::super::Failure;
use super::{COUNTER, Entry, LEDGER, ended, stay};
use crate::history::{Finish, Guard, Ledger};

/// Longer than any transaction of the lab's.
pub(crate) const AN_HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn create(url: &str) -> Result<(), Failure> {
    PostgresStore::open(url)?.migrate().await?;
    let sql = format!(
        "CREATE TABLE {COUNTER} (name text PRIMARY KEY, n bigint NOT NULL);
         CREATE TABLE {LEDGER} (place bigint, name text, term bigint, process bigint, incarnation bigint, tx bigint)"
    );
    connect(url, AN_HOUR).await?.batch_execute(&sql).await?;
    Ok(())
}

pub(super) async fn read(url: &str) -> Result<Vec<Ledger>, Failure> {
    let sql = format!("SELECT place, name, term, process, incarnation, tx FROM {LEDGER}");
    let rows = connect(url, AN_HOUR).await?.query(&sql, &[]).await?;
    let parts =
        |row: &tokio_postgres::Row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4), row.get(5));
    rows.iter().map(|row| super::row(parts(row))).collect()
}

pub(super) async fn write(store: &PostgresStore, url: &str, tenure: &Tenure, entry: Entry) -> Finish {
    let timings = tenure.timings();
    let Ok(Ok(client)) = timeout(timings.attempt(), connect(url, timings.ttl() * 3)).await else {
        return Finish::Failed;
    };
    let tx = match store.guard(tenure).begin(client).await {
        Ok(tx) => tx,
        Err(error) => return ended(&error),
    };
    (entry.steps)(Guard::Verified);
    let written = async {
        let count = format!(
            "INSERT INTO {COUNTER} VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET n = {COUNTER}.n + 1 RETURNING n"
        );
        let name = entry.lease.name.as_str();
        let place: i64 = tx.query_one(&count, &[&name]).await?.get(0);
        let insert = format!("INSERT INTO {LEDGER} VALUES ($1, $2, $3, $4, $5, $6)");
        let [process, incarnation] = [entry.process, entry.incarnation].map(i64::from);
        let number = entry.tx.cast_signed();
        tx.execute(&insert, &[&place, &name, &entry.lease.term, &process, &incarnation, &number]).await
    };
    if written.await.is_err() {
        return match tx.rollback().await {
            Ok(_) => Finish::Failed,
            Err(error) => ended(&error),
        };
    }
    (entry.steps)(Guard::Wrote(1));
    stay(tenure, entry.open).await;
    (entry.steps)(Guard::Commits);
    match tx.commit().await {
        Ok(_) => Finish::Committed,
        Err(error) => ended(&error),
    }
}

/// A connection that lasts for so long at most: where an answer never comes, nothing else ends it.
pub(crate) async fn connect(url: &str, lasts: Duration) -> Result<Client, Failure> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(timeout(lasts, connection));
    Ok(client)
}
