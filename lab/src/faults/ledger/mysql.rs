//! The ledger on MySQL and MariaDB.

use lease_core::{LeaseStore, Tenure};
use lease_mysql::MysqlStore;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder};
use tokio::time::timeout;

use super::super::Failure;
use super::{COUNTER, Entry, LEDGER, ended, stay};
use crate::history::{Finish, Guard, Ledger};

pub(super) async fn create(url: &str) -> Result<(), Failure> {
    MysqlStore::open(url)?.migrate().await?;
    let mut conn = connect(url).await?;
    let name = "name VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
    conn.query_drop(format!("CREATE TABLE {COUNTER} ({name} PRIMARY KEY, n BIGINT NOT NULL)")).await?;
    let rest = "term BIGINT, process BIGINT, incarnation BIGINT, tx BIGINT";
    conn.query_drop(format!("CREATE TABLE {LEDGER} (place BIGINT, {name}, {rest})")).await?;
    Ok(())
}

pub(super) async fn read(url: &str) -> Result<Vec<Ledger>, Failure> {
    let sql = format!("SELECT place, name, term, process, incarnation, tx FROM {LEDGER}");
    let rows: Vec<_> = connect(url).await?.query(sql).await?;
    rows.into_iter().map(super::row).collect()
}

pub(super) async fn write(store: &MysqlStore, url: &str, tenure: &Tenure, entry: Entry) -> Finish {
    let Ok(Ok(conn)) = timeout(tenure.timings().attempt(), connect(url)).await else {
        return Finish::Failed;
    };
    let mut tx = match store.guard(tenure).begin(conn).await {
        Ok(tx) => tx,
        Err(error) => return ended(&error),
    };
    (entry.steps)(Guard::Verified);
    let written = async {
        let name = entry.lease.name.as_str();
        let count = format!("INSERT INTO {COUNTER} VALUES (?, 1) ON DUPLICATE KEY UPDATE n = n + 1");
        tx.exec_drop(count, (name,)).await?;
        let place: Option<i64> =
            tx.exec_first(format!("SELECT n FROM {COUNTER} WHERE name = ?"), (name,)).await?;
        let insert = format!("INSERT INTO {LEDGER} VALUES (?, ?, ?, ?, ?, ?)");
        let Entry { lease, process, incarnation, tx: number, .. } = &entry;
        tx.exec_drop(insert, (place, name, lease.term, process, incarnation, number)).await
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

pub(crate) async fn connect(url: &str) -> Result<Conn, Error> {
    // Only `ssl-mode` of the store's is unknown to the driver.
    let plain = url.split('?').next().unwrap_or(url);
    let opts = OptsBuilder::from_opts(Opts::from_url(plain)?).prefer_socket(false);
    Conn::new(opts).await
}
