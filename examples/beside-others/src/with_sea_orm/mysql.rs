//! On MySQL and MariaDB: the lease's row is locked right before the commit.

use std::time::Duration;

use lease_core::Tenure;
use lease_mysql::MysqlStore;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, RuntimeErr, SqlxMySqlConnector,
    TransactionTrait,
};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, Executor};

use super::statement;
use crate::with_sqlx::mysql::is_lost;
use crate::{NotDone, steps};

/// Connections for guarded transactions alone, under leases of this ttl: the bounds are settings of the session.
pub async fn connect(url: &str, ttl: Duration) -> Result<DatabaseConnection, sqlx::Error> {
    let options = MySqlPoolOptions::new().after_connect(move |connection, _| {
        Box::pin(async move {
            for set in steps::mysql_session(ttl) {
                connection.execute(AssertSqlSafe(set)).await?;
            }
            Ok(())
        })
    });
    Ok(SqlxMySqlConnector::from_sqlx_mysql_pool(options.connect(url).await?))
}

/// Does the work in a transaction that cannot commit after a successor's claim, on a connection of [`connect`].
pub async fn guarded(
    store: &MysqlStore,
    tenure: &Tenure,
    database: &DatabaseConnection,
    work: impl AsyncFnOnce(&DatabaseTransaction) -> Result<(), DbErr>,
) -> Result<(), NotDone> {
    let fence = store.fence(tenure);
    let parameters = || fence.parameters().map(Into::into);
    let transaction = steps::beside_loss(tenure, async {
        // In a transaction of its own: it would keep changes of the lease table waiting.
        let look = database.begin().await?;
        look.query_one_raw(statement(database, fence.verify(), parameters())).await?.ok_or(NotDone::Lost)?;
        look.rollback().await?;
        let transaction = database.begin().await?;
        work(&transaction).await?;
        let last = statement(database, fence.fence(), parameters());
        transaction.query_one_raw(last).await.map_err(lost_or_failed)?;
        Ok(transaction)
    });
    // At once: since the fence nobody renews the lease.
    steps::commit(tenure, transaction.await?.commit()).await
}

/// The fence has a number by which it says that the lease is lost.
fn lost_or_failed(error: DbErr) -> NotDone {
    match &error {
        DbErr::Query(RuntimeErr::SqlxError(said)) | DbErr::Exec(RuntimeErr::SqlxError(said))
            if is_lost(said) =>
        {
            NotDone::Lost
        }
        _ => error.into(),
    }
}
