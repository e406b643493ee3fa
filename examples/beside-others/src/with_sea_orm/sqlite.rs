//! On SQLite: the file's one write lock is held from the begin to the end.

use std::path::Path;

use lease_core::{Tenure, Timings};
use lease_sqlite::SqliteStore;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, SqliteTransactionMode,
    SqlxSqliteConnector, TransactionOptions, TransactionTrait,
};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use super::statement;
use crate::{NotDone, steps};

/// Connections to the file of the leases, which wait for its write lock within an attempt of the leases'.
pub async fn connect(file: impl AsRef<Path>, timings: &Timings) -> Result<DatabaseConnection, sqlx::Error> {
    let options = SqliteConnectOptions::new().filename(file).busy_timeout(steps::busy_timeout(timings));
    Ok(SqlxSqliteConnector::from_sqlx_sqlite_pool(SqlitePool::connect_with(options).await?))
}

/// Does the work in a transaction that cannot commit after a successor's claim, on a connection of [`connect`].
pub async fn guarded(
    store: &SqliteStore,
    tenure: &Tenure,
    database: &DatabaseConnection,
    work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<(), DbErr>,
) -> Result<(), NotDone> {
    let fence = store.fence(tenure);
    // No other renewal gets in: this transaction carries one, which counts when it is committed.
    let renewal = tenure.carry_renewal();
    // As `fence.begin()`.
    let immediate = TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    let done = steps::beside_loss(tenure, async {
        let transaction = database.begin_with_options(immediate).await?;
        let (name, holder, ttl) = fence.parameters();
        let verify = statement(database, fence.verify(), [name.into(), holder.into(), ttl.into()]);
        let held = transaction.query_one_raw(verify).await?.ok_or(NotDone::Lost)?;
        let step_down: i64 = held.try_get_by_index(1)?;
        work(&transaction).await?;
        if tenure.check() { Ok((transaction, step_down != 0)) } else { Err(NotDone::Lost) }
    });
    let (transaction, step_down) = done.await?;
    steps::commit(tenure, transaction.commit()).await?;
    renewal.committed(step_down);
    Ok(())
}
